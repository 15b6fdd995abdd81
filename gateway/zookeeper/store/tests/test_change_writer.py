"""Changes of a broker that is not the controller: configs, and topics on demand."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.gateway.controller.cluster_view import ClusterView, ListenerEndpoint, LiveBroker
from headgate.gateway.controller.orders import Sender, update_metadata
from headgate.gateway.tests.builders import parked
from headgate.gateway.zookeeper.layout.topics import TopicAssignment
from headgate.gateway.zookeeper.store.metadata_store import ON_DEMAND_AGAIN_MS
from headgate.gateway.zookeeper.tests.two_brokers import TwoBrokers
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.find_coordinator import FindCoordinatorRequest
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic


@pytest.fixture
def two(tmp_path: Path) -> Iterator[TwoBrokers]:
    brokers = TwoBrokers(tmp_path)
    yield brokers
    brokers.stop()


def test_no_fragment_of_a_lost_cluster_is_written(two: TwoBrokers) -> None:
    assert two.brokers[0].delete("/cluster/id")
    change = two.stores[1].change_group_configs("g", {"consumer.session.timeout.ms": "50000"})
    two.settle()
    assert change.error is not None
    assert change.error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "has lost this cluster" in change.error.message
    assert "/config/groups/g" not in two.keeper.tree.nodes


TOPIC = "/brokers/topics/t"
ADDRESS = {"PLAINTEXT": ListenerEndpoint("one", 9092)}


def test_the_controller_finds_a_topic_that_was_created_on_demand(two: TwoBrokers) -> None:
    controller, other = two.stores
    change = two.change(lambda: other.create_on_demand("t", 3, 1, {"retention.ms": "5"}))
    assert change.error is None
    found = controller.image.topics["t"]
    assert (len(found.partitions), found.configs) == (3, {"retention.ms": "5"})
    assert TopicAssignment.decode("t", two.keeper.tree.nodes[TOPIC].data).topic_id == found.topic_id
    two.settle()
    assert other.image.topics["t"] == found


def test_a_topic_on_demand_has_no_states_and_replaces_old_configs(two: TwoBrokers) -> None:
    two.settle()
    two.brokers[0].write("/config/topics/t", b'{"version":1,"config":{"segment.ms":"9"}}')
    two.keeper.cut(two.keeper.sessions[0])
    two.change(lambda: two.stores[1].create_on_demand("t", 1, 1, {"retention.ms": "5"}))
    nodes = two.keeper.tree.nodes
    assert [path for path in nodes if path.startswith(TOPIC)] == [TOPIC]
    assert nodes["/config/topics/t"].data == b'{"version":1,"config":{"retention.ms":"5"}}'


def test_another_broker_may_create_the_topic_first(two: TwoBrokers) -> None:
    two.cut()
    two.change(lambda: two.stores[0].create_topic("t", 5, 1))
    before = two.keeper.tree.nodes[TOPIC]
    assert two.change(lambda: two.stores[1].create_on_demand("t", 2, 1)).error is None
    assert two.keeper.tree.nodes[TOPIC] is before


def test_many_requests_create_a_topic_once(two: TwoBrokers) -> None:
    two.settle()
    other = two.stores[1]
    first = other.create_on_demand("t", 1, 1)
    assert other.create_on_demand("t", 1, 1) is first
    other.create_on_demand("u", 1, 1)
    two.brokers[1].settle(ON_DEMAND_AGAIN_MS / 2)
    assert first.is_settled
    assert other.create_on_demand("t", 1, 1) is first
    two.brokers[1].settle(ON_DEMAND_AGAIN_MS)
    assert other.create_on_demand("t", 1, 1) is not first


def test_no_topic_is_created_in_a_lost_cluster(two: TwoBrokers) -> None:
    two.settle()
    assert two.brokers[0].delete("/cluster/id")
    change = two.stores[1].create_on_demand("t", 1, 1)
    two.settle()
    assert change.error is not None
    assert "has lost this cluster" in change.error.message
    assert TOPIC not in two.keeper.tree.nodes


def test_a_broker_creates_nothing_before_it_knows_the_topics(tmp_path: Path) -> None:
    two = TwoBrokers(tmp_path, is_linked=False)
    with pytest.raises(KafkaError, match="has not sent the topics") as refused:
        two.stores[1].create_on_demand("t", 1, 1)
    assert refused.value.code is ErrorCode.LEADER_NOT_AVAILABLE
    two.stop()


def test_metadata_waits_for_the_first_order_of_a_controller(tmp_path: Path) -> None:
    two = TwoBrokers(tmp_path, is_linked=False)
    controller, other = two.brokers
    replies = parked(other, other.handle(MetadataRequest(topics=None), 12))
    other.time.advance(100)
    assert not replies
    view = ClusterView(controller.services.metadata.image, {number: LiveBroker(-1, ADDRESS) for number in range(2)})
    order = update_metadata(Sender(0, 9, "PLAINTEXT"), 1, None, view, 8)
    assert order is not None
    other.handle(order, 8)
    other.time.advance()
    assert [broker.node_id for broker in replies[0].brokers] == [0, 1]
    two.stop()


def test_live_brokers_alone_are_no_knowledge_of_the_topics(tmp_path: Path) -> None:
    """A LeaderAndIsr order has addresses of brokers, but not all topics."""
    two = TwoBrokers(tmp_path, is_linked=False)
    controller, other = two.stores
    other.apply_brokers(controller.image.brokers)
    assert [store.knows_topics for store in two.stores] == [True, False]
    two.kill_first()
    assert other.election.is_elected
    assert other.knows_topics
    two.stop()


def test_a_broker_that_starts_counts_the_old_topics(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No line says that a topic was created, or has other configs, when a broker learns of the topic."""
    two = TwoBrokers(tmp_path, is_linked=False)
    two.change(lambda: two.stores[0].create_topic("t", 2, 1, {"retention.ms": "5000"}))
    caplog.clear()
    with caplog.at_level(logging.INFO, "headgate"):
        two.kill_first()
    lines = [line for line in caplog.messages if "topic" in line]
    assert lines == ["topics of the cluster: 1, with 2 partitions"]
    two.stop()


def test_clients_wait_for_a_topic_that_the_controller_has_to_send(two: TwoBrokers) -> None:
    two.settle()
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=True)
    codes = []
    for _ in range(2):
        (row,) = two.brokers[1].answer(request, 9).topics
        codes.append(row.error_code)
        two.settle()
        two.settle()
    assert codes == [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NONE]


def test_a_client_that_wants_the_controller_is_sent_away(two: TwoBrokers) -> None:
    request = CreateTopicsRequest(topics=[CreatableTopic("t", 1, 1)], timeout_ms=60_000)
    assert two.brokers[1].answer(request, 5).topics[0].error_code == ErrorCode.NOT_CONTROLLER
    two.change(lambda: two.stores[0].create_topic("t", 1))
    assert "t" in two.stores[1].image.topics
    assert two.brokers[1].answer(request, 5).topics[0].error_code == ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize("factor", [2, 3])
def test_an_internal_topic_waits_for_its_factor(tmp_path: Path, factor: int) -> None:
    two = TwoBrokers(tmp_path, offsets_topic_replication_factor=str(factor))
    two.settle()
    codes = []
    for broker in reversed(two.brokers):
        found = broker.answer(FindCoordinatorRequest(key="g"), 3)
        codes.append(found.code if isinstance(found, KafkaError) else found.error_code)
        two.settle()
    unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert codes == [unavailable, ErrorCode.NONE if factor == 2 else unavailable]
    created = two.stores[0].image.topics.get("__consumer_offsets")
    assert (created is None) == (factor == 3)
    assert created is None or {len(state.replicas) for state in created.partitions} == {2}
    two.stop()
