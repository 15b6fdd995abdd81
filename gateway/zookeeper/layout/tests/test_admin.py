from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.zookeeper.layout.admin import (
    PartitionReassignments,
    PreferredReplicaElection,
    TopicDeletion,
)
from headgate.gateway.zookeeper.layout.node import MAX_INT32, InvalidNode

_topics = st.from_regex(r"[a-z][a-zA-Z0-9._-]{0,20}", fullmatch=True)
_partitions = st.tuples(_topics, st.integers(0, MAX_INT32))
_lists = st.lists(_partitions, max_size=4).map(tuple)
_replicas = st.lists(st.integers(0, MAX_INT32), max_size=3).map(tuple)


@pytest.mark.slow
@given(st.builds(PartitionReassignments, st.dictionaries(_partitions, _replicas, max_size=4)))
def test_reassignments_round_trip(value: PartitionReassignments) -> None:
    assert PartitionReassignments.decode(value.encode()) == value


@pytest.mark.slow
@given(_lists)
def test_lists_of_partitions_round_trip(partitions: tuple[tuple[str, int], ...]) -> None:
    election = PreferredReplicaElection(partitions)
    assert PreferredReplicaElection.decode(election.encode()) == election


def test_an_order_to_delete_is_the_node_itself() -> None:
    assert TopicDeletion.path("t") == "/admin/delete_topics/t"
    assert TopicDeletion("t").encode() is None
    with pytest.raises(InvalidNode, match=r"^ZooKeeper's /admin/delete_topics: .*is illegal"):
        TopicDeletion.path("a b")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"partitions":{}}',
        b'{"partitions":[1]}',
        b'{"partitions":[{"topic":"t"}]}',
        b'{"partitions":[{"topic":"a b","partition":0,"replicas":[]}]}',
        b'{"partitions":[{"topic":"t","partition":-1,"replicas":[]}]}',
        b'{"partitions":[{"topic":"t","partition":0,"replicas":["0"]}]}',
    ],
)
def test_other_orders_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidNode, match=r"^ZooKeeper's /admin/reassign_partitions: "):
        PartitionReassignments.decode(data)
