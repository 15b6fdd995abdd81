"""The format of a key or a value: chosen by the visitor, or by what the bytes are, with the choice shown.

The automatic choice, in this order: Avro or JSON by the schema that the bytes name, if the command line gives schemas;
JSON, an object or an array; text; hexadecimal digits.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from headgate.tools.console.messages.values import raw_protobuf, texts, wire_prefix
from headgate.tools.console.messages.values.avro import AvroSchema
from headgate.tools.console.messages.values.protobuf import MessageTypes
from headgate.tools.schema_registry import AVRO as AVRO_SCHEMA
from headgate.tools.schema_registry import PROTOBUF as PROTOBUF_SCHEMA
from headgate.tools.schema_registry import SchemaError, SchemaMissing, SchemaSource

AUTO, TEXT, JSON, HEX, AVRO, PROTOBUF, RAW_PROTOBUF = "auto", "text", "json", "hex", "avro", "protobuf", "protobuf-raw"
FORMATS: Final = (AUTO, TEXT, JSON, HEX, AVRO, PROTOBUF, RAW_PROTOBUF)
KAFKA: Final = "kafka"
"""A record of an internal topic, or a control record."""
_PREVIEWED_BYTES: Final = 16 * 1024
_MOST_MISSING: Final = 20
"""So many unknown ids may be asked for in one search: any bytes that begin with a zero name one."""


@dataclass(frozen=True, slots=True)
class DecodedValue:
    """`content` in a format. `problem`: a sentence about bytes that the format cannot show, or not all."""

    format: str
    content: bytes
    data: Any = None
    schema: str | None = None
    problem: str | None = None

    def text(self, limit: int, *, has_lines: bool) -> str:
        """At most `limit` characters. With lines for a person who reads one message, else for a row of a table."""
        if self.format == HEX:
            return texts.hexadecimal(self.content, limit // 3)
        if self.format in (TEXT, RAW_PROTOBUF):
            return self.data[:limit] if self.format == RAW_PROTOBUF else texts.read_text(self.content, limit)[0]
        if self.format == JSON:
            shown = texts.read_text(self.content, limit)[0]
        else:
            shown = json.dumps(self.data, ensure_ascii=False, allow_nan=False)
        return texts.break_lines(shown, limit) if has_lines else shown[:limit]

    def search_text(self) -> str:
        """All that a filter looks through where the bytes alone do not show it."""
        if self.format == RAW_PROTOBUF:
            return str(self.data)
        if self.format == HEX:
            return self.content.hex(" ")
        return json.dumps(self.data, ensure_ascii=False)

    def value(self) -> Any:
        """The value for an expression of JMESPath. Raises ValueError."""
        if self.format in (AVRO, PROTOBUF, KAFKA):
            return self.data
        return texts.parse_json(self.content)


class ValueDecoder:
    """Decodes the keys or the values of one topic."""

    def __init__(
        self,
        wanted: str = AUTO,
        subject: str = "",
        schemas: SchemaSource | None = None,
        messages: MessageTypes | None = None,
        message_type: str = "",
    ) -> None:
        """`wanted`: one of FORMATS. `subject`: of schemas of values that name none."""
        self._wanted = wanted
        self._subject = subject
        self._schemas = schemas
        self._messages = messages
        self._message_type = message_type
        self._known: dict[int | str, AvroSchema | str | SchemaError] = {}
        self._missing = 0
        self._is_unreachable: SchemaError | None = None

    @property
    def is_automatic(self) -> bool:
        return self._wanted == AUTO

    @property
    def is_plain(self) -> bool:
        """Whether the bytes themselves are what a filter of text looks through, unless they name a schema."""
        return self._wanted in (AUTO, TEXT, JSON)

    def may_name_schema(self, content: bytes) -> bool:
        """Whether the bytes may have to be decoded by a schema."""
        return self._wanted == AUTO and self._schemas is not None and content[:1] == b"\x00"

    def decode(self, content: bytes) -> DecodedValue:
        """The value in the wanted format; bytes that it cannot show come in another one, with the problem."""
        if self._wanted == AUTO:
            return self._choose(content)
        try:
            return self._decode_as(content)
        except (ValueError, SchemaError) as error:
            shown = guess(content)
            return DecodedValue(shown.format, content, problem=f"not {self._wanted}: {error}")

    def _decode_as(self, content: bytes) -> DecodedValue:
        """Raises ValueError, SchemaError."""
        match self._wanted:
            case "text":
                return as_text(content)
            case "json":
                prefix = wire_prefix.read(content)
                payload = content if prefix is None else content[prefix.size :]
                texts.parse_json(payload)
                return DecodedValue(JSON, payload)
            case "avro":
                return self._decode_avro(content)
            case "protobuf":
                return self._decode_protobuf(content)
            case "protobuf-raw":
                prefix = wire_prefix.read(content)
                start = 0 if prefix is None else wire_prefix.after_indexes(content, prefix.size)
                return DecodedValue(RAW_PROTOBUF, content, raw_protobuf.decode(content, start))
        return DecodedValue(HEX, content)

    def _choose(self, content: bytes) -> DecodedValue:
        prefix = wire_prefix.read(content) if self._schemas is not None else None
        problem = None
        if prefix is not None:
            try:
                return self._decode_by_id(content, prefix)
            except SchemaMissing:
                pass  # most bytes that begin with a zero name nothing
            except (ValueError, SchemaError) as error:
                problem = f"the bytes name schema {prefix.schema_id}: {error}"
        shown = guess(content)
        return shown if problem is None else DecodedValue(shown.format, content, problem=problem)

    def _decode_by_id(self, content: bytes, prefix: wire_prefix.WirePrefix) -> DecodedValue:
        schema = self._schema(prefix.schema_id)
        shown = f"{prefix.schema_id} ({prefix.kind})"
        if isinstance(schema, AvroSchema):
            return DecodedValue(AVRO, content, schema.decode(content, prefix.size), shown)
        if schema == PROTOBUF_SCHEMA:
            start = wire_prefix.after_indexes(content, prefix.size)
            if self._messages is not None and self._message_type:
                return DecodedValue(PROTOBUF, content, self._messages.decode(self._message_type, content, start), shown)
            return DecodedValue(RAW_PROTOBUF, content, raw_protobuf.decode(content, start), shown)
        payload = content[prefix.size :]
        texts.parse_json(payload)
        return DecodedValue(JSON, payload, schema=shown)

    def _decode_avro(self, content: bytes) -> DecodedValue:
        if self._schemas is None:
            raise SchemaError("the console was started without schemas; start it with --schemas folder|http://registry")
        prefix = wire_prefix.read(content)
        if prefix is not None:
            try:
                schema = self._schema(prefix.schema_id)
            except SchemaMissing:
                prefix = None
        if prefix is None:
            schema = self._schema(self._subject)
        if not isinstance(schema, AvroSchema):
            raise SchemaError(f"its schema is of type {schema}, not {AVRO_SCHEMA}")
        start, shown = (prefix.size, f"{prefix.schema_id} ({prefix.kind})") if prefix else (0, self._subject)
        return DecodedValue(AVRO, content, schema.decode(content, start), shown)

    def _decode_protobuf(self, content: bytes) -> DecodedValue:
        if self._messages is None:
            raise SchemaError("the console was started without a descriptor set; start it with --descriptor-set file")
        if not self._message_type:
            raise SchemaError("no message type is chosen")
        prefix = wire_prefix.read(content)
        start = 0 if prefix is None else wire_prefix.after_indexes(content, prefix.size)
        return DecodedValue(
            PROTOBUF, content, self._messages.decode(self._message_type, content, start), self._message_type
        )

    def _schema(self, name: int | str) -> AvroSchema | str:
        """The schema of an id or a subject, asked for once; the type of one that is not Avro. Raises SchemaError."""
        if name not in self._known:
            self._known[name] = self._ask(name)
        known = self._known[name]
        if isinstance(known, SchemaError):
            raise known
        return known

    def _ask(self, name: int | str) -> AvroSchema | str | SchemaError:
        assert self._schemas is not None
        if self._is_unreachable is not None:
            return self._is_unreachable
        if self._missing >= _MOST_MISSING:
            return SchemaMissing(f"{_MOST_MISSING} ids of this search name no schema; no more are asked for")
        try:
            found = self._schemas.by_id(name) if isinstance(name, int) else self._schemas.by_subject(name)
            return AvroSchema(found.text, found.references) if found.kind == AVRO_SCHEMA else found.kind
        except SchemaMissing as error:
            self._missing += 1
            return error
        except SchemaError as error:  # each further question would wait as long
            self._is_unreachable = error
            return error
        except ValueError as error:
            return SchemaError(str(error))


def guess(content: bytes) -> DecodedValue:
    """JSON, text or hexadecimal digits, by the bytes."""
    if texts.looks_like_json(content):
        return DecodedValue(JSON, content)
    return as_text(content) if texts.looks_like_text(content) else DecodedValue(HEX, content)


def as_text(content: bytes) -> DecodedValue:
    is_valid = texts.read_text(content[:_PREVIEWED_BYTES])[1]
    problem = None if is_valid else "not all of it is UTF-8; other bytes are shown as \\xNN"
    return DecodedValue(TEXT, content, problem=problem)
