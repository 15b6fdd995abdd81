"""Puts the ends of transactions into a stored partition, as a broker with transactions leaves them.

Every batch but the last becomes one of a transaction of its producer, and a control batch that commits it follows
(KIP-98; Kafka's documentation, "Control Batch": key version 0 and type 1, value version 0 and a coordinator epoch).
The first one is followed by many.
The files are changed while the broker is down; what is derived from them goes, so that the next start reads them all.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

import crc32c

from compat_tests.harness.stored import CRC_FROM, HEADER, Batch, batches

TRANSACTIONAL, CONTROL = 0x10, 0x20
# In a row: at 78 bytes each, more than the 32 KiB that sarama fetches of a partition
MANY: Final = 500
# length, attributes, time and offset deltas, key with its length, value with its length, no headers; varints are zigzag
COMMIT: Final = bytes([32, 0, 0, 0, 8, *struct.pack(">hh", 0, 1), 12, *struct.pack(">hi", 0, 0), 0])
ATTRIBUTES_AT: Final = 21
CRC_AT: Final = 17
DERIVED: Final = ("*.index", "*.timeindex", "*.snapshot", "leader-epoch-checkpoint")
CLEAN_STOP: Final = (".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "replication-offset-checkpoint")


def commit_batches(data: Path, partition: Path) -> list[int]:
    """Rewrite a partition of one segment; the offsets that its records have now."""
    found = batches(partition)
    (log,) = partition.glob("*.log")
    stored = log.read_bytes()
    out = bytearray()
    offsets: list[int] = []
    next_offset = 0
    for batch in found:
        whole = bytearray(stored[batch.position : batch.position + batch.size])
        is_last = batch is found[-1]
        if not is_last:
            (attributes,) = struct.unpack_from(">h", whole, ATTRIBUTES_AT)
            struct.pack_into(">h", whole, ATTRIBUTES_AT, attributes | TRANSACTIONAL)
        out += sealed(whole, next_offset)
        offsets += range(next_offset, next_offset + batch.records_count)
        next_offset += batch.records_count
        for _ in range(0 if is_last else MANY if batch is found[0] else 1):
            out += sealed(marker(batch), next_offset)
            next_offset += 1
    log.write_bytes(out)
    forget(data, partition)
    return offsets


def marker(batch: Batch) -> bytearray:
    """The control batch that commits a batch's transaction."""
    assert batch.producer_id >= 0, "only an idempotent producer has transactions"
    attributes, time = TRANSACTIONAL | CONTROL, batch.max_timestamp
    size = HEADER.size - 12 + len(COMMIT)
    producer = batch.producer_id, batch.producer_epoch
    return bytearray(HEADER.pack(0, size, 0, 2, 0, attributes, 0, time, time, *producer, -1, 1) + COMMIT)


def sealed(batch: bytearray, base_offset: int) -> bytearray:
    struct.pack_into(">q", batch, 0, base_offset)
    struct.pack_into(">I", batch, CRC_AT, crc32c.crc32c(batch[CRC_FROM:]))
    return batch


def forget(data: Path, partition: Path) -> None:
    """What follows from the files, and that the stop was a clean one."""
    for path in [
        *(path for pattern in DERIVED for path in partition.glob(pattern)),
        *(data / one for one in CLEAN_STOP),
    ]:
        path.unlink(missing_ok=True)
