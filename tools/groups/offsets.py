"""What groups have committed, and what partitions hold: asked for many at once, at the versions that brokers have.

Offsets of groups are those of the coordinator. Version 0 of OffsetCommit and OffsetFetch means ZooKeeper and is never
used. From version 10 on topics are ids; names serve here, as also offsets of deleted topics are shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
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
from headgate.tools.client import Client
from headgate.tools.groups.cluster import TRANSIENT, Answers, Cluster, Failure, TopicPartition

_BY_NAME = 9
_FROM_THE_COORDINATOR = 1
_MANY_GROUPS = 8
_ALL_TOPICS = 2
_ONE_OFFSET = 1
_GROUPS_AT_ONCE = 200
_PARTITIONS_AT_ONCE = 5000
_CONSUMER = -1


class Committed(NamedTuple):
    """A committed offset: where to go on, the leader epoch of the record before it (-1: unknown), the client's note."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


Offsets: TypeAlias = dict[TopicPartition, Committed]


def committed(cluster: Cluster, groups: Iterable[str]) -> tuple[dict[str, Offsets], dict[str, Failure]]:
    """All that these groups have committed; nothing for a group that does not exist."""

    def ask(client: Client, names: list[str]) -> Answers[str, Offsets]:
        version = client.version(OffsetFetchRequest, newest=_BY_NAME, oldest=_FROM_THE_COORDINATOR)
        if version >= _MANY_GROUPS:
            for start in range(0, len(names), _GROUPS_AT_ONCE):
                wanted = [
                    OffsetFetchRequestGroup(group_id=name, topics=None) for name in names[start:][:_GROUPS_AT_ONCE]
                ]
                for row in client.ask(OffsetFetchRequest(groups=wanted), version).groups:
                    yield row.group_id, _offsets(row.error_code, row.topics)
            return
        topics = None if version >= _ALL_TOPICS else _everything(cluster)
        for name in names:
            answer = client.ask(OffsetFetchRequest(group_id=name, topics=topics), version)
            yield name, _offsets(answer.error_code, answer.topics)

    return cluster.at_coordinators(groups, ask)


def _everything(cluster: Cluster) -> list[OffsetFetchRequestTopic]:
    """Every partition there is: the first version cannot ask for all that a group has."""
    return [
        OffsetFetchRequestTopic(name=name, partition_indexes=[row.partition_index for row in topic.partitions])
        for name, topic in cluster.topics(None).items()
    ]


def _offsets(code: int, topics: Iterable[Any]) -> Offsets | Failure:
    """The rows that have an offset; an error at any of them is one of the group."""
    found = {}
    for topic in topics:
        for row in topic.partitions:
            code = code or row.error_code
            if row.committed_offset >= 0:
                partition = TopicPartition(topic.name, row.partition_index)
                found[partition] = Committed(row.committed_offset, row.committed_leader_epoch, row.metadata or "")
    return Failure.of(code) if code else found


def commit(cluster: Cluster, group: str, offsets: Mapping[TopicPartition, Committed]) -> dict[TopicPartition, Failure]:
    """Commit for a group without members, in one request, as a consumer without group management does; what failed."""
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
        version = client.version(OffsetCommitRequest, newest=_BY_NAME, oldest=_FROM_THE_COORDINATOR)
        yield group, _refusals(client.ask(OffsetCommitRequest(group_id=group, topics=topics), version).topics)

    return _of_all(cluster.at_coordinators([group], ask), group, offsets)


def delete(cluster: Cluster, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Failure]:
    """Forget what a group has committed for these partitions; what failed."""
    wanted = list(partitions)
    topics = [
        OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(one.number) for one in rows])
        for topic, rows in by_topic(wanted).items()
    ]

    def ask(client: Client, names: list[str]) -> Answers[str, dict[TopicPartition, Failure]]:
        answer = client.ask(OffsetDeleteRequest(group_id=group, topics=topics))
        yield group, Failure.of(answer.error_code) if answer.error_code else _refusals(answer.topics)

    return _of_all(cluster.at_coordinators([group], ask), group, wanted)


def _refusals(topics: Iterable[Any]) -> dict[TopicPartition, Failure] | Failure:
    """What was refused; one that passes by itself is one of the whole request, which may be repeated as it is."""
    refused = {
        TopicPartition(topic.name, row.partition_index): Failure.of(row.error_code)
        for topic in topics
        for row in topic.partitions
        if row.error_code
    }
    return next((failure for failure in refused.values() if failure.code in TRANSIENT), refused)


def _of_all(
    settled: tuple[dict[str, dict[TopicPartition, Failure]], dict[str, Failure]],
    group: str,
    partitions: Iterable[TopicPartition],
) -> dict[TopicPartition, Failure]:
    found, failed = settled
    return dict.fromkeys(partitions, failed[group]) if group in failed else found[group]


def find_offsets(
    cluster: Cluster, partitions: Iterable[TopicPartition], timestamp: int
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, Failure]]:
    """The first offset of a time in ms or later, -1 if there is none; or an end: LATEST, EARLIEST of ListOffsets.

    LATEST is the high watermark, also where a transaction is open.
    """

    def ask(client: Client, wanted: list[TopicPartition]) -> Answers[TopicPartition, int]:
        oldest = _ONE_OFFSET if timestamp >= 0 else 0  # before that a time finds a segment file, not a record
        version = client.version(ListOffsetsRequest, newest=11, oldest=oldest)
        for start in range(0, len(wanted), _PARTITIONS_AT_ONCE):
            yield from _list_offsets(client, version, wanted[start : start + _PARTITIONS_AT_ONCE], timestamp)

    return cluster.at_leaders(partitions, ask)


def _list_offsets(
    client: Client, version: int, partitions: list[TopicPartition], timestamp: int
) -> Iterator[tuple[TopicPartition, int | Failure]]:
    topics = [
        ListOffsetsTopic(
            name=topic,
            partitions=[ListOffsetsPartition(partition_index=one.number, timestamp=timestamp) for one in rows],
        )
        for topic, rows in by_topic(partitions).items()
    ]
    for topic in client.ask(ListOffsetsRequest(replica_id=_CONSUMER, topics=topics), version).topics:
        for row in topic.partitions:
            offset = row.offset if version >= _ONE_OFFSET else next(iter(row.old_style_offsets), -1)
            yield (
                TopicPartition(topic.name, row.partition_index),
                Failure.of(row.error_code) if row.error_code else offset,
            )


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """Partitions under their topics, as requests want them, each once."""
    topics: defaultdict[str, list[TopicPartition]] = defaultdict(list)
    for partition in dict.fromkeys(partitions):
        topics[partition.topic].append(partition)
    return topics


def is_gone(failure: Failure) -> bool:
    """Whether there is no such topic or partition, for which nothing is to be waited."""
    return failure.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
