"""Records and batches as rows: bytes as text where they are text, and records of internal topics decoded.

Bytes that are no text are `{"base64": ...}`. Messages become objects with Kafka's fields in our spelling; ids have the
22 characters that Kafka's own tools show.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from headgate.protocol.errors import MalformedRequest
from headgate.protocol.internal import consumer_protocol, metadata, offsets, transactions
from headgate.protocol.records import compression, control
from headgate.protocol.records.batch import BatchHeader, Record
from headgate.protocol.schema import Struct, uuid
from headgate.storage.disk.layout import format_id
from headgate.tools.log.reading import Stored
from headgate.tools.output import Row

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
METADATA_LOGS = ("__headgate_metadata", "__cluster_metadata")


def record_row(stored: Stored, record: Record, topic: str) -> Row:
    """One record."""
    header = stored.header
    key, value = _decoded(topic, header, record)
    sequence = header.base_sequence
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": _timestamp_type(header),
        "key": key,
        "value": value,
        "headers": [[name, as_json(content)] for name, content in record.headers],
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "sequence": sequence if sequence < 0 else sequence + record.offset - header.base_offset,
        "transactional": header.is_transactional,
        "control": header.is_control,
    }


def batch_row(stored: Stored) -> Row:
    """One batch, or one message of the old formats, by its header."""
    header = stored.header
    return {
        "segment": stored.segment.base_offset,
        "position": stored.position,
        "bytes": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.records_count,
        "magic": header.magic,
        "codec": _codec(header),
        "timestamp_type": _timestamp_type(header),
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "leader_epoch": header.partition_leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "crc": header.crc & 0xFFFF_FFFF,
    }


def _codec(header: BatchHeader) -> str:
    known = compression.CODEC_NAMES
    return known[header.compression] if header.compression < len(known) else f"codec {header.compression}"


def _timestamp_type(header: BatchHeader) -> str | None:
    if not header.magic:
        return None
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def _decoded(topic: str, header: BatchHeader, record: Record) -> tuple[Any, Any]:
    """Key and value, as what the topic says they are."""
    if header.is_control:
        return _of_control(record)
    decode = _DECODERS.get(topic)
    if decode is None:
        return as_json(record.key), as_json(record.value)
    try:
        return decode(record)
    except MalformedRequest as error:
        return {**_wrapped(record.key), "error": str(error)}, as_json(record.value)


def _of_control(record: Record) -> tuple[Any, Any]:
    """A marker, or what KRaft's logs have of the kind; their values are left as bytes."""
    kind, coordinator_epoch = control.decode(record.key, record.value)
    if not 0 <= kind < len(control.TYPE_NAMES):
        return {"type": kind, **_wrapped(record.key)}, as_json(record.value)
    shown = as_json(record.value) if coordinator_epoch is None else {"coordinator_epoch": coordinator_epoch}
    return {"type": control.TYPE_NAMES[kind]}, shown


def _wrapped(data: bytes | None) -> dict[str, Any]:
    return {"base64": _base64(data or b"")}


def _of_groups(record: Record) -> tuple[Any, Any]:
    decoded = offsets.decode(record.key or b"", record.value)
    if isinstance(decoded, offsets.UnknownType):
        return {"type": decoded.type, **_wrapped(record.key)}, as_json(record.value)
    key, value = decoded
    shown = as_json(value)
    if isinstance(value, offsets.GroupMetadataValue) and value.protocol_type == consumer_protocol.PROTOCOL_TYPE:
        for member, row in zip(value.members, shown["members"], strict=True):
            row["subscription"] = _embedded(consumer_protocol.decode_subscription, member.subscription)
            row["assignment"] = _embedded(consumer_protocol.decode_assignment, member.assignment)
    return {"type": type(key).__name__.removesuffix("Key"), **as_json(key)}, shown


def _embedded(decode: Callable[[bytes], Struct], data: bytes) -> Any:
    """What consumers tell each other; members that have just joined have nothing yet."""
    try:
        return as_json(decode(data)) if data else None
    except MalformedRequest:
        return as_json(data)


def _of_transactions(record: Record) -> tuple[Any, Any]:
    decoded = transactions.decode(record.key or b"", record.value)
    if isinstance(decoded, transactions.UnknownVersion):
        return {"version": decoded.version, **_wrapped(record.key)}, as_json(record.value)
    key, value = decoded
    shown = as_json(value)
    if value is not None:
        shown["transaction_status"] = transactions.state_name(value.transaction_status)
    return as_json(key), shown


def _of_metadata(record: Record) -> tuple[Any, Any]:
    """Of Kafka's own there are many types that nothing here needs: they are shown by their number."""
    decoded = metadata.decode_known(record.value or b"")
    if decoded is None:
        return None, {"type": (record.value or b"")[1], **_wrapped(record.value)}
    return None, {"type": type(decoded).__name__.removesuffix("Record"), **as_json(decoded)}


_DECODERS: dict[str, Callable[[Record], tuple[Any, Any]]] = {
    CONSUMER_OFFSETS: _of_groups,
    TRANSACTION_STATE: _of_transactions,
    **dict.fromkeys(METADATA_LOGS, _of_metadata),
}


def as_json(value: Any) -> Any:
    """A message, a list, bytes or a plain value, as JSON can have it."""
    if isinstance(value, Struct):
        return {
            field.name: _field(getattr(value, field.name), field.element if field.is_array else field.annotation)
            for field in type(value).fields
        }
    if isinstance(value, list):
        return [as_json(one) for one in value]
    return _text(value) if isinstance(value, bytes | bytearray | memoryview) else value


def _field(value: Any, kind: Any) -> Any:
    if kind != uuid or value is None:
        return as_json(value)
    return [format_id(one) for one in value] if isinstance(value, list) else format_id(value)


def _text(data: bytes | bytearray | memoryview) -> Any:
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        return {"base64": _base64(data)}


def _base64(data: bytes | bytearray | memoryview) -> str:
    return base64.b64encode(data).decode()
