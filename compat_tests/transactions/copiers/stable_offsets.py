"""The stable offsets of a group, by bytes of our own: OffsetFetch v7, the first one that asks for them (KIP-447).

    request   group, topics: [name, [partition]], require stable
    response  throttle ms, topics: [name, [partition, offset, leader epoch, metadata or null, error]], error

EndTxn is answered before its markers are written. Until then the offset is pending, and an older version of OffsetFetch
shows the one before.
"""

from __future__ import annotations

import struct
from collections.abc import Collection

from compat_tests.groups.committed import OFFSET_FETCH, RETRIABLE
from compat_tests.harness import wire
from compat_tests.harness.waiting import until
from compat_tests.transactions.copiers.flexible import NO_TAGS, Answer, length, string

VERSION = 7
UNSTABLE_OFFSET_COMMIT = 88


def stable_offsets(
    bootstrap: str, group: str, topic: str, partitions: Collection[int], timeout_s: float
) -> dict[int, int]:
    """The committed offset of each partition, -1 for none, as soon as no open transaction has another one."""
    found: dict[int, int] = {}

    def are_stable() -> bool:
        error, rows = ask(bootstrap, group, topic, [one for one in partitions if one not in found])
        assert error in RETRIABLE | {0}, f"OffsetFetch of {group} was answered with error {error}"
        errors = {code for _, code in rows.values()}
        assert errors <= RETRIABLE | {0, UNSTABLE_OFFSET_COMMIT}, f"OffsetFetch of {group}: {rows}"
        found.update({partition: offset for partition, (offset, code) in rows.items() if code == 0})
        return found.keys() >= set(partitions)

    until(are_stable, f"stable offsets of {group}", timeout_s)
    return found


def ask(bootstrap: str, group: str, topic: str, partitions: Collection[int]) -> tuple[int, dict[int, tuple[int, int]]]:
    """The error of the request; the offset and the error of each partition."""
    wanted = b"".join(struct.pack(">i", partition) for partition in partitions)
    topics = length(1) + string(topic) + length(len(partitions)) + wanted + NO_TAGS
    body = NO_TAGS + string(group) + topics + b"\1" + NO_TAGS
    with wire.connect(bootstrap, 60) as stream:
        answer = Answer(wire.ask(stream, OFFSET_FETCH, VERSION, body))
    answer.tags()
    answer.number("i")
    rows = [row for _ in range(answer.length()) for row in topic_rows(answer)]
    error = answer.number("h")
    return error, {partition: (offset, code) for partition, offset, code in rows}


def topic_rows(answer: Answer) -> list[tuple[int, int, int]]:
    """Partition, offset and error of each row."""
    answer.string()
    rows = [row(answer) for _ in range(answer.length())]
    answer.tags()
    return rows


def row(answer: Answer) -> tuple[int, int, int]:
    partition, offset = answer.number("i"), answer.number("q")
    answer.number("i")
    answer.string()
    error = answer.number("h")
    answer.tags()
    return partition, offset, error
