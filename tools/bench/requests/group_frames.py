"""Request frames of consumer groups, written by hand as in `frames.py`, and the consumer protocol in them.

Subscription and assignment of classic consumers are ConsumerProtocolSubscription and ConsumerProtocolAssignment v0,
which all clients can read.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headgate.tools.bench.requests.frames import (
    CONSUMER_GROUP_HEARTBEAT,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
    RequestWriter,
)

SESSION_TIMEOUT_MS = 300_000
"""So long that no member expires during the other broker's turn."""
PROTOCOL_TYPE, PROTOCOL = "consumer", "range"
JOIN_EPOCH, LEAVE_EPOCH = 0, -1


OF_GROUP, OF_TRANSACTION = 0, 1


def find_coordinator(key: str, key_type: int = OF_GROUP) -> RequestWriter:
    """FindCoordinator v1 of a group or of a transactional id."""
    writer = RequestWriter(FIND_COORDINATOR, 1)
    writer.string(key)
    writer.int8(key_type)
    return writer


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    """Some partitions of a topic."""

    topic: str
    partitions: Sequence[int]
    topic_id: bytes = bytes(16)


def offset_commit(version: int, group_id: str, topic_partitions: TopicPartitions, metadata: str = "") -> RequestWriter:
    """OffsetCommit 2 to 10 of offset 0, without a group membership. Mark: `committed_offset` of the last partition."""
    writer = RequestWriter(OFFSET_COMMIT, version)
    writer.string(group_id)
    writer.int32(-1)
    writer.string("")  # member
    if version >= 7:
        writer.string(None)
    if version <= 4:
        writer.int64(-1)  # retention
    writer.length(1, "i")
    if version >= 10:
        writer.raw(topic_partitions.topic_id)
    else:
        writer.string(topic_partitions.topic)

    def write_partition(partition: int) -> None:
        writer.int32(partition)
        writer.mark("committed_offset")
        writer.int64(0)
        if version >= 6:
            writer.int32(-1)  # leader epoch
        writer.string(metadata)
        writer.tags()

    writer.array(topic_partitions.partitions, write_partition)
    writer.tags()  # of the topic
    writer.tags()
    return writer


def offset_fetch(group_id: str, topic_partitions: TopicPartitions | None = None) -> RequestWriter:
    """OffsetFetch v5 of one group; without partitions the answer has only the error of the group."""
    writer = RequestWriter(OFFSET_FETCH, 5)
    writer.string(group_id)

    def write_topic(topic_partitions: TopicPartitions) -> None:
        writer.string(topic_partitions.topic)
        writer.array(topic_partitions.partitions, writer.int32)

    writer.array([] if topic_partitions is None else [topic_partitions], write_topic)
    return writer


def subscription(topic: str) -> bytes:
    """A subscription to one topic, without user data."""
    return struct.pack(f">hih{len(topic)}si", 0, 1, len(topic), topic.encode(), -1)


def assignment(topic: str, partitions: Sequence[int]) -> bytes:
    """An assignment of partitions of one topic, without user data."""
    count = len(partitions)
    return struct.pack(f">hih{len(topic)}si{count}ii", 0, 1, len(topic), topic.encode(), count, *partitions, -1)


def join_group(group_id: str, member_id: str, metadata: bytes) -> RequestWriter:
    """JoinGroup v9 with one protocol."""
    writer = RequestWriter(JOIN_GROUP, 9)
    writer.string(group_id)
    writer.int32(SESSION_TIMEOUT_MS)
    writer.int32(SESSION_TIMEOUT_MS)  # rebalance timeout
    writer.string(member_id)
    writer.string(None)
    writer.string(PROTOCOL_TYPE)
    writer.length(1, "i")
    writer.string(PROTOCOL)
    writer.blob(metadata)
    writer.tags()
    writer.string(None)  # reason
    writer.tags()
    return writer


def sync_group(group_id: str, member_id: str, assignments: Mapping[str, bytes] | None = None) -> RequestWriter:
    """SyncGroup v5. Mark: `generation` (int32)."""
    writer = RequestWriter(SYNC_GROUP, 5)
    writer.string(group_id)
    writer.mark("generation")
    writer.int32(0)
    writer.string(member_id)
    writer.string(None)
    writer.string(PROTOCOL_TYPE)
    writer.string(PROTOCOL)

    def write_assignment(one: tuple[str, bytes]) -> None:
        writer.string(one[0])
        writer.blob(one[1])
        writer.tags()

    writer.array((assignments or {}).items(), write_assignment)
    writer.tags()
    return writer


def heartbeat(version: int, group_id: str, member_id: str, generation: int = 0) -> RequestWriter:
    """Heartbeat 0 to 4. Mark: `generation` (int32)."""
    writer = RequestWriter(HEARTBEAT, version)
    writer.string(group_id)
    writer.mark("generation")
    writer.int32(generation)
    writer.string(member_id)
    if version >= 3:
        writer.string(None)
    writer.tags()
    return writer


def leave_group(group_id: str, member_id: str) -> RequestWriter:
    """LeaveGroup v5 of one member."""
    writer = RequestWriter(LEAVE_GROUP, 5)
    writer.string(group_id)

    def write_member(member_id: str) -> None:
        writer.string(member_id)
        writer.string(None)
        writer.string(None)  # reason
        writer.tags()

    writer.array([member_id], write_member)
    writer.tags()
    return writer


def consumer_group_heartbeat(
    version: int,
    group_id: str,
    member_id: str,
    epoch: int,
    topics: Iterable[str] | None = None,
    owned: TopicPartitions | None = None,
) -> RequestWriter:
    """ConsumerGroupHeartbeat 0 and 1. None means unchanged; a join needs both `topics` and `owned`."""
    writer = RequestWriter(CONSUMER_GROUP_HEARTBEAT, version)
    writer.string(group_id)
    writer.string(member_id)
    writer.int32(epoch)
    writer.string(None)  # instance
    writer.string(None)  # rack
    writer.int32(SESSION_TIMEOUT_MS if epoch == JOIN_EPOCH else -1)
    writer.array(topics, writer.string)
    if version >= 1:
        writer.string(None)  # regular expression
    writer.string(None)  # assignor

    def write_topic(topic_partitions: TopicPartitions) -> None:
        writer.raw(topic_partitions.topic_id)
        writer.array(topic_partitions.partitions, writer.int32)
        writer.tags()

    writer.array(None if owned is None else [owned] if owned.partitions else [], write_topic)
    writer.tags()
    return writer
