"""OffsetForLeaderEpoch."""

import pytest

from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from headgate.protocol.records.batch import Record, build


def ask(
    node: HandlerBroker, version: int, topic: str, partition: int, epoch: int, current: int = -1
) -> tuple[int, int, int]:
    wanted = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[wanted])])
    (answered,) = node.ask(request, version).topics
    (row,) = answered.partitions
    assert (answered.topic, row.partition) == (topic, partition)
    return row.error_code, row.leader_epoch, row.end_offset


def append(node: HandlerBroker, epoch: int, count: int) -> None:
    partition = node.services.partitions.get("t", 0)
    partition.leader_epoch = epoch
    batch = build([Record(offset, 1_700_000_000_000, None, b"v", []) for offset in range(count)])
    partition.append(memoryview(batch), 1, node.time.clock.now_ms())


@pytest.mark.parametrize("version", range(5))
def test_where_epochs_end(node: HandlerBroker, version: int) -> None:
    node.services.metadata.create_topic("t", 1)
    append(node, 0, 3)
    append(node, 2, 4)
    found = [ask(node, version, "t", 0, epoch) for epoch in (0, 1, 2, 3)]
    epochs = [0, 0, 2, -1] if version >= 1 else [-1] * 4
    assert found == [(0, epoch, end) for epoch, end in zip(epochs, (3, 3, 7, -1), strict=True)]


def test_before_its_first_record_an_epoch_begins_at_the_log_end(node: HandlerBroker) -> None:
    """Kafka notes the epoch there when it becomes leader."""
    node.services.metadata.create_topic("t", 1)
    append(node, 1, 3)
    node.services.partitions.get("t", 0).leader_epoch = 4
    found = [ask(node, 4, "t", 0, epoch) for epoch in (0, 1, 2, 3, 4, 5)]
    assert found == [(0, 0, 0), (0, 1, 3), (0, 1, 3), (0, 1, 3), (0, 4, 3), (0, -1, -1)]


def test_epochs_of_a_log_without_any(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    node.services.partitions.get("t", 0).leader_epoch = 4
    assert [ask(node, 4, "t", 0, epoch) for epoch in (0, 3, 4, 5)] == [(0, 0, 0), (0, 3, 0), (0, 4, 0), (0, -1, -1)]


def test_a_client_of_another_leader_is_fenced(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    append(node, 2, 1)
    assert ask(node, 4, "t", 0, 2, current=1)[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert ask(node, 4, "t", 0, 2, current=3)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert ask(node, 1, "t", 0, 2, current=3)[0] == ErrorCode.NONE


def test_an_unknown_partition(node: HandlerBroker) -> None:
    assert ask(node, 4, "t", 0, 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
