"""Records and batches as rows: UTF-8 bytes as text, records of internal topics decoded.

Bytes that are no UTF-8 become `{"base64": ...}`. Messages become objects with Kafka's fields in snake case; ids become
22 characters, as in Kafka's own tools.
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
from headgate.tools.log.segment_reader import StoredBatch
from headgate.tools.output import Row

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
_SECRET_ENDS = (".password", ".key", ".certificate.chain", ".certificates", ".jaas.config", ".secret", ".passphrase")
"""Ends of the names of Kafka's passwords, whose values metadata logs have in plain text, as in Kafka."""
METADATA_LOGS = ("__headgate_metadata", "__cluster_metadata")


def record_row(stored: StoredBatch, record: Record, topic: str) -> Row:
    header = stored.header
    key, value = decode_record(topic, header, record)
    sequence = header.base_sequence
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": timestamp_type(header),
        "key": key,
        "value": value,
        "headers": [[name, as_json(content)] for name, content in record.headers],
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "sequence": sequence if sequence < 0 else sequence + record.offset - header.base_offset,
        "transactional": header.is_transactional,
        "control": header.is_control,
    }


def batch_row(stored: StoredBatch) -> Row:
    """The row of one batch, or of one message of magic 0 or 1, from its header."""
    return {"segment": stored.segment.base_offset, "position": stored.position, **header_row(stored.header)}


def header_row(header: BatchHeader) -> Row:
    """The fields of the header of a batch, or of one message of magic 0 or 1."""
    return {
        "bytes": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.records_count,
        "magic": header.magic,
        "codec": _codec(header),
        "timestamp_type": timestamp_type(header),
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


def timestamp_type(header: BatchHeader) -> str | None:
    """Kafka's name of the clock that a batch has its times from; None for a message of magic 0, which has no time."""
    if not header.magic:
        return None
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def decode_record(topic: str, header: BatchHeader, record: Record) -> tuple[Any, Any]:
    """Key and value for JSON, decoded as a control record or by the format of an internal topic, else as text."""
    if header.is_control:
        return _decode_control(record)
    decode = _DECODERS.get(topic)
    if decode is None:
        return as_json(record.key), as_json(record.value)
    try:
        return decode(record)
    except MalformedRequest as error:
        return {**_as_base64(record.key), "error": str(error)}, as_json(record.value)


def _decode_control(record: Record) -> tuple[Any, Any]:
    """A transaction marker, or another control record of KRaft's logs, whose value stays bytes."""
    kind, coordinator_epoch = control.decode(record.key, record.value)
    if not 0 <= kind < len(control.TYPE_NAMES):
        return {"type": kind, **_as_base64(record.key)}, as_json(record.value)
    shown = as_json(record.value) if coordinator_epoch is None else {"coordinator_epoch": coordinator_epoch}
    return {"type": control.TYPE_NAMES[kind]}, shown


def _as_base64(data: bytes | None) -> dict[str, Any]:
    return {"base64": _base64(data or b"")}


def _decode_group(record: Record) -> tuple[Any, Any]:
    decoded = offsets.decode(record.key or b"", record.value)
    if isinstance(decoded, offsets.UnknownType):
        return {"type": decoded.type, **_as_base64(record.key)}, as_json(record.value)
    key, value = decoded
    shown = as_json(value)
    if isinstance(value, offsets.GroupMetadataValue) and value.protocol_type == consumer_protocol.PROTOCOL_TYPE:
        for member, row in zip(value.members, shown["members"], strict=True):
            row["subscription"] = _decode_embedded(consumer_protocol.decode_subscription, member.subscription)
            row["assignment"] = _decode_embedded(consumer_protocol.decode_assignment, member.assignment)
    return {"type": type(key).__name__.removesuffix("Key"), **as_json(key)}, shown


def _decode_embedded(decode: Callable[[bytes], Struct], data: bytes) -> Any:
    """A subscription or an assignment of the consumer protocol; None for a member that has just joined."""
    try:
        return as_json(decode(data)) if data else None
    except MalformedRequest:
        return as_json(data)


def _decode_transaction(record: Record) -> tuple[Any, Any]:
    decoded = transactions.decode(record.key or b"", record.value)
    if isinstance(decoded, transactions.UnknownVersion):
        return {"version": decoded.version, **_as_base64(record.key)}, as_json(record.value)
    key, value = decoded
    shown = as_json(value)
    if value is not None:
        shown["transaction_status"] = transactions.state_name(value.transaction_status)
    return as_json(key), shown


def _decode_metadata(record: Record) -> tuple[Any, Any]:
    """A record of the metadata log; types that Headgate does not use are shown by number."""
    decoded = metadata.decode_known(record.value or b"")
    if decoded is None:
        return None, {"type": (record.value or b"")[1], **_as_base64(record.value)}
    shown = as_json(decoded)
    if isinstance(decoded, metadata.ConfigRecord) and decoded.name.endswith(_SECRET_ENDS) and decoded.value is not None:
        shown["value"] = "[hidden]"
    if isinstance(decoded, metadata.UserScramCredentialRecord):  # its keys let a reader guess passwords
        shown |= dict.fromkeys(("salt", "stored_key", "server_key"), "[hidden]")
    return None, {"type": type(decoded).__name__.removesuffix("Record"), **shown}


def is_internal(topic: str) -> bool:
    """Whether records of the topic have a format that is decoded here."""
    return topic in _DECODERS


_DECODERS: dict[str, Callable[[Record], tuple[Any, Any]]] = {
    CONSUMER_OFFSETS: _decode_group,
    TRANSACTION_STATE: _decode_transaction,
    **dict.fromkeys(METADATA_LOGS, _decode_metadata),
}


def as_json(value: Any) -> Any:
    """A message, a list, bytes or a plain value as a value for JSON."""
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
