"""Metadata: all topics or some, by name and by id, and how they come into being."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.api import authorized_operations
from headgate.gateway.api.handler_registration import load
from headgate.gateway.tests.builders import HandlerBroker, parked, refusal
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headgate.protocol.records.batch import Record, build
from headgate.protocol.wire import ZERO_UUID

pytestmark = pytest.mark.every_metadata_store

VERSIONS = range(14)


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[HandlerBroker]:
    """A broker that creates nothing by itself, with topics a (1 partition) and b (3)."""
    node = HandlerBroker(tmp_path, auto_create_topics_enable="false")
    node.services.metadata.create_topic("b", 3)
    node.services.metadata.create_topic("a", 1)
    yield node
    node.close()


def named(*names: str | None, **options: Any) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **options)


def found(response: Any) -> dict[str | None, tuple[int, int]]:
    return {topic.name: (topic.error_code, len(topic.partitions)) for topic in response.topics}


@pytest.mark.parametrize("version", VERSIONS)
def test_all_topics(closed: HandlerBroker, version: int) -> None:
    request = MetadataRequest(topics=[] if version == 0 else None)
    assert found(closed.ask(request, version)) == {"a": (0, 1), "b": (0, 3)}


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_no_topics(closed: HandlerBroker, version: int) -> None:
    assert found(closed.ask(MetadataRequest(topics=[]), version)) == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_brokers_and_partitions(closed: HandlerBroker, version: int) -> None:
    response = closed.ask(named("b"), version)
    assert [(row.node_id, row.host, row.port, row.rack) for row in response.brokers] == [(0, "192.0.2.1", 9092, None)]
    assert response.cluster_id == (closed.services.metadata.image.cluster_id if version >= 2 else None)
    assert response.controller_id == (0 if version >= 1 else -1)
    (topic,) = response.topics
    assert topic.topic_id == (closed.services.metadata.image.topics["b"].topic_id if version >= 10 else ZERO_UUID)
    assert not topic.is_internal
    assert [row.partition_index for row in topic.partitions] == [0, 1, 2]
    for row in topic.partitions:
        assert (row.error_code, row.leader_id, row.replica_nodes, row.isr_nodes) == (0, 0, [0], [0])
        assert row.leader_epoch == (0 if version >= 7 else -1)
        assert row.offline_replicas == []


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_topic_is_not_created_where_that_is_off(closed: HandlerBroker, version: int) -> None:
    assert found(closed.ask(named("c", "a"), version)) == {"c": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0), "a": (0, 1)}
    assert "c" not in closed.services.metadata.image.topics


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_topic_is_created_and_can_be_used_at_once(tmp_path: Path, version: int) -> None:
    node = HandlerBroker(tmp_path, num_partitions="2")
    assert found(node.ask(named("new"), version)) == {"new": (0, 2)}
    assert node.services.partitions.get("new", 1).high_watermark == 0
    node.close()


def test_a_client_may_forbid_that_its_question_creates_a_topic(node: HandlerBroker) -> None:
    request = named("new", allow_auto_topic_creation=False)
    assert found(node.ask(request, 4)) == {"new": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)}
    assert found(node.ask(request, 3)) == {"new": (0, 1)}  # before v4 it cannot say so


@pytest.mark.parametrize("name", ["", "a b", "x" * 250, ".."])
def test_a_bad_name(node: HandlerBroker, name: str) -> None:
    assert found(node.ask(named(name), 12)) == {name: (ErrorCode.INVALID_TOPIC_EXCEPTION, 0)}


def test_a_name_that_collides_is_not_created(node: HandlerBroker) -> None:
    assert found(node.ask(named("a.b"), 12)) == {"a.b": (0, 1)}
    assert found(node.ask(named("a_b"), 12)) == {"a_b": (ErrorCode.INVALID_TOPIC_EXCEPTION, 0)}


def test_names_of_one_request_do_not_collide(node: HandlerBroker) -> None:
    assert found(node.ask(named("a.b", "a_b"), 12)) == {"a.b": (0, 1), "a_b": (0, 1)}


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_a_question_does_not_create_a_coordinators_topic(node: HandlerBroker, name: str) -> None:
    assert found(node.ask(named(name), 12)) == {name: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)}


@pytest.mark.parametrize("version", [12, 13])
def test_topics_by_id(closed: HandlerBroker, version: int) -> None:
    topic_id = closed.services.metadata.image.topics["b"].topic_id
    unknown = bytes(range(16))
    wanted = [MetadataRequestTopic(topic_id=topic_id, name=None), MetadataRequestTopic(topic_id=unknown, name=None)]
    response = closed.ask(MetadataRequest(topics=wanted), version)
    rows = [(topic.name, topic.topic_id, topic.error_code) for topic in response.topics]
    assert rows == [("b", topic_id, 0), (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID)]


@pytest.mark.parametrize("version", [10, 11])
def test_versions_10_and_11_ask_by_name_only(closed: HandlerBroker, version: int) -> None:
    topic_id = closed.services.metadata.image.topics["b"].topic_id
    for topic in (MetadataRequestTopic(name=None), MetadataRequestTopic(name="b", topic_id=topic_id)):
        assert refusal(closed, MetadataRequest(topics=[topic]), version) == ErrorCode.INVALID_REQUEST


def test_a_topic_that_is_named_twice_is_told_once(closed: HandlerBroker) -> None:
    assert [topic.name for topic in closed.ask(named("a", "b", "a"), 12).topics] == ["a", "b"]


@pytest.mark.slow
def test_one_request_cannot_create_topics_without_end(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("there", 1)
    names = [f"t{index}" for index in range(10_001)]
    told = found(node.ask(named("there", "a b", *names), 12))
    assert (told.pop("there"), told.pop("a b")) == ((0, 1), (ErrorCode.INVALID_TOPIC_EXCEPTION, 0))
    assert told == dict.fromkeys(names, (ErrorCode.POLICY_VIOLATION, 0))
    assert list(node.services.metadata.image.topics) == ["there"]


def test_many_topics_are_created_in_turns(node: HandlerBroker) -> None:
    names = [f"t{index}" for index in range(12)]
    replies = parked(node, node.handle(named(*names), 12))
    while not replies:
        node.time.advance()
    assert found(replies[0]) == dict.fromkeys(names, (0, 1))
    assert found(node.ask(named(*names), 12)) == found(replies[0])


def test_many_unknown_topics_may_be_asked_for_where_none_is_created(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path, num_partitions="100", auto_create_topics_enable="false")
    names = [f"t{index}" for index in range(101)]
    told = found(node.ask(named(*names), 12))
    assert told == dict.fromkeys(names, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0))
    node.close()


def test_operations_are_told_when_asked(closed: HandlerBroker) -> None:
    silent = closed.ask(named("a"), 8)
    assert (
        silent.cluster_authorized_operations
        == silent.topics[0].topic_authorized_operations
        == authorized_operations.UNKNOWN
    )
    request = named("a", include_cluster_authorized_operations=True, include_topic_authorized_operations=True)
    told = closed.ask(request, 8)
    assert told.cluster_authorized_operations == authorized_operations.CLUSTER
    assert told.topics[0].topic_authorized_operations == authorized_operations.TOPIC


def test_a_damaged_partition_has_no_leader(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path)
    node.services.metadata.create_topic("t", 2)
    batch = build([Record(timestamp=1, value=b"x")])
    node.services.partitions.get("t", 1).append(memoryview(batch), 1, 1)
    node.close()
    log = tmp_path / "t-1" / "00000000000000000000.log"
    log.write_bytes(b"\xff" * log.stat().st_size)
    (tmp_path / ".kafka_cleanshutdown").unlink()

    again = HandlerBroker(tmp_path)
    response = again.ask(MetadataRequest(None), 12)
    ((whole, damaged),) = (topic.partitions for topic in response.topics)
    assert (whole.error_code, whole.leader_id, whole.offline_replicas) == (ErrorCode.NONE, 0, [])
    assert (damaged.error_code, damaged.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert (damaged.replica_nodes, damaged.isr_nodes, damaged.offline_replicas) == ([0], [0], [0])
    is_lasting = load()[MetadataRequest.api_key].ranges[0].is_lasting
    assert is_lasting is not None
    assert not is_lasting(response)

    ((whole, damaged),) = (topic.partitions for topic in again.ask(DescribeTopicPartitionsRequest(), 0).topics)
    assert (whole.error_code, whole.leader_id, whole.offline_replicas) == (ErrorCode.NONE, 0, [])
    assert (damaged.error_code, damaged.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert damaged.offline_replicas == [0]
    again.close()
