"""headgate.retention.hold.groups over two brokers: a leader asks the coordinator on the other one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from headgate.gateway.metadata.image import CONSUMER_OFFSETS
from headgate.gateway.tests.builders import parked
from headgate.gateway.tests.requests import commit_request
from headgate.gateway.zookeeper.tests.two_brokers import TwoBrokers

pytestmark = pytest.mark.slow


@pytest.fixture
def two(tmp_path: Path) -> Iterator[TwoBrokers]:
    """Broker 0 coordinates all groups."""
    brokers = TwoBrokers(tmp_path)
    for name, leader in ((CONSUMER_OFFSETS, 0), ("t", 1)):
        brokers.change(partial(brokers.stores[0].create_topic, name, assignments={0: [leader]}))
    brokers.settle()
    yield brokers
    brokers.stop()


def first_unread(two: TwoBrokers, number: int, *groups: str) -> int:
    broker = two.brokers[number]
    outcome = broker.parts.unread_offsets.first(groups, "t", 0)
    if isinstance(outcome, int):
        return outcome
    found: list[int] = []
    broker.services.tasks.start(outcome, found.append)
    for _ in range(40):  # in small steps: the leader waits for a second
        for each in two.brokers:
            each.settle(100)
    (offset,) = found
    return offset


def test_the_coordinator_on_another_broker_is_asked(two: TwoBrokers) -> None:
    first = two.brokers[0]
    assert (first.commit("g", "t", 0, 7), first.commit("h", "t", 0, 5)) == (0, 0)
    assert first_unread(two, 1, "g") == 7
    assert first_unread(two, 1, "g", "h") == 5
    assert first_unread(two, 1, "g", "nobody") == 0
    assert first_unread(two, 0, "g", "h") == 5


@pytest.mark.parametrize("is_cut, expected", [(False, 9), (True, 0)])
def test_an_offset_that_an_election_may_take_back_waits(tmp_path: Path, is_cut: bool, expected: int) -> None:
    """The follower of the offsets has to have it: the records below would be deleted, and the group come back."""
    two = TwoBrokers(tmp_path)
    for name in (CONSUMER_OFFSETS, "t"):
        two.change(partial(two.stores[0].create_topic, name, assignments={0: [0, 1]}))
    two.settle()
    first = two.brokers[0]
    for offset in (5, 9):
        replies = parked(first, first.handle(commit_request("g", {0: offset}), 2))
        if offset == 9 and is_cut:
            two.cut()
        elif offset == 5:
            for _ in range(4):
                two.settle()
            assert replies[0].topics[0].partitions[0].error_code == 0
            assert first_unread(two, 0, "g") == 5
    assert not isinstance(first.parts.unread_offsets.first(("g",), "t", 0), int)
    assert first_unread(two, 0, "g") == expected
    two.stop()


def test_without_an_answer_the_hold_stays(two: TwoBrokers) -> None:
    assert two.brokers[0].commit("g", "t", 0, 7) == 0
    two.cut()
    assert first_unread(two, 1, "g") == 0
