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
from headgate.protocol.records.batch import CONTROL, TRANSACTIONAL, Record

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


class Marker(NamedTuple):
    """The end of a transaction. `coordinator_epoch`: the epoch of the sending coordinator, to fence an older one."""

    is_commit: bool
    coordinator_epoch: int


def build(marker: Marker, *, producer_id: int, producer_epoch: int, timestamp: int) -> bytearray:
    """Build the batch that ends a producer's transaction at `timestamp`, in ms."""
    kind = COMMIT if marker.is_commit else ABORT
    record = Record(
        timestamp=timestamp,
        key=_KEY.pack(_VERSION, kind),
        value=_VALUE.pack(_VERSION, marker.coordinator_epoch),
    )
    return batch.build(
        [record], producer_id=producer_id, producer_epoch=producer_epoch, is_transactional=True, is_control=True
    )


def read(view: Buffer) -> Marker | None:
    """Return the marker in a control batch; its first `MAX_MARKER_BYTES` suffice.

    None for a batch that Kafka's cleaner has emptied, and for anything but a marker.
    """
    try:
        record = next(batch.iterate(view), None)
        if record is None:
            return None
    except KafkaError:
        return None
    kind, coordinator_epoch = decode(record.key, record.value)
    return None if coordinator_epoch is None else Marker(kind == COMMIT, coordinator_epoch)


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
