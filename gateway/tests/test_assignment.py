"""Counts of partitions and replicas, and assignments by hand."""

import pytest

from gateway import assignment
from protocol.errors import ErrorCode, KafkaError


def test_minus_one_stands_for_the_default() -> None:
    assert assignment.count_partitions(-1, 6) == 6
    assert assignment.count_partitions(2, 6) == 2
    assert assignment.count_replicas(-1, 2, [0, 1, 2]) == 2
    assert assignment.count_replicas(3, 2, [0, 1, 2]) == 3


def test_a_node_that_stands_alone_has_one_replica_by_default() -> None:
    assert assignment.count_replicas(-1, 3, [0]) == 1


@pytest.mark.parametrize("count", [0, -2])
def test_counts_that_cannot_be(count: int) -> None:
    with pytest.raises(KafkaError) as caught:
        assignment.count_partitions(count, 1)
    assert caught.value.code == ErrorCode.INVALID_PARTITIONS
    with pytest.raises(KafkaError) as caught:
        assignment.count_replicas(count, 1, [0])
    assert caught.value.code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_more_replicas_than_brokers() -> None:
    with pytest.raises(KafkaError) as caught:
        assignment.count_replicas(2, 1, [0])
    assert caught.value.code == ErrorCode.INVALID_REPLICATION_FACTOR == 38


def test_an_assignment_by_hand() -> None:
    assert assignment.check_manual({1: [1, 0], 0: [0, 1]}, [0, 1]) == [(0, 1), (1, 0)]


@pytest.mark.parametrize(
    "partitions",
    [
        pytest.param({1: [0]}, id="not from 0"),
        pytest.param({0: [0], 2: [0]}, id="a gap"),
        pytest.param({0: []}, id="no broker"),
        pytest.param({0: [0, 0]}, id="a broker twice"),
        pytest.param({0: [7]}, id="unknown broker"),
        pytest.param({0: [0, 1], 1: [0]}, id="different numbers of replicas"),
    ],
)
def test_an_assignment_that_cannot_be(partitions: dict[int, list[int]]) -> None:
    with pytest.raises(KafkaError) as caught:
        assignment.check_manual(partitions, [0, 1])
    assert caught.value.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
