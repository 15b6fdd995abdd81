"""Messages as rows of a table, and one message with all its fields."""

from __future__ import annotations

from typing import Any, Final

from headgate.protocol.records.batch import Record
from headgate.tools.console.messages.filters import CompiledFilters
from headgate.tools.console.messages.record_batches import FetchedMessage, is_sound
from headgate.tools.console.messages.values import decoder, texts
from headgate.tools.console.messages.values.decoder import DecodedValue, ValueDecoder
from headgate.tools.log import decoding

_KEY_CHARACTERS: Final = 200
_VALUE_CHARACTERS: Final = 600
_HEADER_CHARACTERS: Final = 100
_SHOWN_HEADERS: Final = 5
_MOST_HEADERS: Final = 1_000
_HEADER_DETAILS: Final = 16_384

MESSAGE, TOMBSTONE, CONTROL, UNREADABLE = "message", "tombstone", "control", "unreadable"


class MessageDecoder:
    """Decodes the messages of one topic, and finds those that match."""

    def __init__(self, topic: str, keys: ValueDecoder, values: ValueDecoder, filters: CompiledFilters) -> None:
        self._topic = topic
        self._keys = keys
        self._values = values
        self._filters = filters

    @property
    def failed_expressions(self) -> int:
        """The number of values that the expression cannot be applied to."""
        return self._filters.failed_expressions

    def decode(self, message: FetchedMessage) -> DecodedMessage:
        """The message with its key and its value, each decoded when it is needed."""
        return DecodedMessage(self._topic, message, self._keys, self._values)

    def match(self, message: DecodedMessage) -> bool:
        """Whether a message passes the filters. A batch that cannot be read is never left out."""
        if message.message.fault is not None:
            return True
        return self._filters.match(message)


class DecodedMessage:
    """A message whose parts are decoded once, at their first use."""

    __slots__ = ("_decoded", "_keys", "_topic", "_values", "message", "record")

    def __init__(self, topic: str, message: FetchedMessage, keys: ValueDecoder, values: ValueDecoder) -> None:
        self.message = message
        self.record: Record = message.record
        self._topic = topic
        self._keys, self._values = keys, values
        self._decoded: dict[bool, DecodedValue | None] = {}

    @property
    def kind(self) -> str:
        """MESSAGE, TOMBSTONE (no value), CONTROL or UNREADABLE."""
        if self.message.fault is not None:
            return UNREADABLE
        if self.message.header.is_control:
            return CONTROL
        return TOMBSTONE if self.record.value is None else MESSAGE

    def text(self, *, is_key: bool) -> bytes | None:
        """What a filter looks through beside the bytes of the key or the value; None for nothing more."""
        content = self.record.key if is_key else self.record.value
        values = self._keys if is_key else self._values
        if content is None:
            return None
        if values.is_plain and not values.may_name_schema(content) and not self._is_kafka(values):
            return None
        decoded = self._decode(is_key=is_key)
        return None if decoded is None else decoded.search_text().encode(errors="surrogatepass")

    def data(self) -> Any:
        """The value for an expression. Raises ValueError."""
        decoded = self._decode(is_key=False)
        return None if decoded is None else decoded.value()

    def key(self) -> DecodedValue | None:
        return self._decode(is_key=True)

    def value(self) -> DecodedValue | None:
        return self._decode(is_key=False)

    def _decode(self, *, is_key: bool) -> DecodedValue | None:
        """None for a null."""
        if not self._decoded and self.message.fault is None:
            self._decode_kafka()
        if is_key not in self._decoded:
            content = self.record.key if is_key else self.record.value
            values = self._keys if is_key else self._values
            self._decoded[is_key] = None if content is None else values.decode(content)
        return self._decoded[is_key]

    def _is_kafka(self, values: ValueDecoder) -> bool:
        return values.is_automatic and (self.message.header.is_control or decoding.is_internal(self._topic))

    def _decode_kafka(self) -> None:
        """Decode a record of Kafka's own, whose value needs its key."""
        parts = ((True, self.record.key, self._keys), (False, self.record.value, self._values))
        if not any(self._is_kafka(values) for _, _, values in parts):
            return
        shown = decoding.decode_record(self._topic, self.message.header, self.record)
        for (is_key, content, values), data in zip(parts, shown, strict=True):
            if values.is_automatic:
                self._decoded[is_key] = None if content is None else DecodedValue(decoder.KAFKA, content, data)


def row(decoded: DecodedMessage) -> dict[str, Any]:
    """A row of a table, of a few kilobytes at most."""
    message, record = decoded.message, decoded.record
    headers = record.headers
    return {
        "partition": message.partition,
        "offset": record.offset,
        "timestamp_ms": _timestamp(message),
        "timestamp_type": decoding.timestamp_type(message.header),
        "kind": decoded.kind,
        "transaction": message.transaction,
        "problem": message.fault,
        "key": _short(decoded.key(), _KEY_CHARACTERS),
        "value": _short(decoded.value(), _VALUE_CHARACTERS),
        "headers": [
            [name[:_HEADER_CHARACTERS], _header(content, _HEADER_CHARACTERS)]
            for name, content in headers[:_SHOWN_HEADERS]
        ],
        "headers_count": len(headers),
    }


def _timestamp(message: FetchedMessage) -> int | None:
    timestamp = message.record.timestamp
    return timestamp if timestamp >= 0 else None


def _header(content: bytes | None, limit: int) -> str | None:
    return None if content is None else _header_value(content).text(limit, has_lines=False)


def _header_value(content: bytes) -> DecodedValue:
    """A header as text or hexadecimal digits: short bytes seldom show their format."""
    return decoder.as_text(content) if texts.looks_like_text(content) else DecodedValue(decoder.HEX, content)


def _short(value: DecodedValue | None, limit: int) -> dict[str, Any] | None:
    if value is None:
        return None
    text = value.text(limit + 1, has_lines=False)
    return {
        "format": value.format,
        "text": text[:limit],
        "is_cut": len(text) > limit,
        "bytes": len(value.content),
        "problem": value.problem,
    }


# ------------------------------------------------------------------------------------------------------------- details


def details(decoded: DecodedMessage, content: memoryview) -> dict[str, Any]:
    """All fields of one message, and the batch around it. `content`: the bytes of exactly this batch."""
    message, record = decoded.message, decoded.record
    header = message.header
    sequence = header.base_sequence
    return {
        "partition": message.partition,
        "offset": record.offset,
        "timestamp_ms": _timestamp(message),
        "timestamp_type": decoding.timestamp_type(header),
        "kind": decoded.kind,
        "transaction": message.transaction,
        "problem": message.fault,
        "key": _long(decoded.key()),
        "value": _long(decoded.value()),
        "headers": [_header_details(name, value) for name, value in record.headers[:_MOST_HEADERS]],
        "headers_count": len(record.headers),
        "producer_id": header.producer_id if header.producer_id >= 0 else None,
        "producer_epoch": header.producer_epoch if header.producer_epoch >= 0 else None,
        "sequence": None if sequence < 0 else (sequence + record.offset - header.base_offset) & 0x7FFF_FFFF,
        "leader_epoch": header.partition_leader_epoch if header.partition_leader_epoch >= 0 else None,
        "batch": {**decoding.header_row(header), "is_sound": is_sound(content)},
    }


def _long(value: DecodedValue | None) -> dict[str, Any] | None:
    if value is None:
        return None
    text = value.text(texts.SHOWN_CHARACTERS + 1, has_lines=True)
    return {
        "format": value.format,
        "schema": value.schema,
        "text": text[: texts.SHOWN_CHARACTERS],
        "is_cut": len(text) > texts.SHOWN_CHARACTERS,
        "bytes": len(value.content),
        "problem": value.problem,
        "hex": texts.hexadecimal(value.content),
    }


def _header_details(name: str, content: bytes | None) -> dict[str, Any]:
    text = None if content is None else _header_value(content).text(_HEADER_DETAILS, has_lines=False)
    return {"name": name[:_HEADER_DETAILS], "text": text, "bytes": None if content is None else len(content)}
