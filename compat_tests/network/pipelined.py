"""Random bursts of requests on one connection, and what each may wait for its answer."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from compat_tests.groups.committed import RETRIABLE, Answer
from compat_tests.harness.steady import record_batch
from compat_tests.harness.wire import FETCH, METADATA, PRODUCE, frame, receive_frame, request_header, string

OFFSET_COMMIT = 8
PRODUCE_TIMEOUT_MS = 4_000
# What an answer may take on a busy machine beyond what its request asks the broker to wait
SLACK_S = 3.0
MEGABYTE = 1 << 20
MAX_REQUESTS = 40
UNKNOWN_TOPICS = 12_000

_NO_ERROR = 0


@dataclass(frozen=True)
class Request:
    """`check` raises AssertionError for a wrong answer, which begins after the correlation id.

    The broker may wait `wait_s` with the answer, and must wait `least_s`.
    """

    name: str
    data: bytes
    check: Callable[[bytes], None]
    wait_s: float = 0.0
    least_s: float = 0.0


class Topics(NamedTuple):
    """`synced` waits for the disk, `plain` is as by default, `large` has some megabytes, and `empty` nothing."""

    synced: str
    plain: str
    large: str
    empty: str
    group: str


def produce(topic: str, acks: int, size: int, name: str) -> Request:
    """Produce v3 of one record to partition 0."""
    batch = record_batch(bytes(size))
    head = struct.pack(">hhii", -1, acks, PRODUCE_TIMEOUT_MS, 1) + string(topic)

    def check(answer: bytes) -> None:
        (error,) = struct.unpack_from(">h", answer, 4 + 2 + len(topic) + 4 + 4)
        assert error == _NO_ERROR, f"Produce to {topic} was answered with error {error}"

    return Request(name, _with_header(PRODUCE, 3, head + struct.pack(">iii", 1, 0, len(batch)) + batch), check)


def commit(group: str, topic: str, offset: int) -> Request:
    """OffsetCommit v2 by a client that is not in the group."""
    head = string(group) + struct.pack(">i", -1) + string("") + struct.pack(">q", -1)
    row = struct.pack(">iiq", 1, 0, offset) + string("")

    def check(answer: bytes) -> None:
        error = Answer(answer[-2:]).take(">h")
        assert error in RETRIABLE | {_NO_ERROR}, f"OffsetCommit was answered with error {error}"

    data = _with_header(OFFSET_COMMIT, 2, head + struct.pack(">i", 1) + string(topic) + row)
    return Request("commit", data, check)


def fetch(topic: str, offset: int, min_bytes: int, wait_ms: int, name: str) -> Request:
    """Fetch v4 of partition 0."""
    head = struct.pack(">iiiib", -1, wait_ms, min_bytes, 8 * MEGABYTE, 0)
    row = struct.pack(">iiqi", 1, 0, offset, 8 * MEGABYTE)

    def check(answer: bytes) -> None:
        (error,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(topic) + 4 + 4)
        assert error == _NO_ERROR, f"Fetch of {topic} was answered with error {error}"

    data = _with_header(FETCH, 4, head + struct.pack(">i", 1) + string(topic) + row)
    return Request(name, data, check, wait_ms / 1000)


def metadata(names: Sequence[str], name: str) -> Request:
    """Metadata v4, which makes no topics."""

    def check(answer: bytes) -> None:
        assert len(answer) > sum(map(len, names))

    body = struct.pack(">i", len(names)) + b"".join(map(string, names)) + b"\0"
    return Request(name, _with_header(METADATA, 4, body), check)


def _with_header(key: int, version: int, body: bytes) -> bytes:
    """The request with room for a correlation id."""
    return request_header(key, version, 0) + body


def kinds(topics: Topics) -> list[tuple[int, Request]]:
    """What bursts are made of, and how often each comes."""
    unknown = [f"there-is-no-topic-of-this-very-long-name-{number:040d}" for number in range(UNKNOWN_TOPICS)]
    return [
        (8, produce(topics.synced, -1, 10, "synced")),
        (2, produce(topics.synced, -1, 5_000, "synced, large")),
        (3, produce(topics.plain, -1, 10, "plain")),
        (2, produce(topics.plain, 1, 20_000, "plain, large")),
        (3, commit(topics.group, topics.plain, 7)),
        (2, fetch(topics.plain, 0, 1, 100, "fetch")),
        (2, fetch(topics.empty, 0, 1, 10, "fetch of nothing")),
        (2, fetch(topics.large, 0, 1, 100, "fetch of a megabyte")),
        (3, metadata([topics.plain], "metadata")),
        (1, metadata(unknown, "metadata of a megabyte")),
    ]


def burst(chance: random.Random, of: Sequence[tuple[int, Request]]) -> list[Request]:
    weights, requests = zip(*of, strict=True)
    return chance.choices(requests, weights, k=chance.randint(1, MAX_REQUESTS))


def exchange(stream: socket.socket, requests: Sequence[Request]) -> None:
    """Send all without waiting for answers, and read every answer.

    Raises AssertionError for an answer that is wrong, or late after the one before it.
    """
    data = b"".join(frame(_numbered(one.data, number)) for number, one in enumerate(requests))
    # A broker that waits for its answers to be read does not read either
    sender = threading.Thread(target=_send, args=(stream, data), daemon=True)
    sender.start()
    try:
        _receive(stream, requests)
    finally:
        with contextlib.suppress(OSError):
            stream.shutdown(socket.SHUT_RDWR)
        sender.join()


def _send(stream: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):  # who reads finds out
        stream.sendall(data)


def _receive(stream: socket.socket, requests: Sequence[Request]) -> None:
    for number, request in enumerate(requests):
        began_s = time.monotonic()
        try:
            answer = receive_frame(stream)
            took_s = time.monotonic() - began_s
            assert struct.unpack_from(">i", answer) == (number,), "the answers are not in order"
            request.check(answer[4:])
            assert request.least_s <= took_s, f"answered after {took_s:.1f} s, before its time"
            assert took_s < request.wait_s + SLACK_S, f"answered after {took_s:.1f} s"
        except (AssertionError, OSError) as failure:
            raise AssertionError(f"request {number}, {request.name}: {str(failure) or 'no answer'}") from failure


def _numbered(data: bytes, number: int) -> bytes:
    """With its correlation id, which comes after API key and version."""
    return data[:4] + struct.pack(">i", number) + data[8:]
