"""Orders that are obeyed or refused, the results of partitions, and the time of the answer."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from headgate.gateway.controller.cluster_view import ClusterView, ListenerEndpoint, LiveBroker
from headgate.gateway.controller.orders import (
    EPOCH_DURING_DELETE,
    Sender,
    Stop,
    leader_and_isr,
    stop_replica,
    update_brokers,
    update_metadata,
)
from headgate.gateway.controller.received_orders import PLACEHOLDER
from headgate.gateway.metadata.image import CONSUMER_OFFSETS, Image, Node, PartitionState
from headgate.gateway.metadata.records import partition_records
from headgate.gateway.zookeeper.layout.topics import ReplicaAssignment, TopicAssignment
from headgate.gateway.zookeeper.store.controller_orders import READ_WITHIN_MS, TERM_ENDS_WITHIN_MS
from headgate.gateway.zookeeper.store.tests.obeying_broker import OWN, ObeyingBroker
from headgate.protocol.errors import ErrorCode
from headgate.protocol.internal.metadata import MetadataRecord, TopicRecord
from headgate.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from headgate.protocol.messages.stop_replica import StopReplicaRequest
from headgate.protocol.messages.update_metadata import FULL, INCREMENTAL, UpdateMetadataRequest
from headgate.protocol.topic_partition import TopicPartition

ID, OTHER_ID = b"i" * 16, b"o" * 16
LED = PartitionState(OWN, 4, (OWN, 1), (OWN, 1), 6)
T0 = TopicPartition("t", 0)


def view(*states: PartitionState, topic_id: bytes = ID, epoch: int = 1) -> ClusterView:
    records: list[MetadataRecord] = [TopicRecord(name="t", topic_id=topic_id)] if states else []
    image = Image.empty().apply_all(records + partition_records(topic_id, 0, states))
    address = {"PLAINTEXT": ListenerEndpoint("one", 9092)}
    return ClusterView(image, {1: LiveBroker(1, address, "r"), OWN: LiveBroker(epoch, address)})


def order(
    present: ClusterView, epoch: int = 7, version: int = 7, old: ClusterView | None = None
) -> LeaderAndIsrRequest:
    request = leader_and_isr(Sender(1, epoch, "PLAINTEXT"), OWN, old, present, version)
    assert request is not None
    return request


def update(present: ClusterView, epoch: int = 7, old: ClusterView | None = None) -> UpdateMetadataRequest:
    request = update_metadata(Sender(1, epoch, "PLAINTEXT"), OWN, old, present, 8)
    assert request is not None
    return request


def stop(stops: dict[TopicPartition, Stop], version: int = 4) -> StopReplicaRequest:
    return stop_replica(Sender(1, 7, "PLAINTEXT"), OWN, stops, view(), version)


def codes(broker: ObeyingBroker, present: ClusterView, epoch: int = 7) -> list[int]:
    response = broker.ask(order(present, epoch), 7)
    return [row.error_code for topic in response.topics for row in topic.partition_errors]


@pytest.fixture
def broker() -> ObeyingBroker:
    return ObeyingBroker()


@pytest.mark.parametrize("version", range(8))
def test_each_version_is_answered_with_a_row_for_each_partition(broker: ObeyingBroker, version: int) -> None:
    broker.apply_brokers({})
    broker.written_image = broker.image = view(LED._replace(leader_epoch=5)).image
    response = broker.ask(order(view(LED, LED), version=version), version)
    rows = response.partition_errors or response.topics[0].partition_errors
    assert [(row.partition_index, row.error_code) for row in rows] == [(0, ErrorCode.STALE_CONTROLLER_EPOCH), (1, 0)]
    assert broker.image.topics["t"].partitions == (LED._replace(leader_epoch=5), LED)


def test_an_older_controller_is_refused(broker: ObeyingBroker) -> None:
    assert codes(broker, view(LED)) == [0]
    assert broker.ask(order(view(LED), epoch=6), 7).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert broker.ask(update(view(), epoch=6), 8).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert broker.image.topics == view(LED).image.topics
    broker.controller_epoch = 9  # read in ZooKeeper
    assert broker.ask(order(view(LED), epoch=8), 7).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert codes(broker, view(LED), epoch=9) == [0]


@pytest.mark.parametrize(
    "own, asked, error",
    [(5, 4, ErrorCode.STALE_BROKER_EPOCH), (5, 5, 0), (5, 6, 0), (5, -1, 0), (-1, 3, 0)],
)
def test_an_order_to_an_earlier_registration_is_refused(
    broker: ObeyingBroker, own: int, asked: int, error: int
) -> None:
    broker.epoch = own
    present = view(LED, epoch=asked)
    assert broker.ask(order(present), 7).error_code == error
    assert broker.ask(update(present), 8).error_code == error
    stops = stop_replica(Sender(1, 7, "PLAINTEXT"), OWN, {}, present, 4)
    assert broker.ask(stops, 4).error_code == error


def test_a_controller_of_kraft_is_refused(broker: ObeyingBroker) -> None:
    request = order(view(LED))
    request.is_kraft_controller = True
    assert broker.ask(request, 7).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("epoch, is_refused", [(6, True), (7, True), (8, False)])
def test_the_controller_obeys_a_newer_one_after_its_term(broker: ObeyingBroker, epoch: int, is_refused: bool) -> None:
    broker.is_controller, broker.controller_epoch = True, 7
    responses = broker.begin(order(view(LED), epoch), 7)
    assert broker.checks == (not is_refused)
    if not is_refused:
        assert not responses
        broker.end_term()
        broker.time.advance()
    (response,) = responses
    assert response.error_code == (ErrorCode.STALE_CONTROLLER_EPOCH if is_refused else 0)  # type: ignore[attr-defined]
    assert ("t" in broker.image.topics) == (not is_refused)


def test_a_term_that_does_not_end_refuses_the_order(broker: ObeyingBroker) -> None:
    broker.is_controller, broker.controller_epoch = True, 7
    responses = broker.begin(order(view(LED), epoch=8), 7)
    broker.time.advance(TERM_ENDS_WITHIN_MS)
    assert responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT  # type: ignore[attr-defined]
    assert not broker.image.topics


def test_partitions_have_results_of_their_own(broker: ObeyingBroker) -> None:
    elsewhere = LED._replace(replicas=(1,))
    broker.failed = [("t", 1)]
    present = view(LED, LED, elsewhere)
    request = order(present)
    request.topic_states[0].partition_states += order(view(LED, LED, LED)).topic_states[0].partition_states[2:]
    request.topic_states[0].partition_states[2].replicas = [1]
    rows = broker.ask(request, 7).topics[0].partition_errors
    wanted = [0, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert [row.error_code for row in rows] == wanted
    assert codes(broker, view(LED)) == [0]  # repeated
    assert codes(broker, view(LED, topic_id=OTHER_ID)) == [0]  # created again
    assert codes(broker, view(LED)) == [ErrorCode.INCONSISTENT_TOPIC_ID]  # late
    assert codes(broker, view(LED), epoch=8) == [0]


def test_the_answer_waits_until_the_change_has_settled(broker: ObeyingBroker) -> None:
    broker.is_hung = True
    first = broker.begin(order(view(LED)), 7)
    second = broker.begin(update(view(LED, LED)), 8)
    broker.time.advance(60_000)
    assert (first, second) == ([], [])
    assert len(broker.image.topics["t"].partitions) == 1  # the second order waits for the first
    broker.settle()
    broker.time.advance()
    assert (len(first), len(second)) == (1, 1)
    assert len(broker.image.topics["t"].partitions) == 2


def test_many_partitions_are_several_changes(broker: ObeyingBroker) -> None:
    sizes = []
    apply = broker.apply_order
    broker.apply_order = lambda records: sizes.append(len(records)) or apply(records)  # type: ignore[method-assign,func-returns-value]
    responses = broker.begin(order(view(*[LED] * 2_000)), 7)
    for _ in range(100):
        broker.time.advance(1)
    assert len(responses) == 1
    assert len(sizes) > 3
    assert max(sizes) <= 512
    assert len(broker.image.topics["t"].partitions) == 2_000


def test_configs_are_read_before_a_topic_is_there(broker: ObeyingBroker) -> None:
    broker.ask(order(view(LED)), 7)
    broker.ask(order(view(LED._replace(leader_epoch=9))), 7)
    assert broker.configured == ["t"]
    broker.is_silent = True
    responses = broker.begin(order(view(LED, topic_id=OTHER_ID)), 7)
    assert not responses
    broker.time.advance(READ_WITHIN_MS)
    assert len(responses) == 1
    assert broker.unread == ["t"]
    assert broker.image.topics["t"].topic_id == OTHER_ID


def test_the_id_of_a_topic_may_come_from_zookeeper() -> None:
    nodes = {"t": TopicAssignment(ID, {0: ReplicaAssignment((OWN, 1))}).encode()}
    broker = ObeyingBroker(nodes.get)
    broker.ask(order(view(LED), version=4), 4)
    assert broker.image.topics == view(LED).image.topics
    unknown = ObeyingBroker()
    rows = unknown.ask(order(view(LED), version=4), 4).partition_errors
    assert [row.error_code for row in rows] == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert not unknown.image.topics


@pytest.mark.parametrize("version", [1, 7])
def test_an_internal_topic_has_all_its_partitions_at_once(version: int) -> None:
    """The coordinator of a group depends on their number, and the first order has only some."""
    assignment = {index: ReplicaAssignment((OWN, 1)) for index in range(3)}
    broker = ObeyingBroker(lambda _: TopicAssignment(ID, assignment).encode())
    request = order(view(LED), version=version)
    for topic in request.topic_states:
        topic.topic_name = CONSUMER_OFFSETS
    for state in request.ungrouped_partition_states:
        state.topic_name = CONSUMER_OFFSETS
    response = broker.ask(request, version)
    rows = response.partition_errors or response.topics[0].partition_errors
    assert [(row.partition_index, row.error_code) for row in rows] == [(0, 0)]
    assert broker.image.topics[CONSUMER_OFFSETS].partitions == (LED, PLACEHOLDER, PLACEHOLDER)
    last = update(view(LED, LED, LED), old=view(LED, LED))
    last.topic_states[0].topic_name = CONSUMER_OFFSETS
    broker.ask(last, 8)
    assert broker.image.topics[CONSUMER_OFFSETS].partitions == (LED, PLACEHOLDER, LED)


def test_live_brokers_come_with_the_metadata(broker: ObeyingBroker) -> None:
    broker.ask(order(view(PartitionState(1, 0, (1, OWN), (1,), 0))), 7)
    assert broker.image.brokers == {1: Node(1, None, {"PLAINTEXT": ("one", 9092)}), OWN: Node(OWN, None, {})}
    broker.ask(update(view()), 8)
    assert broker.image.brokers[1] == Node(1, "r", {"PLAINTEXT": ("one", 9092)})
    broker.ask(update(view()._replace(brokers={OWN: LiveBroker(1)})), 8)
    assert broker.image.brokers.keys() == {OWN}


@pytest.mark.parametrize("kind, knows_topics", [(0, True), (INCREMENTAL, False), (FULL, True)])
def test_live_brokers_alone_are_not_all_topics(broker: ObeyingBroker, kind: int, knows_topics: bool) -> None:
    alone = update_brokers(Sender(1, 7, "PLAINTEXT"), OWN, None, view(), 8)
    assert alone is not None
    alone.type = kind  # 0: a controller of Kafka names no type
    broker.ask(alone, 8)
    assert broker.image.brokers[1] == Node(1, "r", {"PLAINTEXT": ("one", 9092)})
    assert broker.knows_topics == knows_topics


@pytest.mark.parametrize(
    "data, stays",
    [
        (None, False),
        (TopicAssignment(ID, {0: ReplicaAssignment((1,))}).encode(), True),
        (TopicAssignment(OTHER_ID, {0: ReplicaAssignment((1,))}).encode(), False),
        (b"unreadable", True),
    ],
)
def test_a_full_order_removes_topics_that_are_gone_in_zookeeper_too(data: bytes | None, stays: bool) -> None:
    broker = ObeyingBroker(lambda _: data)
    broker.ask(order(view(LED)), 7)
    broker.ask(update(view(), epoch=8), 8)
    assert ("t" in broker.image.topics) == stays


@pytest.mark.parametrize(
    "data, left",
    [
        (None, set()),
        (TopicAssignment(ID, {0: ReplicaAssignment((OWN,)), 1: ReplicaAssignment((1,))}).encode(), {("t", 0)}),
        (b"unreadable", {("t", 0), ("t", 1), ("t", 2)}),
    ],
)
def test_logs_without_a_replica_are_removed(data: bytes | None, left: Collection[tuple[str, int]]) -> None:
    broker = ObeyingBroker(lambda _: data)
    broker.logs = {("t", 0), ("t", 1), ("t", 2)}
    broker.ask(update(view()), 8)
    assert broker.logs == left


def test_nothing_is_removed_while_zookeeper_is_silent(broker: ObeyingBroker) -> None:
    broker.ask(order(view(LED)), 7)
    broker.logs.add(("stray", 0))
    broker.is_silent = True
    responses = broker.begin(update(view(), epoch=8), 8)
    for _ in range(3):
        broker.time.advance(READ_WITHIN_MS)
    assert len(responses) == 1
    assert "t" in broker.image.topics
    assert ("stray", 0) in broker.logs


@pytest.mark.parametrize("version", range(5))
def test_replicas_are_stopped_and_deleted(broker: ObeyingBroker, version: int) -> None:
    broker.ask(order(view(LED)), 7)
    broker.logs.add(("gone", 0))
    stops = {
        T0: Stop(EPOCH_DURING_DELETE, is_deleted=True),
        TopicPartition("gone", 0): Stop(EPOCH_DURING_DELETE, is_deleted=True),
        TopicPartition("gone", 1): Stop(EPOCH_DURING_DELETE, is_deleted=True),
    }
    response = broker.ask(stop(stops, version), version)
    rows = {(row.topic_name, row.partition_index): row.error_code for row in response.partition_errors}
    assert rows == {T0: ErrorCode.FENCED_LEADER_EPOCH, ("gone", 0): 0, ("gone", 1): 0}
    assert broker.logs == {T0}
    kept = {T0: Stop(LED.leader_epoch, is_deleted=False)}
    assert broker.ask(stop(kept, version), version).partition_errors[0].error_code == 0
    assert broker.stopped == [(T0, LED.leader_epoch if version >= 3 else -1)]


def test_a_stop_of_an_older_leader_epoch_is_refused(broker: ObeyingBroker) -> None:
    broker.ask(order(view(LED)), 7)
    for is_deleted in (True, False):
        late = stop({T0: Stop(LED.leader_epoch - 1, is_deleted)})
        assert broker.ask(late, 4).partition_errors[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert not broker.stopped
