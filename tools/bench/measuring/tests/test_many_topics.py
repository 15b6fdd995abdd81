"""Making very many topics: the answers that are read for it."""

import struct
from dataclasses import dataclass, field
from typing import Any

import pytest

from headgate.tools.bench.measuring import many_topics
from headgate.tools.bench.requests import frames, many_frames
from headgate.tools.bench.requests.client import BenchError, Reader

TAGS = b"\x00"
ID = bytes(range(16))


def reader(body: bytes) -> Reader:
    return Reader(TAGS + body, flexible=True)


def created(*errors: int) -> bytes:
    rows = [
        b"\x02t" + ID + struct.pack(">h", error) + b"\x00" + struct.pack(">ih", 1, 1) + CONFIGS + TAGS
        for error in errors
    ]
    return frames.varint(len(rows) + 1) + b"".join(rows)


CONFIGS = b"\x02" + b"\x02k" + b"\x02v" + bytes(3) + TAGS


def deleted(*errors: int) -> bytes:
    rows = [b"\x02t" + struct.pack(">h", error) + b"\x00" + TAGS for error in errors]
    return frames.varint(len(rows) + 1) + b"".join(rows)


def committed(*errors: int) -> bytes:
    rows = [b"\x02t\x02" + struct.pack(">ih", 0, error) + TAGS + TAGS for error in errors]
    return frames.varint(len(rows) + 1) + b"".join(rows)


@pytest.mark.parametrize(
    "body, read",
    [
        (created(0, 36), many_topics.read_created),
        (deleted(0, 36), many_topics.read_deleted),
        (committed(0, 36), many_topics.read_committed),
    ],
)
def test_every_error_code_is_read(body: bytes, read: Any) -> None:
    whole = reader(body)
    assert read(whole) == [0, 36]
    assert whole.position == len(whole.data)


@dataclass
class Client:
    """Answers every request with the same bytes, behind a throttle time."""

    body: bytes
    asked: list[frames.RequestWriter] = field(default_factory=list)

    def call(self, request: frames.RequestWriter, timeout_seconds: float) -> Reader:
        self.asked.append(request)
        return reader(bytes(4) + self.body)


def test_an_error_code_ends_the_run() -> None:
    client: Any = Client(created(0, 36, 36))
    with pytest.raises(BenchError, match="request 19 v7: error code 36 in 2 rows"):
        many_topics.check_errors(client, many_frames.create_topics(["t"]), many_topics.read_created)


def test_topics_that_are_gone_are_deleted() -> None:
    client: Any = Client(deleted(0, 3))
    many_topics.delete(client, ["t", "u"])
    assert [request.key for request in client.asked] == [frames.DELETE_TOPICS]
    other: Any = Client(deleted(7))
    with pytest.raises(BenchError, match="error code 7 in 1 rows"):
        many_topics.delete(other, ["t"])


def test_topics_are_made_in_requests_of_some_hundred() -> None:
    names = [str(number) for number in range(1200)]
    parts = many_topics.chunks(names)
    assert [len(part) for part in parts] == [500, 500, 200]
    assert [name for part in parts for name in part] == names
