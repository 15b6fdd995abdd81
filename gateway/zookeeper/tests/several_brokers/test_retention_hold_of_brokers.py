"""headgate.retention.hold.groups over two brokers: a leader asks the coordinator on the other one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from headgate.gateway.metadata.image import CONSUMER_OFFSETS
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


def test_without_an_answer_the_hold_stays(two: TwoBrokers) -> None:
    assert two.brokers[0].commit("g", "t", 0, 7) == 0
    two.cut()
    assert first_unread(two, 1, "g") == 0
