"""Handlers over metadata that other brokers change: between requests, and while a request waits for the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.metadata.features import GROUP_VERSION
from headgate.gateway.metadata.planning.producer_ids import BLOCK_SIZE
from headgate.gateway.metadata.planning.topics import NewTopic, create_partitions, create_topic
from headgate.gateway.metadata.records import config_records
from headgate.gateway.runtime.tasks import is_task
from headgate.gateway.tests.builders import HandlerBroker
from headgate.gateway.tests.shared_metadata import Cluster, SharedMetadata
from headgate.protocol.errors import ErrorCode
from headgate.protocol.internal.metadata import (
    FeatureLevelRecord,
    MetadataRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
)
from headgate.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from headgate.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.delete_topics import DeleteTopicsRequest
from headgate.protocol.messages.incremental_alter_configs import SET, IncrementalAlterConfigsRequest
from headgate.protocol.messages.incremental_alter_configs import AlterableConfig as IncrementalConfig
from headgate.protocol.messages.incremental_alter_configs import AlterConfigsResource as IncrementalResource
from headgate.protocol.messages.init_producer_id import InitProducerIdRequest
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headgate.protocol.messages.update_features import SAFE_DOWNGRADE, FeatureUpdateKey, UpdateFeaturesRequest
from headgate.protocol.schema import Message

THEIRS = b"o" * 16
NONE, UNKNOWN, EXISTS, OVERTAKEN = (
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.NOT_CONTROLLER,
)
CREATION = CreateTopicsRequest(topics=[CreatableTopic("t", 1, 1)], timeout_ms=60_000)
DELETION = DeleteTopicsRequest(topic_names=["t"], timeout_ms=60_000)
GROWTH = CreatePartitionsRequest(topics=[CreatePartitionsTopic("t", 3, None)], timeout_ms=60_000)
RETENTION = AlterConfigsRequest(resources=[AlterConfigsResource(2, "t", [AlterableConfig("retention.ms", "5")])])
SEGMENT = IncrementalAlterConfigsRequest(
    resources=[IncrementalResource(2, "t", [IncrementalConfig("segment.ms", SET, "7")])]
)


class SharedNode(HandlerBroker):
    """A broker of a cluster, whose changes wait for `write` while a request is in flight."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        assert self.cluster is not None
        assert isinstance(self.services.metadata, SharedMetadata)
        self.others, self.metadata = self.cluster, self.services.metadata

    def begin(self, request: Message, version: int) -> list[Any]:
        """Send a request, whose change waits. The response comes into the list."""
        self.metadata.is_held = True
        outcome, replies = self.handle(request, version), list[Any]()
        assert is_task(outcome)
        self.services.tasks.start(outcome, replies.append)
        return replies

    def end(self, replies: list[Any]) -> Any:
        """Have the store take what waits, or refuse it; the response."""
        assert not replies
        self.metadata.write()
        self.metadata.is_held = False
        self.time.advance()
        (reply,) = replies
        return reply

    def their_topic(self, name: str = "t", partitions: int = 1) -> list[MetadataRecord]:
        return create_topic(self.metadata.image, self.config, THEIRS, NewTopic(name, partitions, 1), self.random)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SharedNode]:
    monkeypatch.setattr(HandlerBroker, "clusters", dict[Path, Cluster]())
    made = SharedNode(tmp_path / "data")
    yield made
    made.close()


def code(response: Any) -> int:
    """The error of the only row."""
    ((row,),) = (getattr(response, name) for name in ("topics", "results", "responses") if hasattr(response, name))
    found: int = row.error_code
    return found


def partitions(node: HandlerBroker, name: str = "t") -> int:
    """How many partitions of a topic are served."""
    return sum(partition.topic == name for partition in node.services.partitions)


def test_partitions_that_another_broker_creates_are_served_here(node: SharedNode) -> None:
    node.others.change(*node.their_topic(partitions=2))
    assert partitions(node) == 2
    assert code(node.ask(CREATION, 5)) == EXISTS
    node.others.change(*create_partitions(node.metadata.image, "t", 4, node.random))
    assert partitions(node) == 4
    node.others.change(*config_records("t", {"max.message.bytes": "1000"}))
    assert node.services.partitions.get("t", 3).log.config.max_message_bytes == 1_000
    node.others.change(RemoveTopicRecord(topic_id=THEIRS))
    assert partitions(node) == 0
    assert code(node.ask(DELETION, 5)) == UNKNOWN


def test_who_creates_a_topic_second_is_told_so(node: SharedNode) -> None:
    replies = node.begin(CREATION, 5)
    node.others.change(*node.their_topic())
    assert code(node.end(replies)) == EXISTS
    assert node.metadata.image.topics["t"].topic_id == THEIRS
    assert node.services.partitions.get("t", 0).log.topic_id == THEIRS


def test_a_request_goes_through_beside_changes_of_other_things(node: SharedNode) -> None:
    node.others.change(*node.their_topic())
    for request, version in ((GROWTH, 3), (RETENTION, 2), (SEGMENT, 1), (DELETION, 5)):
        replies = node.begin(request, version)
        node.others.change(
            *create_topic(node.metadata.image, node.config, bytes([version]) * 16, NewTopic(f"o{version}"), node.random)
        )
        assert code(node.end(replies)) == NONE
        node.others.change(RemoveTopicRecord(topic_id=bytes([version]) * 16))
    assert "t" not in node.metadata.image.topics


@pytest.mark.parametrize("request_, version", [(GROWTH, 3), (RETENTION, 2), (SEGMENT, 1), (DELETION, 5)])
def test_a_topic_may_be_deleted_while_a_request_changes_it(node: SharedNode, request_: Message, version: int) -> None:
    node.others.change(*node.their_topic())
    replies = node.begin(request_, version)
    node.others.change(RemoveTopicRecord(topic_id=THEIRS))
    assert code(node.end(replies)) == UNKNOWN
    assert partitions(node) == 0


def test_partitions_that_two_brokers_add_are_added_once(node: SharedNode) -> None:
    node.others.change(*node.their_topic())
    replies = node.begin(GROWTH, 3)
    node.others.change(*create_partitions(node.metadata.image, "t", 2, node.random))
    assert code(node.end(replies)) == OVERTAKEN
    assert partitions(node) == 2
    assert code(node.ask(GROWTH, 3)) == NONE
    assert partitions(node) == 3


def test_a_topic_of_a_first_use_is_created_by_the_fastest_broker(node: SharedNode) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=True)
    replies = node.begin(request, 9)
    node.others.change(*node.their_topic(partitions=3))
    (row,) = node.end(replies).topics
    assert (row.error_code, len(row.partitions)) == (NONE, 3)


def test_a_level_that_another_broker_has_finalized_meanwhile(node: SharedNode) -> None:
    update = FeatureUpdateKey(GROUP_VERSION, 0, True, SAFE_DOWNGRADE)
    replies = node.begin(UpdateFeaturesRequest(feature_updates=[update]), 2)
    node.others.change(FeatureLevelRecord(name=GROUP_VERSION, feature_level=1))
    reply = node.end(replies)
    assert getattr(reply, "code", None) == OVERTAKEN


def test_a_producer_id_comes_from_a_block_that_nobody_else_has(node: SharedNode) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    replies = node.begin(request, 4)
    node.others.change(ProducerIdsRecord(broker_id=5, next_producer_id=BLOCK_SIZE))
    assert getattr(node.end(replies), "code", None) == OVERTAKEN
    assert node.ask(request, 4).producer_id == BLOCK_SIZE
    assert node.ask(request, 4).producer_id == BLOCK_SIZE + 1


def test_a_partition_that_lost_records_is_served_under_a_higher_epoch(node: SharedNode) -> None:
    node.others.change(*node.their_topic())
    partition = node.services.partitions.get("t", 0)
    node.metadata.is_held = True
    node.services.partitions.leadership.await_epoch(partition)
    node.time.advance()
    node.others.change(*create_partitions(node.metadata.image, "t", 2, node.random))
    node.metadata.write()
    node.metadata.is_held = False
    assert node.services.partitions.leadership.awaiting_epoch, "another broker was faster"
    node.time.advance(1_000)
    assert not node.services.partitions.leadership.awaiting_epoch
    assert node.services.partitions.get("t", 0).leader_epoch == 1
