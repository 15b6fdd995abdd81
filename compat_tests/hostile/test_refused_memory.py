"""Batches that the broker refuses, or cannot convert, leave nothing in its memory; one conversion takes a bounded part.

Each batch is small, and large once decompressed: a few that stayed would be seen. `make soak` refuses 10,000.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

import cramjam
import crc32c
import pytest

from compat_tests.harness.broker import TARGET, Broker, running
from compat_tests.harness.soak import SOAK
from compat_tests.harness.topics import create_topics
from compat_tests.harness.wire import FETCH, LIST_OFFSETS, PRODUCE, ask, connect, string
from compat_tests.hostile.hostile_bytes import MemoryWatch

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="it measures this broker's memory")

TIMES = 1_250 if SOAK else 25
MEGABYTE = 1 << 20
BOUND_BYTES = 64 * MEGABYTE
NOW_MS = 1_700_000_000_000
NONE, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_RECORD = 0, 2, 10, 87
GZIP, ZSTD = 1, 4
# Beside the decompressed batch: the message with its only record, and the set with that message
COPIES_OF_A_RECORD = 3
LARGE_RECORD_BYTES = 100 * MEGABYTE
SLACK_BYTES = 32 * MEGABYTE


def batch(content: bytes, codec: int) -> bytes:
    """A batch of one record, as its header claims."""
    rest = struct.pack(">hiqqqhii", codec, 0, NOW_MS, NOW_MS, -1, -1, -1, 1) + content
    return struct.pack(">qiibI", 0, len(rest) + 9, -1, 2, crc32c.crc32c(rest)) + rest


def zstd(content: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(content))


def varint(value: int) -> bytes:
    rest, out = value << 1, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def record(size: int) -> bytes:
    fields = b"\0\0\0\x01" + varint(size) + bytes(size) + b"\0"
    return varint(len(fields)) + fields


NO_RECORDS = batch(zstd(bytes(8 * MEGABYTE)), ZSTD)
NO_STREAM = batch(zstd(bytes(8 * MEGABYTE))[:-3] + b"\xff\xff\xff", ZSTD)
ONE_RECORD = batch(zstd(record(8 * MEGABYTE)), ZSTD)
BOMB = batch(bytes(cramjam.gzip.compress(bytes(136 * MEGABYTE), 9)), GZIP)
TOPICS = {
    "kept": {},
    "unreadable": {},
    "compacted": {"cleanup.policy": "compact"},
    "plain": {"compression.type": "uncompressed"},
}


def produce(stream: socket.socket, topic: str, records: bytes) -> int:
    body = struct.pack(">hhii", -1, 1, 30_000, 1) + string(topic) + struct.pack(">iii", 1, 0, len(records))
    answer = ask(stream, PRODUCE, 7, body + records)
    return int(struct.unpack_from(">h", answer, 4 + 2 + len(topic) + 4 + 4)[0])


def fetch(stream: socket.socket, topic: str, version: int) -> int:
    body = struct.pack(">iii", -1, 0, 1)
    body += struct.pack(">i", MEGABYTE) if version >= 3 else b""
    body += struct.pack(">b", 0) if version >= 4 else b""
    body += struct.pack(">ii", 0, -1) if version >= 7 else b""
    body += struct.pack(">i", 1) + string(topic) + struct.pack(">ii", 1, 0)
    body += struct.pack(">i", -1) if version >= 9 else b""
    body += struct.pack(">q", 0)
    body += struct.pack(">q", -1) if version >= 5 else b""
    body += struct.pack(">i", MEGABYTE)
    body += struct.pack(">i", 0) if version >= 7 else b""
    answer = ask(stream, FETCH, version, body)
    position = 4 * (version >= 1) + 6 * (version >= 7) + 4 + 2 + len(topic) + 4 + 4
    return int(struct.unpack_from(">h", answer, position)[0])


def look_up(stream: socket.socket, topic: str) -> int:
    body = struct.pack(">ii", -1, 1) + string(topic) + struct.pack(">iiq", 1, 0, NOW_MS)
    return int(struct.unpack(">hqq", ask(stream, LIST_OFFSETS, 1, body)[-18:])[0])


class Refusal(NamedTuple):
    """One way to make the broker decompress a batch in vain, or convert it, with the expected error."""

    ask: Callable[[socket.socket], int]
    error: int


REFUSALS = {
    "produce, no record": Refusal(lambda stream: produce(stream, "compacted", NO_RECORDS), INVALID_RECORD),
    "produce, no key": Refusal(lambda stream: produce(stream, "compacted", ONE_RECORD), INVALID_RECORD),
    "produce, no stream": Refusal(lambda stream: produce(stream, "compacted", NO_STREAM), CORRUPT_MESSAGE),
    "produce, too large": Refusal(lambda stream: produce(stream, "plain", ONE_RECORD), MESSAGE_TOO_LARGE),
    "fetch of magic 0": Refusal(lambda stream: fetch(stream, "unreadable", 0), CORRUPT_MESSAGE),
    "fetch of magic 1": Refusal(lambda stream: fetch(stream, "unreadable", 3), CORRUPT_MESSAGE),
    "fetch without zstd": Refusal(lambda stream: fetch(stream, "unreadable", 9), CORRUPT_MESSAGE),
    "lookup": Refusal(lambda stream: look_up(stream, "unreadable"), NONE),
}


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running(tmp_path_factory.mktemp("refused")) as started:
        create_topics(started.bootstrap, TOPICS)
        with connect(started.bootstrap, 60) as stream:
            assert produce(stream, "unreadable", NO_STREAM) == NONE
        yield started


@pytest.mark.parametrize("name", REFUSALS)
def test_refused_batches_leave_memory_as_it_was(own_broker: Broker, name: str, figure: Callable[[str], None]) -> None:
    refusal = REFUSALS[name]
    with connect(own_broker.bootstrap, 60) as stream:
        for _ in range(3):
            assert refusal.ask(stream) == refusal.error
        before = own_broker.resident_bytes()
        for _ in range(TIMES):
            assert refusal.ask(stream) == refusal.error
        grown = own_broker.resident_bytes() - before
    figure(f"{TIMES} x {name}: {grown / MEGABYTE:.1f} MB more")
    assert grown < BOUND_BYTES


def test_one_conversion_takes_a_bounded_part_of_memory(own_broker: Broker, figure: Callable[[str], None]) -> None:
    """What a decompressed batch may have, and what a message set of one large record takes beside."""
    with connect(own_broker.bootstrap, 60) as stream:
        assert produce(stream, "kept", batch(zstd(record(LARGE_RECORD_BYTES)), ZSTD)) == NONE
        for version, copies in ((0, COPIES_OF_A_RECORD), (3, COPIES_OF_A_RECORD), (4, 1)):
            watch = MemoryWatch(own_broker)
            assert fetch(stream, "kept", version) == NONE
            most = watch.end()
            figure(f"Fetch {version} of a record of {LARGE_RECORD_BYTES / MEGABYTE:.0f} MB: {most / MEGABYTE:.0f} MB")
            assert most < copies * LARGE_RECORD_BYTES + SLACK_BYTES
        watch = MemoryWatch(own_broker)
        assert produce(stream, "compacted", BOMB) == MESSAGE_TOO_LARGE
        assert watch.end() < 128 * MEGABYTE + SLACK_BYTES


def test_a_batch_above_the_limit_is_corrupt_for_a_fetch(own_broker: Broker) -> None:
    """A client of these versions knows CORRUPT_MESSAGE of a fetch; MESSAGE_TOO_LARGE would be an unknown error."""
    create_topics(own_broker.bootstrap, {"bomb": {}})
    with connect(own_broker.bootstrap, 60) as stream:
        assert produce(stream, "bomb", batch(zstd(bytes(136 * MEGABYTE)), ZSTD)) == NONE
        assert [fetch(stream, "bomb", version) for version in (0, 3, 9)] == [CORRUPT_MESSAGE] * 3
