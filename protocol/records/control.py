"""Control batches: the markers that end transactions in a partition (KIP-98).

A marker is a record batch of magic 2 with the attributes "control" and "transactional", the producer's id and epoch, no
sequence, and one record:

    key     version i16 = 0 | type i16: 0 abort, 1 commit; TYPE_NAMES has the others
    value   version i16 = 0 | coordinator epoch i32

The other types belong to KRaft's metadata log, and are not markers. A later version may append fields. Source: Apache
Kafka's `ControlRecordType`, `EndTransactionMarker`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from headgate.protocol.errors import KafkaError
from headgate.protocol.records import Buffer, batch
from headgate.protocol.records.batch import CONTROL, HEADER_SIZE, TRANSACTIONAL

ABORT, COMMIT = 0, 1
TRANSACTION_BITS = TRANSACTIONAL | CONTROL
"""A batch of a transaction has one or both of these attributes."""
MAX_MARKER_BYTES = 4096
"""At most so many bytes of a control batch are read. A marker has 78 bytes, but a damaged length may have any value."""

TYPE_NAMES = ("ABORT", "COMMIT", "LEADER_CHANGE", "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER", "KRAFT_VERSION", "KRAFT_VOTERS")
"""Kafka's names of the types of control records, by type."""
UNKNOWN = -1

_VERSION = 0
_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
# The whole record: length, attributes, deltas and length of the key; key; length of the value; value; count of headers
_RECORD = struct.Struct(">5shhBhiB")
_RECORD_HEAD, _VALUE_LENGTH = b"\x20\x00\x00\x00\x08", 2 * _VALUE.size
_SIZE = HEADER_SIZE + _RECORD.size
# The fields of a marker's header that decide how the record is read: their places, and their bytes
_LENGTH, _MAGIC, _ATTRIBUTES_AND_DELTA, _COUNT = slice(8, 12), 16, slice(21, 27), slice(57, 61)
_LENGTH_BYTES, _COUNT_BYTES = struct.pack(">i", _SIZE - batch.LOG_OVERHEAD), struct.pack(">i", 1)
_ATTRIBUTES_AND_DELTA_BYTES = struct.pack(">hi", TRANSACTION_BITS, 0)


class Marker(NamedTuple):
    """The end of a transaction. `coordinator_epoch`: the epoch of the sending coordinator, to fence an older one."""

    is_commit: bool
    coordinator_epoch: int


def build(marker: Marker, *, producer_id: int, producer_epoch: int, timestamp: int) -> bytearray:
    """Build the batch that ends a producer's transaction at `timestamp`, in ms."""
    kind = COMMIT if marker.is_commit else ABORT
    made = bytearray(_SIZE)
    # fmt: off
    batch.HEADER.pack_into(
        made, 0, 0, _SIZE - batch.LOG_OVERHEAD, -1, batch.MAGIC, 0, TRANSACTION_BITS, 0, timestamp, timestamp,
        producer_id, producer_epoch, batch.NO_SEQUENCE, 1,
    )
    _RECORD.pack_into(
        made, HEADER_SIZE, _RECORD_HEAD, _VERSION, kind, _VALUE_LENGTH, _VERSION, marker.coordinator_epoch, 0
    )
    # fmt: on
    batch.set_crc(made)
    return made


def read(view: Buffer) -> Marker | None:
    """Return the marker in a control batch; its first `MAX_MARKER_BYTES` suffice.

    None for a batch that Kafka's cleaner has emptied, and for anything but a marker.
    """
    if _has_header_of_marker(view):
        head, version, kind, length, value_version, epoch, headers = _RECORD.unpack_from(view, HEADER_SIZE)
        is_exact = head == _RECORD_HEAD and length == _VALUE_LENGTH and not version | value_version | headers
        if is_exact and kind in (ABORT, COMMIT):
            return Marker(kind == COMMIT, epoch)
    try:
        record = next(batch.iterate(view), None)
        if record is None:
            return None
    except KafkaError:
        return None
    kind, coordinator_epoch = decode(record.key, record.value)
    return None if coordinator_epoch is None else Marker(kind == COMMIT, coordinator_epoch)


def _has_header_of_marker(view: Buffer) -> bool:
    """Whether the batch is like those of `build`: then the record needs no general reader."""
    return (
        len(view) == _SIZE
        and view[_LENGTH] == _LENGTH_BYTES
        and view[_MAGIC] == batch.MAGIC
        and view[_ATTRIBUTES_AND_DELTA] == _ATTRIBUTES_AND_DELTA_BYTES
        and view[_COUNT] == _COUNT_BYTES
    )


def decode(key: bytes | None, value: bytes | None) -> tuple[int, int | None]:
    """Return the type of a control record, or UNKNOWN, and for a marker the epoch of its coordinator."""
    try:
        version, kind = _KEY.unpack_from(key or b"")
        if version < 0 or kind < 0:
            return UNKNOWN, None
        if kind not in (ABORT, COMMIT):
            return kind, None
        version, coordinator_epoch = _VALUE.unpack_from(value or b"")
    except struct.error:
        return UNKNOWN, None
    return (kind, coordinator_epoch) if version >= 0 else (UNKNOWN, None)
