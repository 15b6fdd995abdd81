"""Orders that tools write in ZooKeeper while the broker runs, or while it was away."""

from __future__ import annotations

import pytest

from headgate.gateway.zookeeper.controller.tests.scripted_brokers import ClusterWorld
from headgate.gateway.zookeeper.layout.admin import PreferredReplicaElection
from headgate.gateway.zookeeper.tests.store_world import StoreWorld
from headgate.protocol.topic_partition import TopicPartition


@pytest.fixture
def world() -> StoreWorld:
    return StoreWorld()


def test_an_order_to_delete_is_done(world: StoreWorld) -> None:
    world.change(lambda: world.metadata.create_topic("t", 2))
    world.tool.delete_topic("t")
    world.tool.delete_topic("unknown")
    world.settle()
    assert "t" not in world.image.topics
    assert not world.nodes_there["/admin/delete_topics"].children
    world.check()


def test_an_order_to_delete_is_refused_where_topics_stay() -> None:
    world = StoreWorld(settings="delete.topic.enable=false")
    world.change(lambda: world.metadata.create_topic("t", 2))
    world.tool.delete_topic("t")
    world.settle()
    assert "t" in world.image.topics
    assert not world.nodes_there["/admin/delete_topics"].children


def test_an_order_of_before_the_start_is_done(world: StoreWorld) -> None:
    world.change(lambda: world.metadata.create_topic("t", 2))
    world.kill()
    world.tool.delete_topic("t")
    world.start()
    world.settle()
    assert "t" not in world.image.topics
    world.check()


def test_dead_brokers_leave_the_replicas(world: StoreWorld) -> None:
    world.kill()
    world.tool.write_topic("t", [0, 5], [5, 0])
    world.start()
    world.tool.put(
        "/admin/reassign_partitions",
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[0]},'
        b'{"topic":"t","partition":1,"replicas":[5]},{"topic":"u","partition":0,"replicas":[0]}]}',
    )
    world.settle()
    first, second = world.image.topic("t").partitions
    assert (first.replicas, first.isr, first.leader) == ((0,), (0,), 0)
    assert (second.replicas, second.leader) == ((5, 0), 0)
    assert "/admin/reassign_partitions" not in world.nodes_there
    world.check()


@pytest.mark.parametrize("data", [b'{"version":1,"partitions":[{"topic":"t","partition":0}]}', b"nonsense", None])
def test_an_election_that_changes_nothing_ends(world: StoreWorld, data: bytes | None) -> None:
    world.change(lambda: world.metadata.create_topic("t", 1))
    world.tool.put("/admin/preferred_replica_election", data)
    world.settle()
    assert "/admin/preferred_replica_election" not in world.nodes_there
    world.check()


def test_an_order_gives_partitions_back_to_their_preferred_leaders(caplog: pytest.LogCaptureFixture) -> None:
    world = ClusterWorld()
    world.change(lambda: world.metadata.create_topic("t", assignments={0: [1, 0], 1: [2, 0]}))
    for broker_id in (1, 2):
        world.lose(broker_id)
    world.settle()
    world.register(1)
    world.rejoin(TopicPartition("t", 0), 0, 1)
    world.tool.put(
        "/admin/preferred_replica_election",
        PreferredReplicaElection((("t", 0), ("t", 1), ("u", 0))).encode(),
    )
    world.settle(1_000)
    assert [state.leader for state in world.image.topics["t"].partitions] == [1, 0]
    assert "/admin/preferred_replica_election" not in world.nodes_there
    refusals = sorted(line.partition(" is refused: ")[2] for line in caplog.messages if " is refused: " in line)
    assert [line.split(":")[0] for line in refusals] == ["t-1", "u-0"]
    world.check()
