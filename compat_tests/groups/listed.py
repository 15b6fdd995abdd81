"""What a broker says of its groups, asked for in bytes of our own: ListGroups v5, the first with types (KIP-848).

    request   tags, states: [] and types: [] for all, tags
    response  tags, throttle ms, error, groups: [id, protocol type, state, type, tags], tags

A flexible version (KIP-482): a length is a varint, of one more than there is.
"""

from __future__ import annotations

from typing import NamedTuple

from compat_tests.groups.committed import Answer
from compat_tests.harness import wire

LIST_GROUPS = 16
REQUEST = b"\0" + b"\1\1" + b"\0"


class Listed(NamedTuple):
    """A row of the answer. `type`: classic or consumer."""

    protocol_type: str
    state: str
    type: str


def listed_groups(bootstrap: str) -> dict[str, Listed]:
    """The groups of a broker, by id."""
    with wire.connect(bootstrap) as stream:
        answer = Answer(wire.ask(stream, LIST_GROUPS, 5, REQUEST))
    assert answer.take(">b") == 0
    answer.take(">i")
    assert answer.take(">h") == 0, "ListGroups was answered with an error"
    found = dict(row(answer) for _ in range(varint(answer) - 1))
    assert answer.take(">b") == 0
    answer.assert_end()
    return found


def row(answer: Answer) -> tuple[str, Listed]:
    group, protocol_type, state, kind = (text(answer) for _ in range(4))
    assert answer.take(">b") == 0
    return group, Listed(protocol_type, state, kind.lower())


def text(answer: Answer) -> str:
    size = varint(answer) - 1
    answer.position += size
    return answer.data[answer.position - size : answer.position].decode()


def varint(answer: Answer) -> int:
    value = shift = 0
    while (byte := answer.take(">B")) > 127:
        value |= (byte & 127) << shift
        shift += 7
    return value | byte << shift
