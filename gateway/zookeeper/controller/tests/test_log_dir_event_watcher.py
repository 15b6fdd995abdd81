"""Brokers whose log directories fail, and work again: others lead, and the sets follow."""

from __future__ import annotations

import pytest

from headgate.gateway.zookeeper.controller.tests.scripted_brokers import ClusterWorld
from headgate.gateway.zookeeper.layout.log_dir_events import LOG_DIR_EVENTS_PATH, LogDirEvent
from headgate.gateway.zookeeper.session import Create
from headgate.protocol.topic_partition import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def world() -> ClusterWorld:
    world = ClusterWorld()
    world.change(lambda: world.metadata.create_topic("t", assignments={0: [1, 2, 0], 1: [1, 2, 0]}))
    return world


def notify(world: ClusterWorld, data: bytes) -> None:
    world.tool.do(Create(LogDirEvent.path(), data, is_sequential=True))
    world.settle()


def fail(world: ClusterWorld, broker_id: int, *partitions: TopicPartition) -> None:
    """Other partitions of a broker are offline than before."""
    world.brokers[broker_id].failed = set(partitions)
    notify(world, LogDirEvent(broker_id).encode())


def test_another_leads_the_offline_replicas_alone(world: ClusterWorld) -> None:
    world.brokers[1].take()
    fail(world, 1, T0)
    assert world.brokers[1].take() == ["LeaderAndIsr!", "UpdateMetadata", "LeaderAndIsr", "UpdateMetadata"]
    assert world.brokers[2].leaders == {T0: (2, 1), T1: (1, 0)}
    assert world.brokers[2].metadata == {T0: (2, [2, 0], [1]), T1: (1, [1, 2, 0], [])}
    assert not world.nodes_there[LOG_DIR_EVENTS_PATH].children
    world.check()


def test_a_replica_that_works_again_may_lead_once_it_is_in_sync(world: ClusterWorld) -> None:
    fail(world, 1, T0)
    fail(world, 1)
    assert world.brokers[2].metadata[T0] == (2, [2, 0], [])
    world.rejoin(T0, 2, 0, 1)
    fail(world, 2, T0)
    assert world.brokers[1].leaders[T0] == (1, 2)
    world.check()


def test_the_last_in_sync_replica_leads_when_it_works_again(world: ClusterWorld) -> None:
    world.change(lambda: world.metadata.create_topic("u", assignments={0: [1]}))
    key = TopicPartition("u", 0)
    fail(world, 1, key)
    assert world.brokers[1].leaders[key] == (-1, 1)
    fail(world, 1)
    assert world.brokers[1].leaders[key] == (1, 2)
    world.check()


def test_a_new_controller_asks_all_brokers_anyway(world: ClusterWorld) -> None:
    world.kill()
    world.brokers[1].failed = {T1}
    world.tool.do(Create(LogDirEvent.path(), LogDirEvent(1).encode(), is_sequential=True))
    world.start()
    world.settle()
    assert not world.nodes_there[LOG_DIR_EVENTS_PATH].children
    assert world.brokers[2].leaders[T1] == (2, 1)
    world.check()


def test_notifications_of_no_broker_are_deleted(world: ClusterWorld, caplog: pytest.LogCaptureFixture) -> None:
    notify(world, b"nonsense")
    notify(world, LogDirEvent(7).encode())
    assert not world.nodes_there[LOG_DIR_EVENTS_PATH].children
    (line,) = [line for line in caplog.messages if "the notification is deleted" in line]
    assert line.startswith("ZooKeeper's /log_dir_event_notification/log_dir_event_0000000000")
