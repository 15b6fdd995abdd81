"""The committed offsets of a group, asked for by bytes of our own: OffsetFetch v5, which is the last with plain arrays.

    request   group, topics: [name, [partition]], null for all
    response  throttle ms, topics: [name, [partition, offset, leader epoch, metadata or null, error]], error

From the protocol guide on kafka.apache.org; v5 has leader epochs (KIP-320).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from compat_tests.harness import wire
from compat_tests.harness.waiting import until

OFFSET_FETCH = 9
# COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR: a client tries again
RETRIABLE = {14, 15, 16}


class Committed(NamedTuple):
    """A row of the answer; an offset of -1 is none."""

    offset: int
    leader_epoch: int
    metadata: str | None
    error: int


def committed_offsets(bootstrap: str, group: str, topic: str) -> dict[int, int]:
    """What is committed, by partition."""
    return {partition: found.offset for partition, found in committed_rows(bootstrap, group).get(topic, {}).items()}


def committed_rows(bootstrap: str, group: str) -> dict[str, dict[int, Committed]]:
    """All that a group has committed, by topic and partition, as soon as its coordinator has it; without any error."""
    answers: list[dict[str, dict[int, Committed]]] = []

    def is_answered() -> bool:
        error, found = ask(bootstrap, group)
        assert error in RETRIABLE | {0}, f"OffsetFetch of {group} was answered with error {error}"
        if error == 0:
            answers.append(found)
        return error == 0

    until(is_answered, f"the coordinator of {group}")
    assert all(row.error == 0 for found in answers[0].values() for row in found.values()), answers[0]
    return answers[0]


def ask(bootstrap: str, group: str) -> tuple[int, dict[str, dict[int, Committed]]]:
    with wire.connect(bootstrap) as stream:
        answer = Answer(wire.ask(stream, OFFSET_FETCH, 5, wire.string(group) + struct.pack(">i", -1)))
    answer.take(">i")
    topics = {str(answer.text()): rows(answer) for _ in range(answer.take(">i"))}
    error = answer.take(">h")
    answer.assert_end()
    return error, topics


def rows(answer: Answer) -> dict[int, Committed]:
    return {
        answer.take(">i"): Committed(answer.take(">q"), answer.take(">i"), answer.text(), answer.take(">h"))
        for _ in range(answer.take(">i"))
    }


class Answer:
    """Bytes of a response, taken one value after another."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, layout: str) -> int:
        (value,) = struct.unpack_from(layout, self.data, self.position)
        self.position += struct.calcsize(layout)
        return int(value)

    def text(self) -> str | None:
        size = self.take(">h")
        if size < 0:
            return None
        self.position += size
        return self.data[self.position - size : self.position].decode()

    def assert_end(self) -> None:
        assert self.position == len(self.data), f"{len(self.data) - self.position} bytes are left"
