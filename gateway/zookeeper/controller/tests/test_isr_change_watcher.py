"""In-sync replicas that leaders have changed: the controller learns of them, and tells the other brokers."""

from __future__ import annotations

import pytest

from headgate.gateway.zookeeper.controller.tests.scripted_brokers import ClusterWorld
from headgate.gateway.zookeeper.layout.isr_changes import ISR_CHANGES_PATH, IsrChange
from headgate.gateway.zookeeper.layout.topics import LeaderAndIsr
from headgate.gateway.zookeeper.session import Create
from headgate.protocol.topic_partition import TopicPartition

T1 = TopicPartition("t", 1)


@pytest.fixture
def world() -> ClusterWorld:
    world = ClusterWorld()
    world.change(lambda: world.metadata.create_topic("t", assignments={0: [0, 1, 2], 1: [1, 2, 0]}))
    return world


def change_isr(world: ClusterWorld, *isr: int) -> None:
    """Broker 1 changes the in-sync replicas of its partition."""
    path = LeaderAndIsr.path("t", 1)
    state = LeaderAndIsr.decode("t", 1, world.nodes_there[path].data)
    world.tool.put(path, state._replace(isr=isr).encode())


def notify(world: ClusterWorld, data: bytes) -> None:
    world.tool.do(Create(IsrChange.path(), data, is_sequential=True))


def test_a_change_is_published_and_its_notification_deleted(world: ClusterWorld) -> None:
    change_isr(world, 1, 2)
    notify(world, IsrChange((T1, ("gone", 0), ("t", 9))).encode())
    world.settle()
    assert world.image.topics["t"].partitions[1].isr == (1, 2)
    assert world.brokers[2].metadata[T1] == (1, [1, 2], [])
    assert world.brokers[2].leaders[T1] == (1, 0)
    assert not world.nodes_there[ISR_CHANGES_PATH].children
    world.check()
    world.lose(1)
    world.settle()
    assert world.brokers[2].leaders[T1] == (2, 1)
    assert world.brokers[2].metadata[T1] == (2, [2], [1])
    world.check()


def test_a_change_without_a_notification_is_found_by_a_refused_write(world: ClusterWorld) -> None:
    change_isr(world, 1)
    world.lose(1)
    world.settle(2_000)
    world.settle(2_000)
    assert world.image.topics["t"].partitions[1].leader == -1  # the other replicas have left the set
    assert world.brokers[2].metadata[T1] == (-1, [1], [1])


def test_notifications_that_cannot_be_read_are_deleted(world: ClusterWorld, caplog: pytest.LogCaptureFixture) -> None:
    notify(world, b"nonsense")
    world.settle()
    assert not world.nodes_there[ISR_CHANGES_PATH].children
    (line,) = [line for line in caplog.messages if "the notification is deleted" in line]
    assert line.startswith("ZooKeeper's /isr_change_notification/isr_change_0000000000")


def test_a_new_controller_carries_out_the_old_notifications(world: ClusterWorld) -> None:
    world.kill()
    change_isr(world, 1, 0)
    notify(world, IsrChange((T1,)).encode())
    world.start()
    world.settle()
    assert not world.nodes_there[ISR_CHANGES_PATH].children
    assert world.image.topics["t"].partitions[1].isr == (1, 0)
    world.check()
