"""Committed offsets of groups, and offsets of partitions, many in one request, in the versions of the broker.

Committed offsets come from the coordinator. Version 0 of OffsetCommit and OffsetFetch means ZooKeeper and is never
used. From version 10 on requests carry topic ids; these tools need names, because they show offsets of deleted topics
too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.list_offsets import (
    EARLIEST,
    LATEST,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from headgate.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headgate.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from headgate.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic
from headgate.protocol.topic_partition import TopicPartition, by_topic
from headgate.tools.client.client import Client
from headgate.tools.client.cluster import Answers, Cluster, passes_by_itself

# Versions of OffsetCommit and OffsetFetch: with topic names, from the coordinator, of many groups, of all topics;
# of ListOffsets: one offset instead of a list, readers of committed records
_NEWEST_WITH_NAMES = 9
_OLDEST_OF_COORDINATOR = 1
_MANY_GROUPS = 8
_ALL_TOPICS = 2
_ONE_OFFSET = 1
_ISOLATION_LEVEL = 2
_GROUPS_AT_ONCE = 200
_PARTITIONS_AT_ONCE = 5000
CONSUMER_REPLICA_ID = -1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class OffsetAndMetadata(NamedTuple):
    """A committed offset: the next offset to read, the leader epoch of the record before, and the client's metadata.

    `leader_epoch`: -1 if unknown.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


CommittedOffsets: TypeAlias = dict[TopicPartition, OffsetAndMetadata]


class PartitionEnds(NamedTuple):
    """Log start offsets and high watermarks of partitions, and the failures of the other partitions.

    `stable`: last stable offsets, for readers of committed records; empty for the others.
    """

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    failed: Mapping[TopicPartition, Failure]
    stable: Mapping[TopicPartition, int] = {}

    def readable_end(self, partition: TopicPartition, offset: int | None) -> int:
        """The end for a reader at an offset. A reader that waits at an open transaction has read everything so far."""
        end = self.ends[partition]
        return max(self.stable.get(partition, end), min(offset or 0, end))


def fetch_committed(cluster: Cluster, groups: Iterable[str]) -> tuple[dict[str, CommittedOffsets], dict[str, Failure]]:
    """All committed offsets by group, and failures by group; a group that does not exist has no offsets."""

    def ask(client: Client, names: list[str]) -> Answers[str, CommittedOffsets]:
        version = client.version(OffsetFetchRequest, newest=_NEWEST_WITH_NAMES, oldest=_OLDEST_OF_COORDINATOR)
        if version >= _MANY_GROUPS:
            for start in range(0, len(names), _GROUPS_AT_ONCE):
                wanted = [
                    OffsetFetchRequestGroup(group_id=name, topics=None) for name in names[start:][:_GROUPS_AT_ONCE]
                ]
                for row in client.ask(OffsetFetchRequest(groups=wanted), version).groups:
                    yield row.group_id, _offsets(row.error_code, row.topics)
            return
        topics = None if version >= _ALL_TOPICS else _all_partitions(cluster)
        for name in names:
            answer = client.ask(OffsetFetchRequest(group_id=name, topics=topics), version)
            yield name, _offsets(answer.error_code, answer.topics)

    return cluster.ask_coordinators(groups, ask)


def _all_partitions(cluster: Cluster) -> list[OffsetFetchRequestTopic]:
    """All partitions of the cluster: version 1 cannot ask for all offsets of a group without naming partitions."""
    return [
        OffsetFetchRequestTopic(name=name, partition_indexes=[row.partition_index for row in topic.partitions])
        for name, topic in cluster.topics(None).items()
    ]


def _offsets(code: int, topics: Iterable[Any]) -> CommittedOffsets | Failure:
    """The rows with an offset; an error in any row is a failure of the group."""
    found = {}
    for topic in topics:
        for row in topic.partitions:
            code = code or row.error_code
            if row.committed_offset >= 0:
                partition = TopicPartition(topic.name, row.partition_index)
                found[partition] = OffsetAndMetadata(
                    row.committed_offset, row.committed_leader_epoch, row.metadata or ""
                )
    return Failure.of(code) if code else found


def commit_offsets(
    cluster: Cluster,
    group: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    newest: int = _NEWEST_WITH_NAMES,
    oldest: int = _OLDEST_OF_COORDINATOR,
) -> dict[TopicPartition, Failure]:
    """Commit offsets of a group without members, in one request, as a consumer without group management does.

    Returns the failures by partition.
    """
    topics = [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=partition.number,
                    committed_offset=offsets[partition].offset,
                    committed_leader_epoch=offsets[partition].leader_epoch,
                    committed_metadata=offsets[partition].metadata,
                )
                for partition in partitions
            ],
        )
        for topic, partitions in by_topic(offsets).items()
    ]

    def ask(client: Client, names: list[str]) -> Answers[str, dict[TopicPartition, Failure]]:
        version = client.version(OffsetCommitRequest, newest, oldest)
        yield group, refusals(client.ask(OffsetCommitRequest(group_id=group, topics=topics), version).topics)

    return _by_partition(cluster.ask_coordinators([group], ask), group, offsets)


def delete_offsets(cluster: Cluster, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Failure]:
    """Delete the committed offsets of these partitions. Returns the failures by partition."""
    wanted = list(partitions)
    topics = [
        OffsetDeleteRequestTopic(
            name=topic, partitions=[OffsetDeleteRequestPartition(partition.number) for partition in rows]
        )
        for topic, rows in by_topic(wanted).items()
    ]

    def ask(client: Client, names: list[str]) -> Answers[str, dict[TopicPartition, Failure]]:
        answer = client.ask(OffsetDeleteRequest(group_id=group, topics=topics))
        yield group, Failure.of(answer.error_code) if answer.error_code else refusals(answer.topics)

    return _by_partition(cluster.ask_coordinators([group], ask), group, wanted)


def refusals(topics: Iterable[Any]) -> dict[TopicPartition, Failure] | Failure:
    """Failures by partition. A transient one becomes the failure of the whole request, which is safe to repeat."""
    refused = {
        TopicPartition(topic.name, row.partition_index): Failure.of(row.error_code)
        for topic in topics
        for row in topic.partitions
        if row.error_code
    }
    return next((failure for failure in refused.values() if passes_by_itself(failure)), refused)


def _by_partition(
    answers: tuple[dict[str, dict[TopicPartition, Failure]], dict[str, Failure]],
    group: str,
    partitions: Iterable[TopicPartition],
) -> dict[TopicPartition, Failure]:
    """Failures by partition; a failure of the whole group fails each of the partitions."""
    found, failed = answers
    return dict.fromkeys(partitions, failed[group]) if group in failed else found[group]


def list_ends(
    cluster: Cluster, partitions: Iterable[TopicPartition], isolation_level: int = READ_UNCOMMITTED
) -> PartitionEnds:
    """The start and the end of each partition; with READ_COMMITTED its last stable offset, too."""
    stable: dict[TopicPartition, int] = {}
    failed: dict[TopicPartition, Failure] = {}
    if isolation_level == READ_COMMITTED:  # first, so that no end is before it
        stable, failed = list_offsets(cluster, partitions, LATEST, isolation_level)
        partitions = stable
    ends, failed_ends = list_offsets(cluster, partitions, LATEST)
    starts, failed_starts = list_offsets(cluster, ends, EARLIEST)
    return PartitionEnds(starts, ends, {**failed, **failed_ends, **failed_starts}, stable)


def list_offsets(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    timestamp: int,
    isolation_level: int = READ_UNCOMMITTED,
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, Failure]]:
    """The first offset with this timestamp in ms or later by partition (-1: none), and failures by partition.

    LATEST and EARLIEST as `timestamp` list the ends. LATEST is the high watermark, also while a transaction is open;
    with READ_COMMITTED the last stable offset.
    """

    def ask(client: Client, wanted: list[TopicPartition]) -> Answers[TopicPartition, int]:
        oldest = _ONE_OFFSET if timestamp >= 0 else 0  # version 0 finds a segment file for a time, not a record
        oldest = _ISOLATION_LEVEL if isolation_level else oldest
        version = client.version(ListOffsetsRequest, newest=11, oldest=oldest)
        for start in range(0, len(wanted), _PARTITIONS_AT_ONCE):
            part = wanted[start : start + _PARTITIONS_AT_ONCE]
            yield from _list_offsets(client, version, part, timestamp, isolation_level)

    return cluster.ask_leaders(partitions, ask)


def _list_offsets(
    client: Client, version: int, partitions: list[TopicPartition], timestamp: int, isolation_level: int
) -> Iterator[tuple[TopicPartition, int | Failure]]:
    topics = [
        ListOffsetsTopic(
            name=topic,
            partitions=[
                ListOffsetsPartition(partition_index=partition.number, timestamp=timestamp) for partition in rows
            ],
        )
        for topic, rows in by_topic(partitions).items()
    ]
    request = ListOffsetsRequest(CONSUMER_REPLICA_ID, isolation_level, topics)
    for topic in client.ask(request, version).topics:
        for row in topic.partitions:
            offset = row.offset if version >= _ONE_OFFSET else next(iter(row.old_style_offsets), -1)
            yield (
                TopicPartition(topic.name, row.partition_index),
                Failure.of(row.error_code) if row.error_code else offset,
            )


def is_unknown_partition(failure: Failure) -> bool:
    """True if the topic or partition does not exist, so that waiting does not help."""
    return failure.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
