"""Names and placement of new topics."""

import pytest

from headgate.gateway.metadata.image import Image, Node, PartitionState
from headgate.gateway.metadata.new_topics import (
    METADATA_TOPIC,
    Assignments,
    assigned_partitions,
    check_name,
    check_new,
    colliding,
    new_partitions,
)
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import TopicRecord

ONE = Image.empty(brokers=[Node(0, None, {})])
THREE = Image.empty(brokers=[Node(number, None, {}) for number in (1, 2, 3)])


@pytest.mark.parametrize("name", ["a", "A-1_b.c", "x" * 249, "...", "__consumer_offsets"])
def test_names_that_are_allowed(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "x" * 250, "a b", "a/b", "\u00fc", "a\n", METADATA_TOPIC, "__cluster_metadata"]
)
def test_names_that_are_not(name: str) -> None:
    with pytest.raises(KafkaError) as caught:
        check_name(name)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_name_must_be_new() -> None:
    image = ONE.apply(TopicRecord(name="a.b", topic_id=b"a" * 16))
    check_new("ab", image)
    with pytest.raises(KafkaError) as exists:
        check_new("a.b", image)
    assert exists.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    with pytest.raises(KafkaError) as collides:
        check_new("a_b", image)
    assert collides.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert collides.value.message.startswith("Topic 'a_b' collides with existing topic: a.b; the two names differ in")
    check_new("a_b", image, before=Image.empty())


@pytest.mark.parametrize("others", [0, 100])
def test_names_that_metrics_cannot_tell_apart(others: int) -> None:
    """Few topics are searched; among many, each spelling is looked up."""
    topics = dict.fromkeys(("a.b_c", "_", "plain", *(f"other{number}" for number in range(others))))
    assert [colliding(name, topics) for name in ("a_b.c", "a.b.c", "a_b_c", ".")] == ["a.b_c"] * 3 + ["_"]
    assert [colliding(name, topics) for name in ("abc", "a.bc", "a._c", "..", "plai_n", "plain")] == [None] * 6


def test_partitions_are_spread_over_the_brokers() -> None:
    states = new_partitions(THREE, 0, 4, 2)
    assert [state.replicas for state in states] == [(1, 2), (2, 3), (3, 1), (1, 2)]
    assert all(state.isr == state.replicas and state.leader == state.replicas[0] for state in states)
    assert [state.replicas for state in new_partitions(THREE, 4, 2, 1)] == [(2,), (3,)]


@pytest.mark.parametrize(
    "count, factor, code",
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (-2, 1, ErrorCode.INVALID_PARTITIONS),
        (10_001, 1, ErrorCode.POLICY_VIOLATION),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, -2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 2, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_numbers_that_cannot_be(count: int, factor: int, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as caught:
        new_partitions(ONE, 0, count, factor)
    assert caught.value.code is code


def test_a_client_may_place_replicas() -> None:
    assert assigned_partitions(THREE, 0, {1: [2, 1], 0: [3, 2]}) == [
        PartitionState(3, 0, (3, 2), (3, 2), 0),
        PartitionState(2, 0, (2, 1), (2, 1), 0),
    ]


@pytest.mark.parametrize(
    "assignments, sentence",
    [
        ({1: [1]}, "consecutive 0-based integer sequence, here from 0 on; the request has [1]"),
        ({0: [1], 1: [1, 2]}, "not consistent with previous partitions, which have 1 replica(s): partition 1"),
        ({0: []}, "includes an empty replica list: partition 0"),
        ({0: [1, 1]}, "includes the broker 1 more than once: partition 0"),
        ({0: [1, 9]}, "includes broker 9, but no such broker is registered: partition 0"),
    ],
)
def test_placements_that_cannot_be(assignments: Assignments, sentence: str) -> None:
    with pytest.raises(KafkaError) as caught:
        assigned_partitions(THREE, 0, assignments)
    assert caught.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert sentence in caught.value.message
