"""OffsetCommit over the wire, with the log and the coordinator behind it."""

from pathlib import Path

import pytest

from headgate.gateway.coordinator.internal_topic import partition_of
from headgate.gateway.runtime.tasks import is_task
from headgate.gateway.tests.builders import (
    HandlerBroker,
    add_follower,
    offsets_partitions,
)
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.offsets import OffsetCommitKey, OffsetCommitValue, decode
from headgate.protocol.messages.find_coordinator import FindCoordinatorRequest
from headgate.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headgate.protocol.records import batch
from headgate.protocol.wire import ZERO_UUID

NONE = ErrorCode.NONE


@pytest.fixture
def topic(node: HandlerBroker) -> OffsetCommitRequestTopic:
    """A topic "t" of two partitions, with an offset for the second."""
    node.services.metadata.create_topic("t", 2)
    topic_id = node.services.metadata.image.topics["t"].topic_id
    partition = OffsetCommitRequestPartition(1, 42, 3, -1, "note")
    return OffsetCommitRequestTopic("t", topic_id, [partition])


def rows(response: OffsetCommitResponse) -> list[tuple[str, bytes, int, int]]:
    """Name, id, partition, error; a version has the name or the id."""
    return [
        (topic.name, topic.topic_id, row.partition_index, row.error_code)
        for topic in response.topics
        for row in topic.partitions
    ]


def written(node: HandlerBroker) -> list[object]:
    """The records of the one partition that has some."""
    partitions = [
        node.services.partitions.get("__consumer_offsets", index)
        for index in range(node.config.offsets_topic_num_partitions)
    ]
    (replica,) = [replica for replica in partitions if replica.log.end_offset]
    piece = replica.read(0, 1 << 20, 0, at_least_one=True)
    assert piece is not None
    records = batch.iterate(memoryview(piece.read()))
    return [decode(record.key or b"", record.value) for record in records]


@pytest.mark.parametrize("version", range(1, 11))
def test_every_version_is_written_and_answered(
    node: HandlerBroker, topic: OffsetCommitRequestTopic, version: int
) -> None:
    response = node.ask(OffsetCommitRequest("g", topics=[topic]), version)
    topic_id = topic.topic_id if version >= 10 else ZERO_UUID
    assert rows(response) == [("" if version >= 10 else "t", topic_id, 1, NONE)]
    epoch = 3 if version >= 6 else -1
    value = OffsetCommitValue(42, epoch, "note", node.time.clock.now_ms(), -1, topic_id)
    assert written(node) == [(OffsetCommitKey("g", "t", 1), value)]


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_retention_of_its_own_is_written(node: HandlerBroker, topic: OffsetCommitRequestTopic, version: int) -> None:
    node.ask(OffsetCommitRequest("g", retention_time_ms=1000, topics=[topic]), version)
    now_ms = node.time.clock.now_ms()
    value = OffsetCommitValue(42, -1, "note", now_ms, now_ms + 1000)
    assert written(node) == [(OffsetCommitKey("g", "t", 1), value)]


def test_what_was_committed_is_there_after_a_restart(node: HandlerBroker, topic: OffsetCommitRequestTopic) -> None:
    node.ask(OffsetCommitRequest("g", topics=[topic]), 8)
    node.restart()
    (shard,) = (shard for shard in node.services.groups.shards() if shard.offsets.groups)
    assert {place: value.offset for place, value in shard.offsets.of("g").items()} == {("t", 1): 42}


@pytest.mark.parametrize("version, code", [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_the_version_of_the_request_decides(
    node: HandlerBroker, topic: OffsetCommitRequestTopic, version: int, code: ErrorCode
) -> None:
    response = node.ask(OffsetCommitRequest("g", 4, "m", topics=[topic]), version)
    assert rows(response) == [("t", ZERO_UUID, 1, code)]


@pytest.mark.parametrize("version", [1, 10])
def test_a_loading_coordinator_is_told_at_every_partition(
    node: HandlerBroker, topic: OffsetCommitRequestTopic, version: int
) -> None:
    node.ask(OffsetCommitRequest("g", topics=[topic]), 8)
    for replica in offsets_partitions(node):
        node.services.groups.log_was_truncated(replica)
    topic.partitions.append(OffsetCommitRequestPartition(0, 1))
    response = node.ask(OffsetCommitRequest("g", topics=[topic]), version)
    assert [row[2:] for row in rows(response)] == [
        (1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ]


def test_a_commit_that_is_not_replicated_in_time(node: HandlerBroker, topic: OffsetCommitRequestTopic) -> None:
    node.ask(OffsetCommitRequest("g", topics=[topic]), 8)
    replies: list[object] = []
    for replica in offsets_partitions(node):
        add_follower(replica)
    outcome = node.handle(OffsetCommitRequest("g", topics=[topic]), 8)
    assert is_task(outcome)
    node.services.tasks.start(outcome, replies.append)
    node.time.advance(node.config.offsets_commit_timeout_ms - 1)
    assert replies == []
    node.time.advance(1)
    (error,) = replies
    assert isinstance(error, KafkaError)  # dispatch tells it at every partition
    assert error.code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def on_disk(directories: list[Path]) -> int:
    """Bytes in the blocks that directories and their files have."""
    return sum(path.lstat().st_blocks * 512 for each in directories for path in [each, *each.iterdir()])


@pytest.mark.slow
def test_fifty_partitions_at_rest_are_small(tmp_path: Path) -> None:
    """With nothing in them, and with an offset in every one; blocks are larger than what is in them."""
    node = HandlerBroker(tmp_path / "data", offsets_topic_num_partitions="50")
    node.services.metadata.create_topic("t", 1)
    topic = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 42)])
    groups = {partition_of(f"group {number}", 50): f"group {number}" for number in range(500)}
    assert len(groups) == 50
    node.ask(FindCoordinatorRequest("a group"), 0)
    directories = list((tmp_path / "data").glob("__consumer_offsets-*"))
    assert len(directories) == 50
    assert on_disk(directories) < 500_000
    for group in groups.values():
        assert rows(node.ask(OffsetCommitRequest(group, topics=[topic]), 8)) == [("t", ZERO_UUID, 0, NONE)]
    assert on_disk(directories) < 1_000_000
    node.close()
    assert sum(file.stat().st_size for each in directories for file in each.iterdir()) < 20_000
