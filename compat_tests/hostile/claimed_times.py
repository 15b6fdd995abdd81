"""Batches whose header claims another maximum timestamp than their records have, as some producers write them.

Independent of the product; from the protocol guide on kafka.apache.org.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from crc32c import crc32c

from compat_tests.harness import wire
from compat_tests.harness.waiting import until

_PRODUCE_VERSION: Final = 7
_NO_LEADER_YET: Final = (3, 5, 6)  # a topic that Kafka has just created


def produce(bootstrap: str, topic: str, batch: bytes, partition: int = 0) -> int:
    """The error code of the answer, once a broker leads the partition."""
    codes: list[int] = []

    def has_answer() -> bool:
        codes.append(_produce_once(bootstrap, topic, batch, partition))
        return codes[-1] not in _NO_LEADER_YET

    until(has_answer, f"a leader of {topic}-{partition}", step_s=0.1)
    return codes[-1]


def _produce_once(bootstrap: str, topic: str, batch: bytes, partition: int) -> int:
    body = struct.pack(">hhii", -1, -1, 30_000, 1) + wire.string(topic)
    body += struct.pack(">iii", 1, partition, len(batch)) + batch
    with wire.connect(bootstrap) as stream:
        answer = wire.ask(stream, wire.PRODUCE, _PRODUCE_VERSION, body)
    code: int = struct.unpack_from(">h", answer, 4 + len(wire.string(topic)) + 8)[0]
    return code


def claiming(claim: int, times: Sequence[int]) -> bytes:
    """A batch with one record for each time, and the claimed maximum in its header."""
    records = [_record(number, time - times[0]) for number, time in enumerate(times)]
    return of_records(b"".join(records), len(times), times[0], claim)


def of_records(records: bytes, count: int, base_ms: int, claim: int, codec: int = 0) -> bytes:
    """A batch of encoded records, in a codec."""
    checked = struct.pack(">hiqqqhii", codec, count - 1, base_ms, claim, -1, -1, -1, count) + records
    return struct.pack(">qiibI", 0, 9 + len(checked), -1, 2, crc32c(checked)) + checked


def _record(number: int, delta_ms: int) -> bytes:
    fields = bytes(1) + _varint(delta_ms) + _varint(number) + b"\x01" + _varint(1) + b"x" + bytes(1)
    return _varint(len(fields)) + fields


def _varint(number: int) -> bytes:
    left, out = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)
