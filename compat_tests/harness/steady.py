"""A producer and a consumer that cost next to nothing themselves, so that what is measured is the broker's.

Plain sockets and prepared requests: an exchange is a fetch that waits, a produce of one small record, its answer, and
the fetch's answer with that record.
"""

from __future__ import annotations

import random
import socket
import statistics
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import crc32c

from compat_tests.harness.broker import Broker
from compat_tests.harness.wire import (
    CREATE_TOPICS,
    FETCH,
    LIST_OFFSETS,
    PRODUCE,
    ask,
    connect,
    frame,
    receive_frame,
    request_header,
    string,
)

WAIT_MS = 20_000
_NO_ERROR = 0
# Batch format 2: base offset, length, leader epoch, magic, CRC of what follows it
_BATCH_HEAD = struct.Struct(">qiibI")
# Attributes, last offset delta, two timestamps, producer id, epoch, sequence, number of records
_BATCH_REST = struct.Struct(">hiqqqhii")


def record_batch(value: bytes, timestamp_ms: int = 1_700_000_000_000) -> bytes:
    """One record in a batch of format 2, without a producer id."""
    record = b"\0\0\0\x01" + _varint(len(value)) + value + b"\0"
    rest = _BATCH_REST.pack(0, 0, timestamp_ms, timestamp_ms, -1, -1, -1, 1) + _varint(len(record)) + record
    return _BATCH_HEAD.pack(0, len(rest) + 9, -1, 2, crc32c.crc32c(rest)) + rest


def _varint(value: int) -> bytes:
    rest, out = value << 1, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def create_topics(bootstrap: str, names: list[str], partitions: int) -> None:
    """Many topics by one request."""
    topics = b"".join(string(name) + struct.pack(">ihii", partitions, 1, 0, 0) for name in names)
    with connect(bootstrap, 60) as stream:
        answer = ask(stream, CREATE_TOPICS, 2, struct.pack(">i", len(names)) + topics + struct.pack(">ib", 60_000, 0))
    assert struct.unpack_from(">ii", answer) == (0, len(names))
    position = 8
    for _ in names:
        (length,) = struct.unpack_from(">h", answer, position)
        code, error_length = struct.unpack_from(">hh", answer, position + 2 + length)
        assert code == _NO_ERROR, answer[position : position + 200]
        position += 6 + length + max(error_length, 0)


def produce_request(topic: str, partitions: int, batch: bytes, client_id: str = "steady") -> bytes:
    """One batch for each of the first partitions of a topic, acks=1; as a frame."""
    rows = b"".join(struct.pack(">ii", index, len(batch)) + batch for index in range(partitions))
    head = request_header(PRODUCE, 3, client_id=client_id) + struct.pack(">hhi", -1, 1, 30_000)
    return frame(head + struct.pack(">i", 1) + string(topic) + struct.pack(">i", partitions) + rows)


def fetch_request(topic: str, offset: int, wait_ms: int = WAIT_MS, max_bytes: int = 1 << 20) -> bytes:
    """From partition 0 of a topic, at least a byte; as a frame."""
    head = request_header(FETCH, 4, client_id="steady") + struct.pack(">iiiib", -1, wait_ms, 1, max_bytes, 0)
    return frame(head + struct.pack(">i", 1) + string(topic) + struct.pack(">iiqi", 1, 0, offset, max_bytes))


class Fetched(NamedTuple):
    """Of an answer to `fetch_request`: its records, and the offset that is behind all there are."""

    records: bytes
    high_watermark: int


def read_fetched(answer: bytes, topic: str) -> Fetched:
    """Look into the answer to a `fetch_request` for that topic."""
    at = struct.calcsize(">iii") + 2 + len(topic) + 4
    _, code, high_watermark, _, aborted, size = struct.unpack_from(">ihqqii", answer, at)
    assert (code, max(aborted, 0)) == (_NO_ERROR, 0)
    return Fetched(answer[len(answer) - size :] if size > 0 else b"", high_watermark)


def end_offset(stream: socket.socket, topic: str) -> int:
    """Where the next record of partition 0 goes."""
    one = struct.pack(">ii", -1, 1) + string(topic) + struct.pack(">iiq", 1, 0, -1)
    code, _, offset = struct.unpack(">hqq", ask(stream, LIST_OFFSETS, 1, one)[-18:])
    assert code == _NO_ERROR
    assert isinstance(offset, int)
    return offset


def p99(took_s: list[float]) -> float:
    """The time within which 99 of 100 exchanges were done."""
    return statistics.quantiles(took_s, n=100)[98]


class FairClock:
    """Stands still while the broker or this thread is ready to run and has no core: other programs are no attackers.

    From Linux's /proc/<pid>/schedstat (time on a core, time waited for one, turns); without it, it never stands still.
    For the thread that makes it.
    """

    def __init__(self, broker: Broker) -> None:
        me = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self.tasks = [path for path in (Path(f"/proc/{broker.pid}/schedstat"), me) if path.exists()]

    def now_s(self) -> float:
        waited_ns = sum(int(path.read_text().split()[1]) for path in self.tasks)
        return time.perf_counter() - waited_ns / 1e9


class Steady:
    """For the length of a with-block, exchanges on partition 0 of a topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.writer, self.reader = connect(bootstrap, 60), connect(bootstrap, 60)
        self.value = random.Random(topic).randbytes(100)
        self.request = produce_request(topic, 1, record_batch(self.value))
        self.offset = 0

    def __enter__(self) -> Self:
        self.offset = end_offset(self.reader, self.topic)
        self.exchange()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.writer.close()
        self.reader.close()

    def exchange(self, now_s: Callable[[], float] = time.perf_counter) -> float:
        """One record through the broker; the seconds from its sending until the consumer has it."""
        self.reader.sendall(fetch_request(self.topic, self.offset))
        began_s = now_s()
        self.writer.sendall(self.request)
        fetched = read_fetched(receive_frame(self.reader), self.topic)
        took_s = now_s() - began_s
        assert self.value in fetched.records
        self.offset = fetched.high_watermark
        receive_frame(self.writer)
        return took_s

    def window(self, count: int, now_s: Callable[[], float] = time.perf_counter) -> list[float]:
        """So many exchanges, one after another; seconds each."""
        return [self.exchange(now_s) for _ in range(count)]
