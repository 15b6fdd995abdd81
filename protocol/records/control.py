"""Control batches: the markers with which transactions end in a partition (KIP-98).

A marker is a record batch of magic 2 with the attributes "control" and "transactional", the producer's id and epoch, no
sequence, and one record:

    key     version i16 = 0 | type i16: 0 abort, 1 commit, and those of TYPES
    value   version i16 = 0 | coordinator epoch i32

Other types belong to KRaft's metadata log, and are no markers. A later version may append fields. Source: Apache
Kafka's `ControlRecordType`, `EndTransactionMarker`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from headgate.protocol.errors import KafkaError
from headgate.protocol.records import batch
from headgate.protocol.records.batch import CONTROL, TRANSACTIONAL, Buffer, Record

ABORT, COMMIT = 0, 1
TRANSACTION_BITS = TRANSACTIONAL | CONTROL
"""The attributes of which a batch has one or both that belongs to a transaction."""
MAX_MARKER_BYTES = 4096
"""As much of a control batch is looked at: a marker has 78 bytes, and nobody knows what a damaged length says."""

TYPE_NAMES = ("ABORT", "COMMIT", "LEADER_CHANGE", "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER", "KRAFT_VERSION", "KRAFT_VOTERS")
"""What Kafka calls them, in order."""
UNKNOWN = -1

_VERSION = 0
_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


class Marker(NamedTuple):
    """How a transaction ended. `coordinator_epoch`: that of the coordinator who says so, to fence an older one."""

    is_commit: bool
    coordinator_epoch: int


def build(marker: Marker, *, producer_id: int, producer_epoch: int, timestamp: int) -> bytearray:
    """The batch that ends the transaction of a producer at `timestamp` (milliseconds)."""
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
    """The marker in a control batch, of which the first LARGEST_BYTES are enough.

    None for one that Kafka's cleaner has emptied, and for what is no marker.
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
    """The type of a control record, UNKNOWN if it cannot be told, and for a marker the epoch of its coordinator."""
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
