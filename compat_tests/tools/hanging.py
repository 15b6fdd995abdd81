"""A transaction that hangs: a batch of a transaction that no coordinator knows.

A broker takes the batch if `transaction.partition.verification.enable` is false, as all did before Kafka 3.6.
Independent of the product; from the protocol guide on kafka.apache.org.
"""

from __future__ import annotations

import struct
from typing import Final

from crc32c import crc32c

from compat_tests.harness import wire

VERIFICATION_OFF: Final = {"transaction.partition.verification.enable": "false"}
PRODUCER_EPOCH: Final = 3
_TRANSACTIONAL: Final = 0x10
_PRODUCE_VERSION: Final = 7
_RECORD: Final = bytes((7 << 1, 0, 0, 0, 1, 1 << 1)) + b"x" + bytes(1)  # null key, value "x", no headers


def leave_hanging(bootstrap: str, topic: str, producer_id: int, timestamp_ms: int, partition: int = 0) -> None:
    """Write the batch of one record, with sequence 0, of a producer that the partition does not know yet."""
    data = transactional_batch(producer_id, timestamp_ms)
    body = wire.string("nobody's") + struct.pack(">hii", -1, 30_000, 1) + wire.string(topic)
    body += struct.pack(">iii", 1, partition, len(data)) + data
    with wire.connect(bootstrap) as stream:
        answer = wire.ask(stream, wire.PRODUCE, _PRODUCE_VERSION, body)
    (error_code,) = struct.unpack_from(">h", answer, 4 + len(wire.string(topic)) + 8)
    assert error_code == 0, f"error {error_code}"


def transactional_batch(producer_id: int, timestamp_ms: int) -> bytes:
    """A batch of magic 2 with one record, of a transaction."""
    checked = struct.pack(">hiqqqhii", _TRANSACTIONAL, 0, timestamp_ms, timestamp_ms, producer_id, PRODUCER_EPOCH, 0, 1)
    checked += _RECORD
    return struct.pack(">qiibI", 0, 9 + len(checked), -1, 2, crc32c(checked)) + checked
