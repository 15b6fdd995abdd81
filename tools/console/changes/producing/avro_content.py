"""Keys and values that a visitor types as JSON, encoded by the schemas of the console's command line."""

from __future__ import annotations

import struct
from typing import Any, Final

from headgate.tools.console.changes.producing.message_parameters import AvroContent
from headgate.tools.console.messages import schema_options
from headgate.tools.console.messages.values.avro import AvroSchema
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.schema_registry import AVRO, RegisteredSchema, SchemaError, open_source

_TIMEOUT_S: Final = 8.0
_MOST_ID: Final = (1 << 31) - 1
_PREFIX: Final = struct.Struct(">xi")  # Confluent's: a zero byte, and the schema id


class AvroEncoder:
    """Encodes the keys and values of one topic."""

    def __init__(self, topic: str, parameters: Parameters) -> None:
        """`parameters`: `key_schema` and `value_schema`, ids of schemas; without one the topic's newest schema."""
        self._topic = topic
        self._parameters = parameters

    def __call__(self, part: str, value: Any) -> AvroContent:
        """The bytes with Confluent's prefix, or without one if the schema has no id. Raises BadParameter."""
        number = None
        if self._parameters.text(f"{part}_schema", ""):
            number = self._parameters.number(f"{part}_schema", least=1, most=_MOST_ID)
        try:
            schema = self._find(part, number)
            content = AvroSchema(schema.text, schema.references).encode(value)
        except (SchemaError, ValueError) as error:
            raise BadParameter(f"the {part} cannot be encoded as Avro: {error}") from None
        number = schema.number if number is None else number
        if number is None:
            return AvroContent(content, f"{self._topic}-{part}, without a prefix")
        return AvroContent(_PREFIX.pack(number) + content, f"{number}")

    def _find(self, part: str, number: int | None) -> RegisteredSchema:
        """Raises SchemaError."""
        where = schema_options.current().schemas
        if where is None:
            raise SchemaError("the console was started without schemas; start it with --schemas folder|http://registry")
        source = open_source(where, _TIMEOUT_S)
        found = source.by_subject(f"{self._topic}-{part}") if number is None else source.by_id(number)
        if found.kind != AVRO:
            raise SchemaError(f"its schema is of type {found.kind}, not {AVRO}")
        return found
