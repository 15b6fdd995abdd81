"""Orders to a whole broker over the model of ZooKeeper: the listener, the configs, the files, the term that ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.api.context import Client
from headgate.gateway.api.tests.test_dispatch import answer, frame
from headgate.gateway.controller.cluster_view import ClusterView, ListenerEndpoint, LiveBroker
from headgate.gateway.controller.orders import EPOCH_DURING_DELETE, Sender, Stop, leader_and_isr, stop_replica
from headgate.gateway.controller.orders import update_metadata as update_request
from headgate.gateway.metadata.image import Image, PartitionState
from headgate.gateway.metadata.records import partition_records
from headgate.gateway.zookeeper.layout.brokers import BrokerRegistration
from headgate.gateway.zookeeper.tests.two_brokers import TwoBrokers
from headgate.protocol.errors import ErrorCode
from headgate.protocol.internal.metadata import MetadataRecord, TopicRecord
from headgate.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headgate.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from headgate.protocol.messages.update_metadata import UpdateMetadataRequest
from headgate.protocol.schema import Message
from headgate.protocol.topic_partition import TopicPartition

LISTENERS: dict[str, Any] = {
    "listeners": "IN://127.0.0.1:0,OUT://127.0.0.1:0",
    "listener_security_protocol_map": "IN:PLAINTEXT,OUT:PLAINTEXT",
    "inter_broker_listener_name": "IN",
}
ID = b"i" * 16
T0 = TopicPartition("t", 0)
LED = PartitionState(1, 0, (1,), (1,), 0)
ORDERS = {4, 5, 6}


@pytest.fixture
def two(tmp_path: Path) -> Iterator[TwoBrokers]:
    brokers = TwoBrokers(tmp_path, **LISTENERS)
    yield brokers
    brokers.stop()


def view(*states: PartitionState) -> ClusterView:
    records: list[MetadataRecord] = [TopicRecord(name="t", topic_id=ID)] if states else []
    image = Image.empty().apply_all(records + partition_records(ID, 0, states))
    return ClusterView(image, {0: LiveBroker(1), 1: LiveBroker(-1)})


def order(present: ClusterView, epoch: int = 9) -> LeaderAndIsrRequest:
    request = leader_and_isr(Sender(0, epoch, "IN"), 1, None, present, 7)
    assert request is not None
    return request


def update(present: ClusterView, old: ClusterView | None = None, epoch: int = 9) -> UpdateMetadataRequest:
    request = update_request(Sender(0, epoch, "IN"), 1, old, present, 8)
    assert request is not None
    return request


def ask(
    two: TwoBrokers, request: Message, response: type[Message], version: int, listener: str, number: int = 1
) -> Any:
    """The response of a broker to a request on a listener."""
    broker, replies = two.brokers[number], list[Any]()
    client = replace(broker.client, listener=listener)
    outcome = broker.parts.dispatcher.dispatch(frame(request, version), client, replies.append)
    broker.settle()
    return answer(replies[0] if replies else outcome, response, version)


def test_the_listener_between_brokers_alone_serves_orders(two: TwoBrokers) -> None:
    for listener in ("IN", "OUT"):
        versions = ask(two, ApiVersionsRequest(), ApiVersionsResponse, 0, listener)
        assert {row.api_key for row in versions.api_keys} >= ORDERS
    refused = ask(two, order(view(LED)), LeaderAndIsrResponse, 7, "OUT")
    assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert "t" not in two.stores[1].image.topics
    obeyed = ask(two, order(view(LED)), LeaderAndIsrResponse, 7, "IN")
    assert (obeyed.error_code, obeyed.topics[0].partition_errors[0].error_code) == (0, 0)
    assert "t" in two.stores[1].image.topics


@pytest.mark.parametrize(
    "name, is_served", [("IN", False), ("OUT", True), (None, True)], ids=["same", "other", "of-kafka"]
)
def test_a_listener_that_a_broker_uses_serves_orders(two: TwoBrokers, name: str | None, is_served: bool) -> None:
    """While a cluster changes its listener, brokers use different ones. A broker of Kafka does not say which."""
    registered = BrokerRegistration((), inter_broker_listener=name)
    two.brokers[0].write(BrokerRegistration.path(7), registered.encode())
    answered = ask(two, order(view(LED)), LeaderAndIsrResponse, 7, "OUT")
    assert answered.error_code == (ErrorCode.NONE if is_served else ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert ("t" in two.stores[1].image.topics) == is_served


def test_a_connection_of_orders_comes_first(two: TwoBrokers) -> None:
    first: list[Client] = []
    client = replace(two.brokers[1].client, listener="IN", put_first=first.append)
    two.brokers[1].parts.dispatcher.dispatch(frame(update(view()), 8), client, lambda _: None)
    two.settle()
    assert first == [client]
    assert client.is_broker


def test_an_ordered_topic_has_its_configs_and_its_log(two: TwoBrokers) -> None:
    tool = two.brokers[0]
    tool.write("/config/topics/t", b'{"version":1,"config":{"min.insync.replicas":"2","segment.ms":"7000"}}')
    seen: list[Any] = []
    two.stores[1].on_change(lambda old, new, names: seen.extend(new.topics[name].configs for name in names))
    two.brokers[1].answer(order(view(LED)), 7)
    assert seen == [{"min.insync.replicas": "2", "segment.ms": "7000"}]
    replica = two.brokers[1].services.partitions.get("t", 0)
    assert (replica.log.topic_id, replica.log.config.segment_ms) == (ID, 7000)


def test_the_files_of_a_deleted_topic_are_gone(two: TwoBrokers) -> None:
    broker = two.brokers[1]
    broker.answer(order(view(LED)), 7)
    assert T0 in broker.log_manager
    late = stop_replica(Sender(0, 9, "IN"), 1, {T0: Stop(EPOCH_DURING_DELETE, is_deleted=True)}, view(), 4)
    assert broker.answer(late, 4).partition_errors[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    broker.answer(update(view(), view(LED)), 8)
    assert broker.answer(late, 4).partition_errors[0].error_code == 0
    assert T0 not in broker.log_manager
    assert "t" not in two.stores[1].image.topics


def test_metadata_listeners_hear_of_live_brokers(two: TwoBrokers) -> None:
    heard: list[tuple[set[int], object]] = []
    two.stores[1].on_change(lambda old, new, names: heard.append((set(new.brokers), names)))
    endpoints = {"IN": ListenerEndpoint("host", 9092)}
    present = view()._replace(brokers={id_: LiveBroker(-1 if id_ == 1 else 1, endpoints) for id_ in (0, 1, 5)})
    for _ in range(2):
        two.brokers[1].answer(update(present), 8)
    assert heard == [({0, 1, 5}, ())]


def test_the_controller_obeys_the_next_one_after_its_term(two: TwoBrokers) -> None:
    store = two.stores[0]
    refused = two.brokers[0].answer(order(view()._replace(brokers={1: LiveBroker(-1)}), store.controller_epoch), 7)
    assert refused.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    two.brokers[0].delete("/controller")
    two.brokers[0].write("/controller", b'{"version":1,"brokerid":5,"timestamp":"1"}')
    two.brokers[0].write("/controller_epoch", str(store.controller_epoch + 1).encode())
    replies: list[Any] = []
    outcome: Any = two.brokers[0].handle(update(view(LED), epoch=store.controller_epoch + 1), 8)
    two.brokers[0].services.tasks.start(outcome, replies.append)
    for _ in range(2):
        two.settle()
    assert [reply.error_code for reply in replies] == [0]
    assert not store.is_controller
    assert "t" in store.image.topics


def test_an_order_to_an_earlier_registration_is_refused(two: TwoBrokers) -> None:
    epoch = two.keeper.tree.nodes["/brokers/ids/1"].czxid
    for asked, error in ((epoch - 1, ErrorCode.STALE_BROKER_EPOCH), (epoch, 0)):
        present = view(LED)._replace(brokers={1: LiveBroker(asked)})
        assert two.brokers[1].answer(update(present), 8).error_code == error


@pytest.mark.parametrize("is_new", [False, True])
def test_a_log_in_a_refused_directory_gets_no_empty_twin(two: TwoBrokers, is_new: bool) -> None:
    """The first orders after a start name every partition; only those that are new have a log nowhere."""
    broker = two.brokers[1]
    broker.log_manager.refused["/refused"] = OSError("the disk is gone")
    request = order(view(LED))
    request.topic_states[0].partition_states[0].is_new = is_new
    response = broker.answer(request, 7)
    code = response.topics[0].partition_errors[0].error_code
    assert code == (ErrorCode.NONE if is_new else ErrorCode.KAFKA_STORAGE_ERROR)
    assert (T0 in broker.log_manager) is is_new
    assert (("t", 0) in broker.services.partitions.offline) is not is_new
