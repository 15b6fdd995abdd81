"""The facts of a controller as one value."""

from __future__ import annotations

from headgate.gateway.controller.cluster_view import FailedReplica
from headgate.gateway.controller.tests.clusters import T0, state, view
from headgate.protocol.topic_partition import TopicPartition


def test_a_partition_that_does_not_exist_has_no_state() -> None:
    cluster = view(state(1, (1, 2)))
    assert cluster.state(T0) == state(1, (1, 2))
    assert cluster.state(TopicPartition("t", 1)) is None
    assert cluster.state(TopicPartition("t", -1)) is None
    assert cluster.state(TopicPartition("u", 0)) is None


def test_online_replicas_have_a_live_broker_and_a_working_disk() -> None:
    cluster = view(state(1, (1, 2)), live=(1, 2))._replace(failed=frozenset([FailedReplica(1, T0)]))
    assert cluster.online(T0, (3, 2, 1)) == (2,)
    assert cluster.online(TopicPartition("t", 1), (3, 2, 1)) == (2, 1)


def test_partitions_are_found_by_their_brokers() -> None:
    cluster = view(state(1, (1,), (1, 2)), state(3, (3,), (3,)))
    assert [key for key, _ in cluster.partitions_of((2, 4))] == [T0]
    assert not list(cluster.partitions_of(()))
