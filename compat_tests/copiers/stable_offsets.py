"""The stable offsets of a group, by bytes of our own: OffsetFetch v7, the first one that asks for them (KIP-447).

    request   group, topics: [name, [partition]], require stable
    response  throttle ms, topics: [name, [partition, offset, leader epoch, metadata or null, error]], error

All strings and arrays are compact, and tags follow each structure; from the protocol guide on kafka.apache.org. EndTxn
is answered before its markers are written. Until then the offset is pending, and an older version shows the one before.
"""

from __future__ import annotations

import struct
from collections.abc import Collection

from compat_tests import wire
from compat_tests.groups.committed import OFFSET_FETCH, RETRIABLE
from compat_tests.waiting import until

VERSION = 7
UNSTABLE_OFFSET_COMMIT = 88
NO_TAGS = b"\0"
SHORT = 127
"""A compact length of one byte is less than this."""


def stable_offsets(bootstrap: str, group: str, topic: str, partitions: Collection[int]) -> dict[int, int]:
    """The committed offset of each partition, -1 for none, as soon as no open transaction has another one."""
    found: dict[int, int] = {}

    def are_stable() -> bool:
        error, rows = ask(bootstrap, group, topic, [one for one in partitions if one not in found])
        assert error in RETRIABLE | {0}, f"OffsetFetch of {group} was answered with error {error}"
        errors = {code for _, code in rows.values()}
        assert errors <= RETRIABLE | {0, UNSTABLE_OFFSET_COMMIT}, f"OffsetFetch of {group}: {rows}"
        found.update({partition: offset for partition, (offset, code) in rows.items() if code == 0})
        return found.keys() >= set(partitions)

    until(are_stable, f"stable offsets of {group}")
    return found


def ask(bootstrap: str, group: str, topic: str, partitions: Collection[int]) -> tuple[int, dict[int, tuple[int, int]]]:
    """The error of the request; the offset and the error of each partition."""
    wanted = b"".join(struct.pack(">i", partition) for partition in partitions)
    topics = length(1) + string(topic) + length(len(partitions)) + wanted + NO_TAGS
    body = NO_TAGS + string(group) + topics + b"\1" + NO_TAGS
    with wire.connect(bootstrap, 30) as stream:
        answer = Answer(wire.ask(stream, OFFSET_FETCH, VERSION, body))
    answer.tags()
    answer.number("i")
    rows = [row for _ in range(answer.length()) for row in answer.topic()]
    error = answer.number("h")
    return error, {partition: (offset, code) for partition, offset, code in rows}


def string(text: str) -> bytes:
    return length(len(text)) + text.encode()


def length(count: int) -> bytes:
    """Zero stands for null."""
    assert count + 1 <= SHORT
    return bytes((count + 1,))


class Answer:
    """Bytes of a response, taken one value after another."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def number(self, kind: str) -> int:
        (value,) = struct.unpack_from(f">{kind}", self._data, self._position)
        self._position += struct.calcsize(kind)
        return int(value)

    def length(self) -> int:
        """Of a string or an array, -1 for null."""
        size = self.number("B") - 1
        assert size < SHORT
        return size

    def string(self) -> None:
        size = self.length()  # which moves the position
        self._position += max(size, 0)

    def tags(self) -> None:
        assert self.number("B") == 0

    def topic(self) -> list[tuple[int, int, int]]:
        """Partition, offset and error of each row."""
        self.string()
        rows = [self.row() for _ in range(self.length())]
        self.tags()
        return rows

    def row(self) -> tuple[int, int, int]:
        partition, offset = self.number("i"), self.number("q")
        self.number("i")
        self.string()
        error = self.number("h")
        self.tags()
        return partition, offset, error
