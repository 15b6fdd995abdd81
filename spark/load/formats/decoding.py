"""How a load decodes values: a format and its schemas, as they stand in the plan.

Decoded rows have the value as a struct, and two columns more: the error, null for a row that decoded, and the bytes of
a value that did not.

Confluent's prefix: a zero byte, and the id of the schema as a big-endian int32. Source: Confluent's documentation,
"Wire format" of Schema Registry.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from headgate.protocol.topic_partition import TopicPartition

ERROR, BYTES = "_error", "_bytes"
RAW, JSON, AVRO, PROTOBUF, DEBEZIUM = "raw", "json", "avro", "protobuf", "debezium"
FORMATS: Final = (RAW, JSON, AVRO, PROTOBUF)
NO_KEY = "the record has no key"
PREFIX_BYTES = 5
UNLIMITED = (1 << 63) - 1
_SHOWN_BYTES = 40


class RejectLimitExceeded(Exception):
    """More values than accepted do not decode; the text names the place of one, its error and its first bytes."""

    def __init__(self, partition: TopicPartition, rejected: Any, limit: int) -> None:
        row = rejected.slice(0, 1).to_pylist()[0]
        self.arguments = partition, rejected, limit
        super().__init__(
            f"more than {limit} values of {partition} do not decode. At offset {row['offset']}: {row['error']}; the "
            f"value begins with {(row['value'] or b'')[:_SHOWN_BYTES]!r}. Nothing is published; correct the schema, or "
            "accept more with --reject-limit"
        )


class Decoding(NamedTuple):
    """`schema`: Spark's DDL for JSON and Debezium, an Avro schema, or for Protobuf the base64 of a descriptor set.

    `schemas`: with Confluent's prefix, the Avro schemas of writers by id. `message`: the full name for Protobuf.
    """

    format: str = RAW
    schema: str = ""
    is_confluent: bool = False
    schemas: Mapping[int, str] = {}
    message: str = ""
    reject_limit: int = UNLIMITED

    @property
    def needs_spark(self) -> bool:
        """Spark's own functions decode the values."""
        return self.format in (JSON, AVRO, DEBEZIUM)

    def to_options(self) -> dict[str, str]:
        """For the options of a plan."""
        return {
            "format": self.format,
            "schema": self.schema,
            "is_confluent": str(self.is_confluent),
            "schemas": json.dumps(self.schemas),
            "message": self.message,
        }

    @classmethod
    def of_options(cls, options: Mapping[str, str], reject_limit: int) -> Decoding:
        """The decoding of a plan; the limit may change when the plan is done again."""
        schemas = {int(name): schema for name, schema in json.loads(options["schemas"]).items()}
        is_confluent = options["is_confluent"] == "True"
        return cls(options["format"], options["schema"], is_confluent, schemas, options["message"], reject_limit)
