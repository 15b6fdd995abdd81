"""Handlers over an image with other brokers: addresses by listener, dead leaders, offline replicas, coordinators."""

from typing import Any

import pytest

from headgate.gateway.api.broker_endpoints import leader_of
from headgate.gateway.api.handler_registration import load
from headgate.gateway.api.handlers.metadata import KNOWN_WITHIN_MS
from headgate.gateway.coordinator.internal_topic import partition_of
from headgate.gateway.metadata.image import Node, PartitionState
from headgate.gateway.metadata.store import MetadataStore
from headgate.gateway.replication.replica_manager import ReplicaManager
from headgate.gateway.tests.builders import HandlerBroker, parked, refusal
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_cluster import DescribeClusterRequest
from headgate.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from headgate.protocol.messages.end_txn import EndTxnRequest
from headgate.protocol.messages.find_coordinator import GROUP, TRANSACTION, FindCoordinatorRequest
from headgate.protocol.messages.heartbeat import HeartbeatRequest
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

NONE, LEADERLESS, NO_LISTENER, NO_REPLICA = (
    ErrorCode.NONE,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.LISTENER_NOT_FOUND,
    ErrorCode.REPLICA_NOT_AVAILABLE,
)
OTHERS = {1: Node(1, "r1", {"PLAINTEXT": ("one", 9093)}), 2: Node(2, None, {"INSIDE": ("two", 9094)})}
STATES = (
    PartitionState(0, 7, (0, 1), (0, 1), 8),
    PartitionState(1, 7, (1, 0), (1, 0), 8),
    PartitionState(2, 7, (2, 1), (2, 1), 8),  # broker 2 has no address for the client
    PartitionState(3, 7, (3, 0), (3,), 8),  # broker 3 is dead
    PartitionState(0, 7, (0, 3), (0,), 8),
    PartitionState(-1, 7, (1,), (1,), 8),
)
ERRORS = [NONE, NONE, NO_LISTENER, LEADERLESS, NONE, LEADERLESS]
LEADERS = [0, 1, -1, -1, 0, -1]
OFFLINE = [[], [], [2], [3], [3], []]


@pytest.fixture
def node(node: HandlerBroker) -> HandlerBroker:
    """Broker 0 of four brokers. It has created the internal topics while it was alone."""
    metadata = node.services.metadata
    for key_type in (GROUP, TRANSACTION):
        node.ask(FindCoordinatorRequest(key="g", key_type=key_type), 3)
    metadata.create_topic("t", len(STATES))
    image = metadata.image
    topic = image.topics["t"]._replace(partitions=STATES)
    metadata.image = image._replace(brokers={**image.brokers, **OTHERS}, topics={**image.topics, "t": topic})
    return node


def partitions(response: Any) -> list[Any]:
    (topic,) = (topic for topic in response.topics if topic.name == "t")
    assert topic.error_code == NONE
    rows: list[Any] = topic.partitions
    return rows


@pytest.mark.parametrize("version", range(14))
def test_metadata_has_the_leaders_that_the_client_reaches(node: HandlerBroker, version: int) -> None:
    rows = partitions(node.ask(MetadataRequest(topics=None if version else []), version))
    errors = [LEADERLESS if error is NO_LISTENER and version < 6 else error for error in ERRORS]
    if not version:
        errors[4] = NO_REPLICA
    assert [(row.error_code, row.leader_id) for row in rows] == list(zip(errors, LEADERS, strict=True))
    known = {0, 1} if not version else {0, 1, 2, 3}
    assert [row.replica_nodes for row in rows] == [
        [each for each in state.replicas if each in known] for state in STATES
    ]
    assert [row.isr_nodes for row in rows] == [[each for each in state.isr if each in known] for state in STATES]
    if version >= 5:
        assert [row.offline_replicas for row in rows] == OFFLINE
    if version >= 7:
        assert {row.leader_epoch for row in rows} == {7}


def test_described_partitions_have_the_same_leaders(node: HandlerBroker) -> None:
    rows = partitions(node.ask(DescribeTopicPartitionsRequest(), 0))
    assert [(row.error_code, row.leader_id, row.offline_replicas) for row in rows] == list(
        zip(ERRORS, LEADERS, OFFLINE, strict=True)
    )


def test_a_response_with_a_dead_follower_is_cached(node: HandlerBroker) -> None:
    """A response without a leader is not: the cache would keep it until the image changes."""
    is_lasting = load()[MetadataRequest.api_key].ranges[0].is_lasting
    assert is_lasting is not None
    metadata = node.services.metadata
    for states, lasts in ((STATES, False), (STATES[:2] + STATES[4:5], True)):
        topics = {"t": metadata.image.topics["t"]._replace(partitions=states)}
        metadata.image = metadata.image._replace(topics=topics)
        assert is_lasting(node.ask(MetadataRequest(topics=None), 12)) is lasts


@pytest.mark.parametrize("listener, other", [("PLAINTEXT", (1, "one", 9093, "r1")), ("INSIDE", (2, "two", 9094, None))])
def test_brokers_have_the_address_of_the_clients_listener(
    node: HandlerBroker, listener: str, other: tuple[int, str, int, str | None]
) -> None:
    node.client.listener = listener
    own = (0, "192.0.2.1", 9092, None)
    found = node.ask(MetadataRequest(topics=[]), 9).brokers
    assert [(row.node_id, row.host, row.port, row.rack) for row in found] == [own, other]
    found = node.ask(DescribeClusterRequest(), 1).brokers
    assert [(row.broker_id, row.host, row.port, row.rack) for row in found] == [own, other]


def test_a_log_that_opens_here_hides_no_leader_elsewhere(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReplicaManager, "opening", frozenset({("t", 0), ("t", 1)}))
    monkeypatch.setattr(ReplicaManager, "offline", frozenset({("t", 1)}))
    for request, version in ((MetadataRequest(topics=None), 12), (DescribeTopicPartitionsRequest(), 0)):
        own, other = partitions(node.ask(request, version))[:2]
        assert (own.error_code, own.leader_id) == (LEADERLESS, -1)
        assert (other.error_code, other.leader_id, other.offline_replicas) == (NONE, 1, [0])
    assert [leader_of(node.context(0), "t", index)[0] for index in (0, 1)] == [-1, 1]


def led_by(node: HandlerBroker, topic: str, leader: int) -> None:
    """Another broker leads all partitions of an internal topic."""
    old = node.services.metadata.image
    states = [state._replace(leader=leader, leader_epoch=9) for state in old.topics[topic].partitions]
    new = old._replace(topics={**old.topics, topic: old.topics[topic]._replace(partitions=tuple(states))})
    node.services.metadata.image = new
    node.services.partitions.follow(old, new, {topic})
    for coordinators in (node.services.groups, node.services.transactions):
        coordinators.follow(old, new, {topic})


@pytest.mark.parametrize("key_type, topic", [(GROUP, "__consumer_offsets"), (TRANSACTION, "__transaction_state")])
def test_a_coordinator_is_the_leader_of_its_partition(node: HandlerBroker, key_type: int, topic: str) -> None:
    request = FindCoordinatorRequest(key="g", key_type=key_type)
    assert node.ask(request, 3).node_id == 0
    led_by(node, topic, 1)
    found = node.ask(request, 3)
    assert (found.error_code, found.node_id, found.host, found.port) == (NONE, 1, "one", 9093)
    for unreachable in (2, 3, -1):
        led_by(node, topic, unreachable)
        assert refusal(node, request, 3) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    own = HeartbeatRequest(group_id="g") if key_type == GROUP else EndTxnRequest(transactional_id="g")
    assert refusal(node, own, 3) == ErrorCode.NOT_COORDINATOR


def test_a_group_waits_for_all_partitions_of_its_topic(node: HandlerBroker) -> None:
    """A group's partition depends on their number, and the first order may name only some."""
    request = FindCoordinatorRequest(key="g", key_type=GROUP)
    old = node.services.metadata.image
    topic = old.topics["__consumer_offsets"]
    index = partition_of("g", len(topic.partitions))
    unknown = PartitionState(-1, -1, (), (), -1)
    states = [state if number == index else unknown for number, state in enumerate(topic.partitions)]
    new = old._replace(topics={**old.topics, topic.name: topic._replace(partitions=tuple(states))})
    node.services.metadata.image = new
    node.services.groups.follow(old, new, {topic.name})
    assert refusal(node, request, 3) == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.fixture
def ignorant(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> HandlerBroker:
    """The broker has just started, and waits for the topics of the cluster."""
    monkeypatch.setattr(MetadataStore, "knows_topics", False)
    metadata = node.services.metadata
    metadata.image = metadata.image._replace(topics={}, topic_names={})
    node.services.groups.follow(metadata.image, metadata.image, {"__consumer_offsets"})
    return node


def test_clients_wait_until_the_topics_are_known(ignorant: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A response without brokers would have librdkafka forget all brokers that it knows."""
    replies = parked(ignorant, ignorant.handle(MetadataRequest(topics=None), 12))
    ignorant.time.advance(KNOWN_WITHIN_MS - 1)
    assert not replies
    monkeypatch.setattr(MetadataStore, "knows_topics", True)
    ignorant.services.tasks.touch(ignorant.services.metadata.waiters)
    ignorant.time.advance()
    assert [broker.node_id for broker in replies[0].brokers] == [0, 1]


def test_clients_get_no_brokers_if_the_topics_stay_unknown(ignorant: HandlerBroker) -> None:
    """Most clients ignore such metadata and ask again. UNKNOWN_TOPIC_OR_PARTITION would end topics that exist."""
    named = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)
    replies = [parked(ignorant, ignorant.handle(request, 12)) for request in (MetadataRequest(topics=None), named)]
    ignorant.time.advance(KNOWN_WITHIN_MS)
    (everything,), (of_one,) = replies
    assert (everything.brokers, everything.topics) == ([], [])
    is_lasting = load()[MetadataRequest.api_key].ranges[0].is_lasting
    assert is_lasting is not None
    assert not is_lasting(everything)
    assert [row.error_code for row in of_one.topics] == [LEADERLESS]
    described = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")])
    assert [row.error_code for row in ignorant.ask(described, 0).topics] == [LEADERLESS]
    assert ignorant.ask(DescribeClusterRequest(), 1).brokers == []
    assert refusal(ignorant, FindCoordinatorRequest(key="g"), 3) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not ignorant.services.metadata.planned.topics
