"""Names and placement of new topics."""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.gateway.metadata.image import Image, Node, PartitionState, Topic
from headgate.gateway.metadata.new_topics import (
    METADATA_TOPIC,
    Assignments,
    assigned_partitions,
    check_name,
    check_new,
    colliding,
    configured_factor,
    new_partitions,
)
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import TopicRecord
from headgate.protocol.tests.examples import share

ONE = Image.empty(brokers=[Node(0, None, {})])
THREE = Image.empty(brokers=[Node(number, None, {}) for number in (1, 2, 3)])


class FirstBroker(Random):
    """Chance that always begins with the first broker, and places the replicas right behind their leader."""

    def randrange(self, *_: Any) -> int:
        return 0


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


def replicas(states: Sequence[PartitionState]) -> list[tuple[int, ...]]:
    return [state.replicas for state in states]


def test_partitions_are_spread_over_the_brokers() -> None:
    """The example in the documentation of Kafka's AdminUtils: ten partitions on five brokers."""
    image = Image.empty(brokers=[Node(number, None, {}) for number in range(5)])
    states = new_partitions(image, 10, 3, FirstBroker())
    assert all(state.isr == state.replicas and state.leader == state.replicas[0] for state in states)
    assert replicas(states[:5]) == [(0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 0), (4, 0, 1)]
    assert replicas(states[5:]) == [(0, 2, 3), (1, 3, 4), (2, 4, 0), (3, 0, 1), (4, 1, 2)]


def test_replicas_alternate_between_racks() -> None:
    """The example in the documentation of Kafka's AdminUtils: six brokers in three racks."""
    racks = ("rack1", "rack3", "rack3", "rack2", "rack2", "rack1")
    image = Image.empty(brokers=[Node(number, rack, {}) for number, rack in enumerate(racks)])
    states = new_partitions(image, 7, 3, FirstBroker())
    assert replicas(states) == [(0, 3, 1), (3, 1, 5), (1, 5, 4), (5, 4, 2), (4, 2, 0), (2, 0, 3), (0, 4, 2)]


def test_later_partitions_follow_the_first_leader() -> None:
    present = new_partitions(THREE, 4, 1, Random(3))
    added = new_partitions(THREE, 2, 1, Random(4), present)
    assert replicas(added) == replicas(new_partitions(THREE, 6, 1, Random(3)))[4:]
    without_first = Image.empty(brokers=[Node(number, None, {}) for number in (1, 3)])
    assert replicas(new_partitions(without_first, 2, 1, Random(4), assigned_partitions(THREE, 0, {0: [2]}))) == [
        (1,),
        (3,),
    ]


@st.composite
def clusters(draw: st.DrawFn) -> Image:
    """A cluster of up to nine brokers. All brokers have racks, or some, or none."""
    ids = draw(st.sets(st.integers(0, 100), min_size=1, max_size=9))
    rack = draw(st.sampled_from([st.none(), st.sampled_from("abc"), st.sampled_from(["a", "b", None])]))
    return Image.empty(brokers=[Node(number, draw(rack), {}) for number in ids])


@pytest.mark.slow
@given(clusters(), st.data(), st.integers(1, 40), st.integers(0, 40), st.randoms(use_true_random=False))
@settings(max_examples=share(200))
def test_no_broker_and_no_rack_has_too_much(
    image: Image, data: st.DataObject, first: int, more: int, random: Random
) -> None:
    factor = data.draw(st.integers(1, len(image.brokers)))
    states = new_partitions(image, first, factor, random)
    if more:
        states += new_partitions(image, more, factor, random, states)
    leads = Counter(state.leader for state in states)
    assert max(leads.values()) - min(leads[broker] for broker in image.brokers) <= 1
    racks = {node.rack for node in image.brokers.values()}
    for state in states:
        assert len(set(state.replicas)) == factor
        used = {image.brokers[broker].rack for broker in state.replicas}
        assert None in racks or len(used) == min(factor, len(racks))


def test_a_configured_factor_is_one_only_in_a_cluster_of_one() -> None:
    alone = ONE._replace(controller_id=0)
    assert [configured_factor(image, 3) for image in (alone, ONE, THREE)] == [1, 3, 3]
    shared = Topic("t", b"t" * 16, (PartitionState(0, 0, (0, 1), (0,), 0),), {})
    assert configured_factor(alone._replace(topics={"t": shared}), 3) == 3
    assert configured_factor(alone._replace(topics={"t": shared}), 1) == 1


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
        new_partitions(ONE, count, factor, FirstBroker())
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
