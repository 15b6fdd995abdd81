"""The requests of Apache Kafka's brokers to a controller: AlterPartition and AllocateProducerIds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from headgate.gateway.runtime.tasks import Tasks
from headgate.gateway.tests.builders import handler_of, over_the_wire
from headgate.gateway.zookeeper.controller.tests.scripted_brokers import ClusterWorld
from headgate.gateway.zookeeper.layout.cluster import PRODUCER_IDS_PATH, ProducerIdBlock
from headgate.gateway.zookeeper.layout.topics import LeaderAndIsr
from headgate.gateway.zookeeper.session import Create
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from headgate.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    RequestedPartitionData,
    RequestedTopicData,
)
from headgate.protocol.schema import Message
from headgate.protocol.topic_partition import TopicPartition

T0 = TopicPartition("t", 0)


@pytest.fixture
def world() -> ClusterWorld:
    """Broker 1 leads a partition of brokers 1, 0, 2."""
    world = ClusterWorld()
    world.change(lambda: world.metadata.create_topic("t", assignments={0: [1, 0, 2]}))
    world.brokers[2].take()
    return world


def epoch(world: ClusterWorld, broker_id: int) -> int:
    """Of the broker's registration."""
    return cast("int", world.nodes_there[f"/brokers/ids/{broker_id}"].czxid)


def ask(world: ClusterWorld, request: Message, version: int, wait_ms: float = 0.0) -> Any:
    received = over_the_wire(request, version)
    services = SimpleNamespace(metadata=world.metadata, scheduler=world.time.scheduler, clock=world.time.clock)
    context = cast("Any", SimpleNamespace(broker=services, version=version))
    responses: list[Any] = []

    def done(result: Any) -> None:
        if isinstance(result, KafkaError):
            result = received.error_response(version, result.code, result.message)
        responses.append(over_the_wire(result, version))

    tasks = Tasks(world.time.clock, world.time.scheduler)
    try:
        tasks.start(cast("Any", handler_of(received, version)(received, context)), done)
    except KafkaError as error:
        done(error)
    world.settle(wait_ms)
    (response,) = responses
    return response


def wanted(world: ClusterWorld, *isr: int, broker_epoch: int) -> AlterPartitionRequest:
    topic, states = world.image.topics["t"], [BrokerState(one) for one in isr]
    row = RequestedPartitionData(0, 0, list(isr), states, 0, topic.partitions[0].partition_epoch)
    return AlterPartitionRequest(1, broker_epoch, [RequestedTopicData("t", topic.topic_id, [row])])


@pytest.mark.parametrize("version", range(4))
def test_a_leader_has_the_controller_change_its_set(world: ClusterWorld, version: int) -> None:
    response = ask(world, wanted(world, 1, 2, broker_epoch=epoch(world, 1)), version)
    assert response.error_code == ErrorCode.NONE
    assert response.topics[0].partitions == [PartitionData(0, ErrorCode.NONE, 1, 0, [1, 2], 0, 1)]
    node = world.nodes_there[LeaderAndIsr.path(*T0)]
    assert (LeaderAndIsr.decode(*T0, node.data).isr, node.version) == ((1, 2), 1)
    assert world.brokers[2].metadata[T0] == (1, [1, 2], [])
    assert world.brokers[2].take() == ["UpdateMetadata"]
    world.check()


def test_a_set_is_not_stored_for_an_earlier_registration(world: ClusterWorld) -> None:
    assert ask(world, wanted(world, 1, broker_epoch=1), 3).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_a_set_that_zookeeper_does_not_take_is_asked_for_again(world: ClusterWorld) -> None:
    request = wanted(world, 1, broker_epoch=epoch(world, 1))
    world.keeper.cut(world.session)
    assert ask(world, request, 3, wait_ms=10_000).error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_block_of_producer_ids_is_taken_for_a_broker(world: ClusterWorld) -> None:
    for first in 0, 1000:
        request = AllocateProducerIdsRequest(broker_id=2, broker_epoch=epoch(world, 2))
        response = ask(world, request, 0)
        assert response == AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=1000)
        assert ProducerIdBlock.decode(world.nodes_there[PRODUCER_IDS_PATH].data) == ProducerIdBlock(
            0, first, first + 999
        )


def test_producer_ids_are_for_registered_brokers_alone(world: ClusterWorld) -> None:
    for broker_id, broker_epoch, code in (
        (2, 1, ErrorCode.STALE_BROKER_EPOCH),
        (9, 1, ErrorCode.BROKER_ID_NOT_REGISTERED),
    ):
        assert ask(world, AllocateProducerIdsRequest(broker_id, broker_epoch), 0).error_code == code


def test_another_broker_says_that_it_is_not_the_controller(world: ClusterWorld) -> None:
    requests = wanted(world, 1, broker_epoch=epoch(world, 1)), AllocateProducerIdsRequest(1, epoch(world, 1))
    world.tool.delete("/controller")
    data = b'{"version":1,"brokerid":1,"timestamp":"1"}'
    world.keeper.transact(777, [Create("/controller", data, is_ephemeral=True)])
    world.settle(1_000)
    for request in requests:
        assert ask(world, request, 0).error_code == ErrorCode.NOT_CONTROLLER
