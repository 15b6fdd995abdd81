"""Reassignments by a controller over the model of ZooKeeper: nodes, orders to brokers, orders of tools, crashes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from headgate.gateway.metadata.image import PartitionState
from headgate.gateway.zookeeper.controller import leader_elections
from headgate.gateway.zookeeper.controller.tests.scripted_brokers import ClusterWorld, ScriptedBroker
from headgate.gateway.zookeeper.layout.admin import REASSIGN_PARTITIONS_PATH, PartitionReassignments
from headgate.gateway.zookeeper.layout.tree import ClusterTree
from headgate.gateway.zookeeper.metadata import plans
from headgate.gateway.zookeeper.session import Operation, Refused
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsResponse
from headgate.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from headgate.protocol.messages.stop_replica import StopReplicaRequest
from headgate.protocol.topic_partition import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def world() -> ClusterWorld:
    """Broker 1 has the only replica of one partition, broker 2 of the other; broker 0 is the controller."""
    return new_world()


def new_world() -> ClusterWorld:
    world = ClusterWorld()
    world.change(lambda: world.metadata.create_topic("t", assignments={0: [1], 1: [2]}))
    return world


def reassign(world: ClusterWorld, *replicas: int) -> list[Any]:
    """The response, once it is there."""
    replies: list[Any] = []
    world.metadata.reassign({T0: replicas})(replies.append)
    return replies


def assignment(world: ClusterWorld) -> dict[str, Any]:
    """The node of the topic, without its id."""
    node: dict[str, Any] = json.loads(world.nodes_there["/brokers/topics/t"].data)
    del node["topic_id"]
    return node


def last_rows(broker: ScriptedBroker, cls: type[Any]) -> list[Any]:
    """The partitions of the last order of this kind."""
    order: Any = [request for request in broker.requests if isinstance(request, cls)][-1]
    return [row for topic in order.topic_states for row in topic.partition_states]


def test_nodes_and_orders_of_a_move_are_those_of_kafka(world: ClusterWorld, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "headgate.zookeeper")
    replies = reassign(world, 2)
    world.settle()
    (response,) = replies
    assert isinstance(response, AlterPartitionReassignmentsResponse)
    assert response.responses[0].partitions[0].error_code == ErrorCode.NONE
    assert assignment(world) == {
        "version": 3,
        "partitions": {"0": [2, 1], "1": [2]},
        "adding_replicas": {"0": [2]},
        "removing_replicas": {"0": [1]},
    }
    for broker_id, is_new in (1, False), (2, True):
        (row,) = last_rows(world.brokers[broker_id], LeaderAndIsrRequest)
        assert (row.leader, row.leader_epoch, row.replicas, row.isr) == (1, 1, [2, 1], [1])
        assert (row.adding_replicas, row.removing_replicas, row.is_new) == ([2], [1], is_new)
    world.check()
    world.brokers[1].take()
    world.rejoin(T0, 1, 2)
    assert assignment(world) == {
        "version": 3,
        "partitions": {"0": [2], "1": [2]},
        "adding_replicas": {},
        "removing_replicas": {},
    }
    assert world.brokers[2].leaders[T0] == (2, 2)
    (stopped,) = last_rows(world.brokers[1], StopReplicaRequest)
    assert (stopped.partition_index, stopped.leader_epoch, stopped.delete_partition) == (0, 2, True)
    assert world.brokers[1].take()[-1] == "StopReplica"
    lines = [line for line in caplog.messages if "reassignments" in line]
    assert lines == ["1 reassignments begin: t-0 to [2]", "1 reassignments have ended: t-0 to [2]"]
    world.check()


def test_a_program_that_drops_replicas_has_no_log_deleted(world: ClusterWorld) -> None:
    """Only a reassignment takes a replica away whose log is not the last one."""
    world.brokers[1].take()
    world.tool.write_topic("t", [2], [2])
    world.settle()
    assert "StopReplica" not in world.brokers[1].take()


def state(world: ClusterWorld) -> PartitionState:
    """As ZooKeeper has it."""
    return world.read().image.topics["t"].partitions[0]


BEGINNING = {((1,), 0), ((1,), 1), ((2, 1), 1)}
END = {((2, 1), 1), ((2, 1), 2), ((2,), 2)}


@pytest.mark.slow
@pytest.mark.parametrize("is_joined, steps, written", [(False, range(4), BEGINNING), (True, range(11, 17), END)])
def test_the_next_controller_goes_on_after_any_write(
    is_joined: bool, steps: range, written: set[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`written`: the replicas and the leader epoch that controllers have left behind."""
    monkeypatch.setattr(plans, "MULTI_BYTES", 1)  # each write in a multi of its own
    seen = set[Any]()
    for count in steps:
        world = new_world()
        reassign(world, 2)
        if is_joined:
            world.settle()
            world.join(T0, 1, 2)
        for _ in range(count):
            world.keeper.step()
            world.time.advance()
        world.kill()
        seen.add((state(world).replicas, state(world).leader_epoch))
        world.start()
        world.settle()
        if state(world).replicas == (1,):  # the request was lost
            reassign(world, 2)
            world.settle()
        if state(world).is_reassigning:
            world.rejoin(T0, 1, 2)
        assert (state(world).leader, state(world).replicas, state(world).isr) == (2, (2,), (2,))
        world.check()
    assert seen == written


def test_an_order_of_a_tool_stays_until_its_moves_have_ended(
    world: ClusterWorld, caplog: pytest.LogCaptureFixture
) -> None:
    order = PartitionReassignments({("t", 0): (2,), ("t", 1): (2, 9), ("u", 0): (1,)})
    world.tool.put(REASSIGN_PARTITIONS_PATH, order.encode())
    world.settle()
    assert state(world).adding_replicas == (2,)
    assert REASSIGN_PARTITIONS_PATH in world.nodes_there
    world.kill()
    world.start()
    world.settle()
    assert REASSIGN_PARTITIONS_PATH in world.nodes_there
    world.rejoin(T0, 1, 2)
    assert state(world).replicas == (2,)
    assert REASSIGN_PARTITIONS_PATH not in world.nodes_there
    refusals = sorted(line.partition(" is refused: ")[2] for line in caplog.messages if " is refused: " in line)
    assert refusals == ["t-1 cannot be on brokers [9], which are not alive", "u-0: The partition does not exist."]
    world.check()


def test_an_order_that_a_tool_withdraws_goes_on(world: ClusterWorld) -> None:
    world.tool.put(REASSIGN_PARTITIONS_PATH, PartitionReassignments({("t", 0): (2,)}).encode())
    world.settle()
    world.tool.delete(REASSIGN_PARTITIONS_PATH)
    world.settle()
    world.tool.put(REASSIGN_PARTITIONS_PATH, PartitionReassignments({("t", 0): (1,)}).encode())
    world.settle()
    assert state(world).replicas == (1,)
    assert REASSIGN_PARTITIONS_PATH not in world.nodes_there
    world.check()


def test_a_move_that_cannot_be_written_is_refused_alone(world: ClusterWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    write_state = plans.write_state

    def refuse(cluster: ClusterTree, name: str, index: int, state: PartitionState) -> Iterator[Operation]:
        if state.adding_replicas:
            raise RuntimeError("the test")
        return write_state(cluster, name, index, state)

    monkeypatch.setattr(plans, "write_state", refuse)
    replies = reassign(world, 2)
    for _ in range(4):
        world.settle(2_000)
    (response,) = replies
    assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    monkeypatch.undo()
    replies = reassign(world, 2)
    world.settle()
    assert replies[0].responses[0].partitions[0].error_code == ErrorCode.NONE
    world.check()


def test_moves_of_one_topic_do_not_refuse_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them write the node of the topic: side by side, ZooKeeper would refuse all but the first."""
    monkeypatch.setattr(leader_elections, "WRITTEN_AT_ONCE", 1)
    world, count = ClusterWorld(), 6
    world.change(lambda: world.metadata.create_topic("t", assignments={number: [1] for number in range(count)}))
    results, transact = list[Any](), world.keeper.transact

    def noted(*given: Any) -> Any:
        results.append(transact(*given))
        return results[-1]

    monkeypatch.setattr(world.keeper, "transact", noted)
    replies: list[Any] = []
    world.metadata.reassign({TopicPartition("t", number): (2,) for number in range(count)})(replies.append)
    world.settle()
    assert len(replies) == 1
    assert len(assignment(world)["adding_replicas"]) == count
    assert not [result for result in results if isinstance(result, Refused)]
    world.check()
