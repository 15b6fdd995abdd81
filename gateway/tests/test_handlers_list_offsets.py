"""ListOffsets."""

from typing import Any

import pytest

from gateway.tests.builders import Node
from protocol.errors import ErrorCode
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.records.batch import Record, build

NOW_MS = 1_700_000_000_000
NOTHING = (0, -1, -1)


def append(node: Node, *timestamps: int) -> None:
    batch = build([Record(timestamp=timestamp, value=b"x") for timestamp in timestamps])
    node.services.partitions.get("t", 0).append(memoryview(batch), 1, NOW_MS)


def find(node: Node, version: int, timestamp: int, name: str = "t", index: int = 0, **options: Any) -> tuple[int, ...]:
    partition = ListOffsetsPartition(partition_index=index, timestamp=timestamp, **options)
    topic = ListOffsetsTopic(name=name, partitions=[partition])
    response = node.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), version)
    row = response.topics[0].partitions[0]
    return row.error_code, row.offset, row.timestamp


@pytest.mark.parametrize("version", range(1, 12))
def test_the_ends_and_a_time(node: Node, version: int) -> None:
    node.services.metadata.create_topic("t", 1)
    append(node, NOW_MS, NOW_MS + 10)
    append(node, NOW_MS + 20)
    assert find(node, version, -1) == (0, 3, -1)
    assert find(node, version, -2) == (0, 0, -1)
    assert find(node, version, NOW_MS + 5) == (0, 1, NOW_MS + 10)
    assert find(node, version, NOW_MS + 20) == (0, 2, NOW_MS + 20)
    assert find(node, version, 0) == (0, 0, NOW_MS)


@pytest.mark.parametrize("timestamp", [NOW_MS + 21, 1 << 62])
def test_no_match_is_minus_one(node: Node, timestamp: int) -> None:
    node.services.metadata.create_topic("t", 1)
    assert find(node, 7, timestamp) == NOTHING
    append(node, NOW_MS + 20)
    assert find(node, 7, timestamp) == NOTHING


def test_special_times(node: Node) -> None:
    node.services.metadata.create_topic("t", 1)
    assert find(node, 7, -3) == NOTHING
    append(node, NOW_MS, NOW_MS + 50, NOW_MS + 10)
    assert find(node, 7, -3) == (0, 1, NOW_MS + 50)
    assert find(node, 8, -4) == (0, 0, -1)
    assert find(node, 9, -5) == NOTHING
    assert find(node, 11, -6) == NOTHING


@pytest.mark.parametrize("version, timestamp", [(6, -3), (7, -4), (8, -5), (10, -6), (11, -7), (1, -(1 << 63))])
def test_special_times_of_later_versions_are_refused(node: Node, version: int, timestamp: int) -> None:
    node.services.metadata.create_topic("t", 1)
    assert find(node, version, timestamp) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1)


def test_nothing_above_the_high_watermark_is_found(node: Node) -> None:
    node.services.metadata.create_topic("t", 1)
    append(node, NOW_MS)
    append(node, NOW_MS + 10)
    node.services.partitions.get("t", 0).high_watermark = 1
    assert find(node, 7, -1) == (0, 1, -1)
    assert find(node, 7, NOW_MS + 5) == NOTHING


def test_errors_are_told_of_their_partition(node: Node) -> None:
    node.services.metadata.create_topic("t", 1)
    assert find(node, 7, -1, name="nowhere") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert find(node, 7, -1, index=1) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert find(node, 7, -1, current_leader_epoch=5) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
