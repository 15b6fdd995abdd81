"""The orders of a controller to other brokers: lost, refused, and with registrations that come and go."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.gateway.zookeeper.controller import order_sender
from headgate.gateway.zookeeper.controller.tests.scripted_brokers import ClusterWorld
from headgate.gateway.zookeeper.session import Create
from headgate.protocol.errors import ErrorCode
from headgate.protocol.topic_partition import TopicPartition

# The live brokers alone, then all partitions
FIRST = ["UpdateMetadata", "LeaderAndIsr!", "UpdateMetadata!"]
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def world() -> ClusterWorld:
    """Partition 0 is placed on 0, 1, 2; partition 1 on 1, 2, 0."""
    world = ClusterWorld()
    world.change(lambda: world.metadata.create_topic("t", assignments={0: [0, 1, 2], 1: [1, 2, 0]}))
    return world


def test_brokers_learn_leaders_in_full_and_then_what_changes(world: ClusterWorld) -> None:
    for broker in world.brokers.values():
        assert broker.leaders == {T0: (0, 0), T1: (1, 0)}
        assert broker.metadata == {T0: (0, [0, 1, 2], []), T1: (1, [1, 2, 0], [])}
        assert broker.take() == [*FIRST, "LeaderAndIsr", "UpdateMetadata"]
    assert world.metadata.image.topics["t"].partitions[1].leader == 1


def test_a_lost_broker_loses_its_leads_and_gets_all_again(world: ClusterWorld) -> None:
    world.lose(1)
    world.settle()
    assert world.brokers[2].leaders == {T0: (0, 1), T1: (2, 1)}
    assert world.brokers[2].metadata == {T0: (0, [0, 2], [1]), T1: (2, [2, 0], [1])}
    assert (world.brokers[1].opened, world.brokers[1].closed) == (1, 1)
    world.brokers[1].take()
    world.register(1)
    world.settle()
    assert world.brokers[1].leaders == {T0: (0, 1), T1: (2, 1)}
    assert world.brokers[1].take()[:3] == FIRST
    assert world.brokers[2].metadata[T0] == (0, [0, 2], [])
    world.check()


def test_a_broker_that_registers_again_unseen_loses_its_lead(world: ClusterWorld) -> None:
    world.lose(1)
    world.register(1)
    world.settle()
    assert world.brokers[2].leaders == {T0: (0, 1), T1: (2, 1)}
    assert world.brokers[1].opened == 2


def test_an_order_without_an_answer_is_repeated(world: ClusterWorld, caplog: pytest.LogCaptureFixture) -> None:
    broker = world.brokers[1]
    broker.take()
    broker.faults += [None, ErrorCode.NONE, None]
    world.change(lambda: world.metadata.create_partitions("t", 3, {2: [1, 2, 0]}))
    world.settle(1_000)
    assert broker.requests[0] == broker.requests[1]
    assert broker.take() == ["LeaderAndIsr", "LeaderAndIsr", "UpdateMetadata", "UpdateMetadata"]
    assert "an order to broker 1 is repeated until it is answered: the test" in caplog.text


@pytest.mark.parametrize("code", [ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.STALE_BROKER_EPOCH])
def test_a_refused_order_is_repeated_after_a_pause(world: ClusterWorld, code: ErrorCode) -> None:
    broker = world.brokers[1]
    broker.take()
    broker.faults += [code]
    world.change(lambda: world.metadata.create_partitions("t", 3, {2: [1, 2, 0]}))
    world.settle(1_000)
    assert broker.take() == ["LeaderAndIsr", "LeaderAndIsr", "UpdateMetadata"]


def test_a_replica_on_a_failed_directory_leads_no_more(world: ClusterWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_sender, "MADE_AT_ONCE", 0)  # as with many topics
    world.brokers[1].failed.add(TopicPartition("u", 0))
    world.change(lambda: world.metadata.create_topic("u", assignments={0: [1, 2]}))
    world.settle()
    assert world.brokers[2].leaders[TopicPartition("u", 0)] == (2, 1)
    assert world.brokers[2].metadata[TopicPartition("u", 0)] == (2, [2], [1])
    world.check()


def test_a_deleted_topic_is_deleted_by_its_brokers(world: ClusterWorld) -> None:
    world.brokers[1].take()
    world.change(lambda: world.metadata.delete_topic("t"))
    assert world.brokers[1].metadata[T0][0] == -2
    assert world.brokers[1].take() == ["UpdateMetadata", "StopReplica"]


def test_another_controller_ends_all_orders(world: ClusterWorld) -> None:
    world.tool.delete("/controller")
    data = b'{"version":1,"brokerid":1,"timestamp":"1"}'
    world.keeper.transact(777, [Create("/controller", data, is_ephemeral=True)])
    world.settle(1_000)
    assert [broker.opened - broker.closed for broker in world.brokers.values()] == [0, 0]


def test_a_controller_that_is_elected_again_sends_all_again(world: ClusterWorld) -> None:
    world.brokers[1].take()
    world.tool.delete("/controller")
    world.settle(1_000)
    requests: list[Any] = world.brokers[1].requests
    assert {request.controller_epoch for request in requests} == {2}
    assert world.brokers[1].take() == FIRST
    assert world.brokers[1].opened - world.brokers[1].closed == 1


def test_a_broker_without_the_listener_is_named(caplog: pytest.LogCaptureFixture) -> None:
    world = ClusterWorld()
    data = b'{"listener_security_protocol_map":{"IN":"SSL"},"endpoints":["IN://h:1"],"version":5,"timestamp":"1"}'
    world.tool.do(Create("/brokers/ids/3", data))
    world.settle()
    assert "broker 3 gets no orders: it has no listener PLAINTEXT" in caplog.text


def test_a_fault_of_ours_is_logged_and_orders_begin_again(caplog: pytest.LogCaptureFixture) -> None:
    world = ClusterWorld()
    world.brokers[1].take()
    world.brokers[1].versions = None
    world.lose(1)
    world.register(1)
    world.settle(2_000)
    assert world.brokers[1].take() == []
    assert "the orders to broker 1 failed; they begin again" in caplog.text
    world.brokers[1].versions = world.brokers[2].versions
    world.settle(1_000)
    assert world.brokers[1].take() == FIRST
