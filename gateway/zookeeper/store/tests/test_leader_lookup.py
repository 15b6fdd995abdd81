"""A leader without ZooKeeper learns from the other brokers who leads now."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from headgate.gateway.metadata.image import PartitionState
from headgate.gateway.tests.requests import commit_request
from headgate.gateway.zookeeper.tests.two_brokers import TwoBrokers
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.find_coordinator import GROUP, FindCoordinatorRequest

OFFSETS = "__consumer_offsets"


@pytest.fixture
def two(tmp_path: Path) -> Iterator[TwoBrokers]:
    """Broker 1 leads the partition of the offsets, which broker 0 follows."""
    brokers = TwoBrokers(tmp_path, replica_lag_time_max_ms="2000")
    brokers.change(partial(brokers.stores[0].create_topic, OFFSETS, assignments={0: [1, 0]}))
    assert led(brokers, 1).leader == 1
    yield brokers
    brokers.stop()


def led(two: TwoBrokers, number: int) -> PartitionState:
    return two.stores[number].image.topics[OFFSETS].partitions[0]


def lose_session(two: TwoBrokers) -> None:
    """Cut broker 1 off from ZooKeeper, beyond the end of its session."""
    session = two.keeper.sessions[1]
    two.keeper.expire(session.session_id)
    assert not session.is_connected


def test_a_leader_cut_off_from_zookeeper_learns_who_leads(two: TwoBrokers) -> None:
    lose_session(two)
    two.settle()
    two.settle()
    assert not two.keeper.sessions[1].is_connected
    assert led(two, 1)[:2] == led(two, 0)[:2] == (0, 1)
    found = two.brokers[1].answer(FindCoordinatorRequest(key="g", key_type=GROUP), 2)
    assert (found.error_code, found.node_id) == (ErrorCode.NONE, 0)
    refused = two.brokers[1].answer(commit_request("g", {0: 1}), 2)
    assert refused.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR


def test_a_leader_without_an_answer_goes_on(two: TwoBrokers) -> None:
    two.cut()
    lose_session(two)
    two.settle()
    two.settle()
    assert led(two, 0).leader == 0
    assert led(two, 1).leader == 1


def test_leaders_are_not_looked_up_while_followers_fetch(two: TwoBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    lookup = two.brokers[1].parts.partitions.leadership.in_sync_replicas.leader_lookup
    asked: list[object] = []
    monkeypatch.setattr(lookup, "begin", asked.append)
    two.keeper.stop()
    two.settle()
    two.settle()
    assert led(two, 1).leader == 1
    assert asked == []
