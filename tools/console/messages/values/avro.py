"""Avro values by fastavro, as values for JSON, and back."""

from __future__ import annotations

import datetime as dt
import decimal
import io
import json
import struct
import uuid
from collections.abc import Iterable
from typing import Any, Final

from headgate.tools.console.messages.values import avro_budget, avro_input
from headgate.tools.log.decoding import as_json

MOST_BYTES: Final = 4 << 20
_MOST_SCHEMA_CHARACTERS: Final = 1 << 20
_FAULTS: Final = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
"""What fastavro raises for a schema or a value that it cannot read."""


class AvroSchema:
    """A schema that values are decoded by."""

    def __init__(self, text: str, references: Iterable[str] = ()) -> None:
        """`references`: schemas that this one names, each after those that it names itself. Raises ValueError."""
        import fastavro

        self._named: dict[str, Any] = {}
        try:
            for each in (*references, text):
                if len(each) > _MOST_SCHEMA_CHARACTERS:
                    raise ValueError(f"it has {len(each)} characters")
                self._schema = fastavro.parse_schema(json.loads(each), self._named)
        except (*_FAULTS, fastavro.schema.SchemaParseException) as error:
            raise ValueError(f"the schema is no Avro schema: {str(error) or type(error).__name__}") from None

    def decode(self, content: bytes, position: int = 0) -> Any:
        """The value at `position` to the end, for JSON. Raises ValueError."""
        import fastavro

        if len(content) > MOST_BYTES:
            raise ValueError(f"it has {len(content)} bytes; Avro of more than {MOST_BYTES} is not decoded")
        try:
            avro_budget.check(content, position, self._schema, self._named)
            stream = io.BytesIO(content)
            stream.seek(position)
            return _plain(fastavro.schemaless_reader(stream, self._schema, None))
        except avro_budget.OverBudget:
            raise
        except _FAULTS as error:
            raise ValueError(f"it does not fit the schema: {str(error) or type(error).__name__}") from None

    def encode(self, value: Any) -> bytes:
        """The bytes of a value of JSON, without a prefix. Raises ValueError."""
        import fastavro

        stream = io.BytesIO()
        try:
            fastavro.schemaless_writer(stream, self._schema, avro_input.typed(value, self._schema, self._named))
        except _FAULTS as error:
            raise ValueError(str(error) or type(error).__name__) from None
        return stream.getvalue()


def _plain(value: Any) -> Any:
    """Values of logical types as texts; bytes as text, or base64 if they are no UTF-8."""
    match value:
        case dict():
            return {str(name): _plain(item) for name, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
        case dt.timedelta() | decimal.Decimal() | uuid.UUID():
            return str(value)
        case float() if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 - not a number
            return str(value)
        case tuple():
            return [_plain(item) for item in value]
    return as_json(value)
