from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.zookeeper.layout.node import MAX_INT32, InvalidNode
from headgate.gateway.zookeeper.layout.tests.recordings import MIDDLE, NEW, OLD, tree_after
from headgate.gateway.zookeeper.layout.topics import LeaderAndIsr, ReplicaAssignment, TopicAssignment, partition_of

_ints = st.integers(0, MAX_INT32)
_ids = st.lists(st.integers(0, 9), max_size=3).map(tuple)
_partitions = st.dictionaries(st.integers(0, 30), st.builds(ReplicaAssignment, _ids, _ids, _ids), max_size=14)
_topic_ids = st.none() | st.binary(min_size=16, max_size=16).filter(any)
_unknown = st.dictionaries(st.from_regex(r"ours_[a-z]{1,3}", fullmatch=True), st.integers() | st.text(), max_size=2)


@pytest.mark.slow
@given(st.builds(TopicAssignment, _topic_ids, _partitions, _unknown))
def test_assignments_round_trip(value: TopicAssignment) -> None:
    assert TopicAssignment.decode("t", value.encode()) == value


@given(st.builds(LeaderAndIsr, st.integers(-1, 9), _ints, _ids, _ints, st.integers(0, 1), _unknown))
def test_states_round_trip(value: LeaderAndIsr) -> None:
    assert LeaderAndIsr.decode("t", 3, value.encode()) == value


def test_a_topic_of_0_8_becomes_version_3_and_keeps_unknown_fields() -> None:
    old = TopicAssignment.decode("t", b'{"version":1,"partitions":{"1":[0],"0":[1]},"ours":{"a":1}}')
    assert old.topic_id is None
    assert old._replace(topic_id=bytes(15) + b"\x07").encode() == (
        b'{"partitions":{"0":[1],"1":[0]},"topic_id":"AAAAAAAAAAAAAAAAAAAABw","adding_replicas":{},'
        b'"removing_replicas":{},"version":3,"ours":{"a":1}}'
    )


@pytest.mark.parametrize("version", [OLD, MIDDLE, NEW])
def test_topics_of_every_age_are_the_same(version: str) -> None:
    tree = tree_after(version, "topics")
    topic = TopicAssignment.decode("t", tree["/brokers/topics/t"].data)
    assert sorted(topic.partitions) == [0, 1, 2, 3, 4]
    assert (topic.topic_id is None) == (version == OLD)
    for index, replica in topic.partitions.items():
        state = LeaderAndIsr.decode("t", index, tree[LeaderAndIsr.path("t", index)].data)
        assert state == LeaderAndIsr(replica.replicas[0], 0, replica.replicas, 1)


@pytest.mark.parametrize(
    "data, reason",
    [
        (b'{"version":1,"partitions":{"a":[0]}}', "'a' is not a decimal number"),
        (b'{"version":1,"partitions":{"-1":[0]}}', "'-1' is not a decimal number from 0"),
        (b'{"version":1,"partitions":{"01":[0]}}', "'01' is not a decimal number"),
        (b'{"version":1,"partitions":{"0":[-1]}}', "`'partitions.0'` must be an integer from 0"),
        (b'{"version":1,"partitions":{"0":0}}', "must be an array of integers"),
        (b'{"version":1,"partitions":[]}', "`'partitions'` must be an object"),
        (b'{"version":3,"partitions":{},"topic_id":"short"}', "is not an id of 16 bytes"),
        (b'{"version":3,"partitions":{},"topic_id":"AAAAAAAAAAAAAAAAAAAAB\xc3\xa4"}', "is not an id of 16 bytes"),
        (b'{"version":3,"partitions":{},"topic_id":"AAAAAAAAAAAAAAAAAAAABx"}', "is not an id of 16 bytes"),
    ],
)
def test_other_assignments_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(InvalidNode, match=rf"^ZooKeeper's /brokers/topics/t: .*{reason}"):
        TopicAssignment.decode("t", data)


def test_the_id_of_zeros_is_none() -> None:
    data = b'{"version":3,"partitions":{},"topic_id":"AAAAAAAAAAAAAAAAAAAAAA"}'
    assert TopicAssignment.decode("t", data).topic_id is None


def test_an_unclean_leader_recovers() -> None:
    state = LeaderAndIsr(1, 2, (1,), 3, leader_recovery_state=1)
    assert state.encode().endswith(b'"isr":[1],"leader_recovery_state":1}')


def test_paths() -> None:
    assert LeaderAndIsr.path("t", 3) == "/brokers/topics/t/partitions/3/state"
    assert partition_of("t", "3") == 3
    with pytest.raises(InvalidNode, match=r"^ZooKeeper's /brokers/topics/t/partitions/x: "):
        partition_of("t", "x")
    with pytest.raises(InvalidNode, match="is illegal"):
        TopicAssignment.path("a/b")
