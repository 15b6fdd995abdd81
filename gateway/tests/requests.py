"""Requests of producers and of consumers that commit, as most tests send them: one topic, one partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def produce_request(
    records: bytes | bytearray | memoryview,
    topic: str = "t",
    index: int = 0,
    *,
    acks: int = -1,
    timeout_ms: int = 30_000,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """Produce of `records` to one partition."""
    data = PartitionProduceData(index, memoryview(records))
    return ProduceRequest(transactional_id, acks, timeout_ms, [TopicProduceData(topic, partition_data=[data])])


def commit_request(
    group: str,
    offsets: Mapping[int, int],
    topic: str = "t",
    *,
    leader_epoch: int = -1,
    metadata: str = "",
    **member: Any,
) -> OffsetCommitRequest:
    """OffsetCommit of offsets by partition; without `member`, by a client that is not in the group."""
    rows = [
        OffsetCommitRequestPartition(index, offset, leader_epoch, -1, metadata) for index, offset in offsets.items()
    ]
    return OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(topic, partitions=rows)], **member)
