"""A follower has one fetch parked at its leader as another partition comes: how soon is that partition fetched?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.replication.fetching.first_fetches import EXPECTED_MS, MAX_FOLLOWERS, POLL_MS
from headgate.gateway.replication.tests.test_in_sync_replicas import LedPartition
from headgate.gateway.tests.builders import parked

WAIT_MS = 500


class LedWithFollowers(LedPartition):
    """Node 0 leads partition 0 of `t`, which both followers have fetched in this epoch; and the topic `u` later."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.metadata.create_topic("u", 1)
        self.sessions = {node_id: self.fetch(node_id, 0, session=(0, 0)).session_id for node_id in (1, 2)}

    def park(self, node_id: int, epoch: int = 1) -> list[Any]:
        """Have a follower fetch what is new; the list gets the answer."""
        session = self.sessions[node_id], epoch
        return parked(self.node, self.fetch(node_id, 0, session=session, is_named=False, wait_ms=WAIT_MS))

    def lead_another(self, isr: tuple[int, ...] = (0, 1)) -> None:
        self.order(isr=isr, epoch=1, topic_name="u")


@pytest.fixture
def led(tmp_path: Path) -> Iterator[LedWithFollowers]:
    led = LedWithFollowers(tmp_path)
    yield led
    led.node.close()


def test_a_fetch_without_news_waits_as_long_as_it_says(led: LedWithFollowers) -> None:
    waiting = led.park(1)
    led.node.time.advance(WAIT_MS - 1)
    assert waiting == []
    led.node.time.advance(1)
    assert len(waiting) == 1


def test_another_lead_calls_the_followers_that_it_needs(led: LedWithFollowers) -> None:
    needed, other = led.park(1), led.park(2)
    led.lead_another(isr=(0, 1))
    led.node.time.advance()
    assert (len(needed), len(other)) == (1, 0)


def test_a_fetch_without_a_session_is_called_too(led: LedWithFollowers) -> None:
    waiting = parked(led.node, led.fetch(1, 0, wait_ms=WAIT_MS))
    led.lead_another()
    led.node.time.advance()
    assert len(waiting) == 1


def test_consumers_are_not_called(led: LedWithFollowers) -> None:
    waiting = parked(led.node, led.fetch(-1, 0, wait_ms=WAIT_MS))
    led.lead_another()
    led.node.time.advance()
    assert waiting == []


def test_fetches_are_short_until_the_partition_is_fetched(led: LedWithFollowers) -> None:
    led.lead_another()
    waiting = led.park(1)
    led.node.time.advance(POLL_MS)
    assert len(waiting) == 1, "the follower's order may be late"
    topic_id = led.metadata.image.topics["u"].topic_id
    (topic,) = led.fetch(1, 0, topic_id=topic_id).responses
    assert topic.partitions[0].error_code == 0
    waiting = led.park(1, epoch=2)
    led.node.time.advance(WAIT_MS - 1)
    assert waiting == []


def test_a_follower_that_does_not_come_polls_not_for_ever(led: LedWithFollowers) -> None:
    led.lead_another()
    led.node.time.advance(EXPECTED_MS)
    waiting = led.park(1)
    led.node.time.advance(WAIT_MS - 1)
    assert waiting == []


def test_senders_with_many_node_ids_take_bounded_memory(led: LedWithFollowers) -> None:
    first_fetches = led.in_sync_replicas.first_fetches
    lists = [first_fetches.called(node_id) for node_id in range(3, 3 + 2 * MAX_FOLLOWERS)]
    assert first_fetches.called(3) is lists[0]
    assert first_fetches.called(2 + 2 * MAX_FOLLOWERS) is not lists[-1], "the last ones are not kept"
    waiting = led.park(1)
    led.lead_another()
    led.node.time.advance()
    assert len(waiting) == 1, "a follower of before is called all the same"
