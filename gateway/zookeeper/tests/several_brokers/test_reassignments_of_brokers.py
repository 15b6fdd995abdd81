"""Reassignments between two whole brokers, by requests to the controller, which is one of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.metadata.image import PartitionState
from headgate.gateway.tests.builders import parked, records
from headgate.gateway.tests.requests import produce_request
from headgate.gateway.zookeeper.tests.two_brokers import TwoBrokers
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headgate.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from headgate.protocol.schema import Message

pytestmark = pytest.mark.slow


@pytest.fixture
def two(tmp_path: Path) -> Iterator[TwoBrokers]:
    """Broker 0 is the controller. It has the only replica of `t`."""
    brokers = TwoBrokers(tmp_path)
    brokers.change(partial(brokers.stores[0].create_topic, "t", assignments={0: [0]}))
    yield brokers
    brokers.stop()


def answer(two: TwoBrokers, number: int, request: Message, version: int) -> Any:
    """The response of a broker, which may have to wait for the other one."""
    broker = two.brokers[number]
    outcome = broker.handle(request, version)
    if isinstance(outcome, Message):
        return outcome
    replies = parked(broker, outcome)
    for _ in range(4):
        if not replies:
            two.settle()
    return replies[0]


def reassign(two: TwoBrokers, *replicas: int) -> int:
    topic = ReassignableTopic("t", [ReassignablePartition(0, list(replicas) or None)])
    (row,) = rows_of(answer(two, 0, AlterPartitionReassignmentsRequest(topics=[topic]), 1).responses)
    code: int = row.error_code
    return code


def reassigned(two: TwoBrokers, *replicas: int) -> PartitionState:
    """The state of the partition after its move, which both brokers know."""
    assert reassign(two, *replicas) == ErrorCode.NONE
    for _ in range(4):
        two.settle()
    first, second = (store.image.topics["t"].partitions[0] for store in two.stores)
    assert first == second
    assert (first.replicas, set(first.isr)) == (replicas, set(replicas))
    return first


def logs(two: TwoBrokers) -> list[int | None]:
    """The end of each broker's log; None without a log."""
    found = [broker.log_manager.logs.get(("t", 0)) for broker in two.brokers]
    return [None if log is None else log.end_offset for log in found]


def listed(two: TwoBrokers, *names: str) -> list[tuple[list[int], list[int], list[int]]]:
    topics = [ListPartitionReassignmentsTopics(name, [0, 7]) for name in names] or None
    response = answer(two, 0, ListPartitionReassignmentsRequest(topics=topics), 0)
    return [(row.replicas, row.adding_replicas, row.removing_replicas) for row in rows_of(response.topics)]


def rows_of(topics: list[Any]) -> list[Any]:
    return [row for topic in topics for row in topic.partitions]


def produce(two: TwoBrokers, number: int) -> None:
    """Have a broker acknowledge a record that all in-sync replicas have."""
    response = answer(two, number, produce_request(records(b"v")), 8)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def test_a_partition_moves_with_its_records_and_back(two: TwoBrokers) -> None:
    produce(two, 0)
    assert reassigned(two, 1).leader == 1
    assert logs(two) == [None, 1]
    produce(two, 1)
    assert reassigned(two, 0).leader == 0
    assert logs(two) == [2, None]
    assert listed(two) == []


def test_a_factor_is_raised_and_lowered(two: TwoBrokers) -> None:
    produce(two, 0)
    assert reassigned(two, 0, 1).leader == 0
    produce(two, 0)
    assert logs(two) == [2, 2]
    assert reassigned(two, 1).leader == 1
    assert logs(two) == [None, 2]


def test_a_move_in_progress_is_listed_and_cancelled(two: TwoBrokers) -> None:
    two.cut()  # broker 1 gets no order, and fetches nothing
    assert reassign(two, 1) == ErrorCode.NONE
    two.settle()
    assert listed(two) == listed(two, "t", "u") == [([1, 0], [1], [0])]
    assert listed(two, "u") == []
    assert reassign(two) == ErrorCode.NONE
    two.settle()
    assert listed(two) == []
    assert reassign(two) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_no_partition_is_added_during_a_move(two: TwoBrokers) -> None:
    two.cut()
    assert reassign(two, 1) == ErrorCode.NONE
    with pytest.raises(KafkaError) as refused:
        two.stores[0].create_partitions("t", 2)
    assert refused.value.code is ErrorCode.REASSIGNMENT_IN_PROGRESS
    assert two.change(lambda: two.stores[0].delete_topic("t")).error is None
    assert listed(two) == []


def test_the_next_controller_completes_a_move(two: TwoBrokers) -> None:
    assert reassign(two, 1, 0) == ErrorCode.NONE
    two.kill_first()
    for _ in range(4):
        two.settle()
    state = two.stores[0].image.topics["t"].partitions[0]
    assert (state.replicas, state.adding_replicas) == ((1, 0), (1,))
