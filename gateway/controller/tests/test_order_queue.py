"""The orders of one broker: one in flight, the newest view, answers lost or refused."""

from __future__ import annotations

from random import Random

import pytest

from headgate.gateway.controller.cluster_view import ClusterView
from headgate.gateway.controller.order_queue import Kind, Order, OrderQueue
from headgate.gateway.controller.orders import EPOCH_DURING_DELETE, LEADER_DURING_DELETE, Sender
from headgate.gateway.controller.tests.clusters import T0, TOPIC_ID, brokers, state, view
from headgate.gateway.metadata.image import Image, PartitionState
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.leader_and_isr import FULL, INCREMENTAL, LeaderAndIsrRequest, LeaderAndIsrResponse
from headgate.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from headgate.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from headgate.protocol.schema import Message
from headgate.protocol.topic_partition import TopicPartition

NEWEST = {4: 99, 5: 99, 6: 99}
OLDEST_GROUPED = {4: 2, 5: 1, 6: 5}
T1 = TopicPartition("t", 1)


class FollowingBroker:
    """What a broker knows from the orders that it got."""

    def __init__(self) -> None:
        self.roles: dict[TopicPartition, tuple[int, int]] = {}
        self.metadata: dict[TopicPartition, tuple[int, int, list[int]]] = {}

    def obey(self, request: Message) -> Message:
        match request:
            case LeaderAndIsrRequest():
                for topic in request.topic_states:
                    for row in topic.partition_states:
                        key = TopicPartition(topic.topic_name, row.partition_index)
                        assert self.roles.get(key, (0, -1))[1] <= row.leader_epoch
                        self.roles[key] = row.leader, row.leader_epoch
                return request.error_response(7, ErrorCode.NONE)
            case UpdateMetadataRequest():
                for told in request.topic_states:
                    for shown in told.partition_states:
                        key = TopicPartition(told.topic_name, shown.partition_index)
                        self.metadata[key] = shown.leader, shown.zk_version, shown.offline_replicas
                        if shown.leader == LEADER_DURING_DELETE:
                            del self.metadata[key]
                return UpdateMetadataResponse()
        assert isinstance(request, StopReplicaRequest)
        for stopped in request.topic_states:
            for part in stopped.partition_states:
                if part.delete_partition:
                    self.roles.pop(TopicPartition(stopped.topic_name, part.partition_index), None)
                    assert part.leader_epoch >= EPOCH_DURING_DELETE
        for old in request.topics if request.delete_partitions else ():
            for index in old.partition_indexes:
                self.roles.pop(TopicPartition(old.name, index), None)
        return request.error_response(4, ErrorCode.NONE)


def queue(versions: dict[int, int] | None = None) -> OrderQueue:
    return OrderQueue(Sender(1, 7, "INTERNAL"), 3, NEWEST if versions is None else versions)


def sent(orders: OrderQueue, present: ClusterView) -> Order:
    order = orders.next(present)
    assert order is not None
    return order


def told_brokers(present: ClusterView) -> OrderQueue:
    """A queue that has sent the live brokers."""
    orders = queue()
    order = sent(orders, present)
    assert order.kind is Kind.UPDATE_BROKERS
    orders.answered(UpdateMetadataResponse())
    return orders


def obey_all(orders: OrderQueue, present: ClusterView, broker: FollowingBroker) -> list[Kind]:
    kinds = []
    while (order := orders.next(present)) is not None:
        kinds.append(order.kind)
        orders.answered(broker.obey(order.request))
    return kinds


def test_a_broker_has_one_order_in_flight_and_then_the_newest() -> None:
    first = view(state(1, (1, 3)))
    orders, broker = told_brokers(first), FollowingBroker()
    order = sent(orders, first)
    assert (order.kind, order.version) == (Kind.LEADER_AND_ISR, 7)
    second, third = view(state(2, (2,), epoch=1)), view(state(3, (3,), epoch=2))
    assert orders.next(second) is None
    orders.answered(broker.obey(order.request))
    assert obey_all(orders, third, broker) == [Kind.UPDATE_METADATA, Kind.LEADER_AND_ISR, Kind.UPDATE_METADATA]
    assert broker.roles == {T0: (3, 2)}
    assert broker.metadata == {T0: (3, 2, [])}


def test_a_broker_knows_who_lives_before_it_follows() -> None:
    """A broker of Kafka does not follow a leader that lives for all it knows, and does not try again."""
    orders, broker = queue(), FollowingBroker()
    first = view(state(1, (1, 3)), live=(1, 3))
    order = sent(orders, first)
    assert isinstance(order.request, UpdateMetadataRequest)
    assert [live.id for live in order.request.live_brokers] == [1, 3]
    assert (order.request.type, order.request.topic_states) == (INCREMENTAL, [])  # the full one is yet to come
    orders.answered(broker.obey(order.request))
    assert obey_all(orders, first, broker) == [Kind.LEADER_AND_ISR, Kind.UPDATE_METADATA]
    third = view(state(2, (2, 3), epoch=1))
    assert obey_all(orders, third, broker) == [Kind.UPDATE_BROKERS, Kind.LEADER_AND_ISR, Kind.UPDATE_METADATA]
    restarted = third._replace(brokers={**third.brokers, **brokers(2, epoch=2)})
    assert obey_all(orders, restarted, broker) == [Kind.UPDATE_BROKERS, Kind.UPDATE_METADATA]
    lost = view(state(2, (2, 3), epoch=1), live=(2, 3))._replace(image=third.image)
    assert obey_all(orders, lost._replace(brokers={**lost.brokers, **brokers(2, epoch=2)}), broker) == [
        Kind.UPDATE_METADATA
    ]


def test_a_lost_or_refused_order_is_repeated() -> None:
    orders, present = queue(), view(state(1, (1, 3)))
    order = sent(orders, present)
    orders.lost()
    assert sent(orders, view(state(3, (3,), epoch=1))) == order  # the broker may have obeyed: nothing newer before
    result = orders.answered(LeaderAndIsrResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH))
    assert result.error is ErrorCode.STALE_CONTROLLER_EPOCH
    assert sent(orders, present) == order


def test_answers_name_failed_replicas() -> None:
    present = view(state(1, (1, 3)), state(1, (1, 3)))
    orders = told_brokers(present)
    order = sent(orders, present)
    assert isinstance(order.request, LeaderAndIsrRequest)
    response = order.request.error_response(7, ErrorCode.NONE)
    response.topics[0].partition_errors[1].error_code = ErrorCode.KAFKA_STORAGE_ERROR
    result = orders.answered(response)
    assert (result.failed, result.followed) == ([T1], [T0])
    obey_all(orders, present, FollowingBroker())
    deleted = present._replace(image=Image.empty())
    orders.answered(FollowingBroker().obey(sent(orders, deleted).request))
    order = sent(orders, deleted)
    assert order.kind is Kind.DELETE
    orders.answered(FollowingBroker().obey(order.request))
    assert orders.next(deleted) is None
    orders.send_all()
    order = sent(orders, deleted)
    assert isinstance(order.request, LeaderAndIsrRequest)
    assert order.request.type == FULL


def test_old_versions_stop_and_delete_by_two_requests() -> None:
    orders, present = queue(OLDEST_GROUPED), view(state(1, (1, 2)), state(1, (1, 2)))
    obey_all(orders, present, FollowingBroker())
    moved = view(state(1, (1, 2), (1, 2), epoch=1), state(1, (1, 2)))._replace(stopping=frozenset((3,)))
    kinds = obey_all(orders, moved, FollowingBroker())
    assert {Kind.STOP, Kind.DELETE} <= set(kinds)


def test_a_broker_that_is_gone_gets_no_orders() -> None:
    assert queue().next(view(state(1, (1, 3)), live=(1, 2))) is None


def test_an_answer_of_stop_replica_may_be_refused_as_a_whole() -> None:
    orders, present = queue(), view(state(1, (1, 3)))
    obey_all(orders, present, FollowingBroker())
    present = present._replace(image=Image.empty())
    while (order := sent(orders, present)).kind is not Kind.DELETE:
        orders.answered(FollowingBroker().obey(order.request))
    orders.answered(StopReplicaResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    assert sent(orders, present) == order


@pytest.mark.slow
@pytest.mark.parametrize("versions", [NEWEST, OLDEST_GROUPED], ids=["newest", "oldest"])
def test_a_broker_ends_with_the_last_view_whatever_is_lost(versions: dict[int, int]) -> None:
    for seed in range(200):
        random, orders, broker = Random(seed), queue(versions), FollowingBroker()
        present = view(state(1, (1, 2, 3)), state(1, (1, 2, 3)))
        for _ in range(30):
            if random.random() < 0.5:
                present = _changed(present, random)
            order = orders.next(present)
            if order is not None:
                response = broker.obey(order.request) if random.random() < 0.7 else None
                if response is not None and random.random() < 0.7:
                    orders.answered(response)
                else:
                    orders.lost()
        obey_all(orders, present, broker)
        expected = list(present.partitions())
        roles = {key: (state.leader, state.leader_epoch) for key, state in expected if 3 in state.replicas}
        assert broker.roles == roles, seed
        assert broker.metadata == {
            key: (state.leader, state.partition_epoch, [id_ for id_ in state.replicas if id_ not in present.brokers])
            for key, state in expected
        }, seed


def _changed(present: ClusterView, random: Random) -> ClusterView:
    """The next view: another leader, another set, a move, a broker lost or found, a topic that goes."""
    if not present.image.topics:
        return present
    match random.randrange(16):
        case 0:
            return present._replace(image=Image.empty())
        case 1 | 2 | 3:
            return present._replace(brokers=brokers(3, *random.sample((1, 2), random.randrange(3))))
    topic = present.image.topics["t"]
    partitions: list[PartitionState] = list(topic.partitions)
    number = random.randrange(len(partitions) + 1)
    if number == len(partitions):
        partitions.append(state(random.choice((1, 2, 3)), (1, 2, 3)))
    else:
        old = partitions[number]
        epoch = old.leader_epoch + random.randrange(2)
        replicas = old.replicas if epoch == old.leader_epoch else random.choice(((1, 2), (1, 2, 3)))
        leader = old.leader if epoch == old.leader_epoch else random.choice(replicas)
        partitions[number] = state(leader, (leader,), replicas, epoch=epoch, version=old.partition_epoch + 1)
    topics = {"t": topic._replace(partitions=tuple(partitions))}
    return present._replace(image=present.image._replace(topics=topics, topic_names={TOPIC_ID: "t"}))
