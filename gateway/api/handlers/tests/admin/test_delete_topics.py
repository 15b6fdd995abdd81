"""DeleteTopics: by name and by id."""

from pathlib import Path

import pytest

from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headgate.protocol.wire import ZERO_UUID

pytestmark = pytest.mark.every_metadata_store

UNKNOWN_ID = bytes(range(16))


def exclusive_locks(version: int, *names: str) -> DeleteTopicsRequest:
    if version < 6:
        return DeleteTopicsRequest(topic_names=list(names), timeout_ms=1_000)
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=1_000)


@pytest.mark.parametrize("version", range(7))
def test_by_name(node: HandlerBroker, version: int) -> None:
    topic_id = node.services.metadata.create_topic("a", 2).image.topics["a"].topic_id
    node.services.metadata.create_topic("kept", 1)
    rows = node.ask(exclusive_locks(version, "a", "unknown"), version).responses
    assert [(row.name, row.error_code) for row in rows] == [("a", 0), ("unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert rows[0].topic_id == (topic_id if version >= 6 else ZERO_UUID)
    assert bool(rows[1].error_message) == (version >= 5)
    assert set(node.services.metadata.image.topics) == {"kept"}
    with pytest.raises(KafkaError):
        node.services.partitions.get("a", 0)


def test_by_id(node: HandlerBroker) -> None:
    topic_id = node.services.metadata.create_topic("a", 1).image.topics["a"].topic_id
    states = [DeleteTopicState(topic_id=topic_id), DeleteTopicState(topic_id=UNKNOWN_ID)]
    rows = node.ask(DeleteTopicsRequest(topics=states), 6).responses
    assert [(row.name, row.topic_id, row.error_code) for row in rows] == [
        ("a", topic_id, ErrorCode.NONE),
        (None, UNKNOWN_ID, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    assert not node.services.metadata.image.topics


def test_a_topic_is_named_in_one_way(node: HandlerBroker) -> None:
    topic_id = node.services.metadata.create_topic("a", 1).image.topics["a"].topic_id
    states = [DeleteTopicState(), DeleteTopicState(name="a", topic_id=topic_id)]
    rows = node.ask(DeleteTopicsRequest(topics=states), 6).responses
    assert [row.error_code for row in rows] == [ErrorCode.INVALID_REQUEST] * 2
    assert "a" in node.services.metadata.image.topics


def test_a_topic_that_is_named_twice_is_not_deleted(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("a", 1)
    rows = node.ask(exclusive_locks(6, "a", "a"), 6).responses
    assert [(row.name, row.error_code) for row in rows] == [("a", ErrorCode.INVALID_REQUEST)]
    assert "a" in node.services.metadata.image.topics


@pytest.mark.parametrize("version, code", [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)])
def test_where_deletion_is_off(tmp_path: Path, version: int, code: ErrorCode) -> None:
    node = HandlerBroker(tmp_path, delete_topic_enable="false")
    node.services.metadata.create_topic("a", 1)
    assert [row.error_code for row in node.ask(exclusive_locks(version, "a"), version).responses] == [code]
    assert "a" in node.services.metadata.image.topics
    node.close()


def test_a_topic_can_be_made_again_with_another_id(node: HandlerBroker) -> None:
    first = node.services.metadata.create_topic("a", 1).image.topics["a"].topic_id
    node.ask(exclusive_locks(6, "a"), 6)
    assert node.services.metadata.create_topic("a", 3).image.topics["a"].topic_id != first
    assert node.services.partitions.get("a", 2).high_watermark == 0
