"""The requests about the offsets of a shard: OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete.

The rules are Kafka's (OffsetMetadataManager, KafkaApis): KIP-320 leader epochs, KIP-345 static members, KIP-447 stable
offsets, KIP-496 OffsetDelete, KIP-848 member epochs and topic ids, KIP-1319 topic ids of TxnOffsetCommit. Generation -1
in a missing group is a "simple" consumer: its first commit creates the group, as an empty classic group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from headgate.gateway.coordinator.decision import Decision, ProducerIdAndEpoch, Records, Ticket
from headgate.gateway.coordinator.groups.group_shard import Group, GroupShard, TopicsView
from headgate.gateway.coordinator.groups.offsets import OffsetsSnapshot
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.offsets import OffsetCommitKey, OffsetCommitValue, decode_offset
from headgate.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headgate.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from headgate.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from headgate.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from headgate.protocol.steps import FEW_ITEMS, lazy_map
from headgate.protocol.wire import ZERO_UUID

LONGEST_METADATA_BYTES = 0x7FFF
"""The limit of a string in the inflexible versions of OffsetFetch, in bytes."""
_LAST_TIMESTAMP_MS = (1 << 63) - 1
_TOPIC_IDS = 10
"""The first version of OffsetCommit and OffsetFetch that names topics by id."""
_TRANSACTIONAL_TOPIC_IDS = 6
"""The same of TxnOffsetCommit, which has the errors of OffsetCommit from that version on, too."""


# Commit


class _Rows(NamedTuple):
    """The rows of a response about commits: (name, topic id, partitions), and (index, error code)."""

    topic: Callable[[str, bytes, list[Any]], Any]
    partition: Callable[[int, int], Any]


_COMMIT = _Rows(OffsetCommitResponseTopic, OffsetCommitResponsePartition)
_TRANSACTIONAL = _Rows(TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition)


def commit(shard: GroupShard, request: OffsetCommitRequest, version: int, ticket: Ticket, now_ms: float) -> Decision:
    """OffsetCommit v1-v10. An error of the group appears at every existing partition, as in Kafka.

    Version 0 skips the checks of the group: its clients are not members.
    """
    known, refused = _known(shard.topics, request.topics, _COMMIT, has_ids=version >= _TOPIC_IDS)
    if not known:
        return Decision.reply(ticket, OffsetCommitResponse(topics=list(refused.values())))
    records: Records = []
    try:
        if version:
            _check_commit(shard, request, version, now_ms)
    except KafkaError as error:
        rows = _refuse_all(known, _COMMIT, error.code)
    else:
        rows = _commit(shard, request, known, records)
    response = OffsetCommitResponse(topics=_merge(refused, rows) if refused else rows)
    return Decision(records, [(ticket, response)])


_Known = list[tuple[str, bytes, list[Any]]]
_Refused = dict[str | bytes, Any]


def _known(view: TopicsView, topics: Sequence[Any], rows: _Rows, *, has_ids: bool) -> tuple[_Known, _Refused]:
    """The existing partitions, by topic, and the rows of unknown partitions, by name or id."""
    known: _Known = []
    refused: _Refused = {}
    for topic in topics:
        name, topic_id = topic.name, ZERO_UUID
        if has_ids:
            topic_id = topic.topic_id
            found = view.name_of(topic_id)
            if found is None:
                _refuse(refused, rows, topic, topic.partitions, ErrorCode.UNKNOWN_TOPIC_ID)
                continue
            name = found
        count, partitions = view.partitions_of(name), topic.partitions
        # A missing topic gets a row even without partitions
        if not partitions and not count:
            _refuse(refused, rows, topic, [], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        for partition in partitions:
            if not 0 <= partition.partition_index < count:
                unknown = [each for each in partitions if not 0 <= each.partition_index < count]
                partitions = [each for each in partitions if 0 <= each.partition_index < count]
                _refuse(refused, rows, topic, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                break
        if partitions:
            known.append((name, topic_id, partitions))
    return known, refused


def _refuse(refused: _Refused, rows: _Rows, topic: Any, partitions: list[Any], code: ErrorCode) -> None:
    _merge(refused, _refuse_all([(topic.name, topic.topic_id, partitions)], rows, code))


def _merge(rows: _Refused, more: list[Any]) -> list[Any]:
    """Merge rows in Kafka's order: rows refused before the group's check come first; a topic has one row."""
    for row in more:
        there = rows.setdefault(row.name if row.topic_id == ZERO_UUID else row.topic_id, row)
        if there is not row:
            there.partitions += row.partitions
    return list(rows.values())


def _refuse_all(known: _Known, rows: _Rows, code: ErrorCode) -> list[Any]:
    return [
        rows.topic(name, topic_id, [rows.partition(partition.partition_index, code) for partition in partitions])
        for name, topic_id, partitions in known
    ]


def _check_commit(shard: GroupShard, request: OffsetCommitRequest, version: int, now_ms: float) -> None:
    generation = request.generation_id_or_member_epoch
    group = shard.groups.get(request.group_id)
    if group is not None:
        group.check_commit(request.member_id, request.group_instance_id, generation, version, now_ms)
    elif generation >= 0:
        # Clients older than KIP-848 join again after the older error
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION)


def _commit(
    shard: GroupShard, request: OffsetCommitRequest, known: _Known, records: Records
) -> list[OffsetCommitResponseTopic]:
    """Add a record for each partition whose metadata is not too large; return the rows of all partitions."""
    group_id, limit, now_ms = request.group_id, shard.settings.offset_metadata_max_bytes, shard.timestamp_ms()
    expire_ms = _expire_timestamp_ms(request.retention_time_ms, now_ms)
    topics = []
    for name, topic_id, partitions in known:
        rows = []
        for partition in partitions:
            index, metadata, code = partition.partition_index, partition.committed_metadata or "", ErrorCode.NONE
            if metadata and is_too_large(metadata, limit):
                code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                committed_ms = partition.commit_timestamp
                value = OffsetCommitValue(
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    metadata,
                    now_ms if committed_ms == -1 else committed_ms,
                    expire_ms,
                    topic_id,
                )
                records.append((OffsetCommitKey(group_id, name, index), value))
            rows.append(OffsetCommitResponsePartition(index, code))
        topics.append(OffsetCommitResponseTopic(name, topic_id, rows))
    return topics


def _expire_timestamp_ms(retention_time_ms: int, now_ms: int) -> int:
    """The expiry timestamp that the request sets (v2-v4); -1 if the broker's retention applies.

    A sum that is too large for the record means never. Kafka's sum overflows, and the offset expires at once.
    """
    return -1 if retention_time_ms == -1 else max(0, min(now_ms + retention_time_ms, _LAST_TIMESTAMP_MS))


def is_too_large(metadata: str, limit: int) -> bool:
    """Whether metadata exceed the limit. Kafka counts Java's characters: two for a code point above U+FFFF."""
    if len(metadata) * 4 <= min(limit, LONGEST_METADATA_BYTES):
        return False
    return len(metadata.encode("utf-16-le")) // 2 > limit or len(metadata.encode()) > LONGEST_METADATA_BYTES


# Commit within a transaction


def commit_in_transaction(
    shard: GroupShard,
    request: TxnOffsetCommitRequest,
    version: int,
    ticket: Ticket,
    error: KafkaError | None = None,
) -> Decision:
    """TxnOffsetCommit v0-v6: the offsets are pending until the marker ends the producer's transaction.

    `error`: the reason why the transaction cannot take the offsets. Unlike OffsetCommit, a commit is no heartbeat, is
    allowed during a rebalance, and is not checked if it names no member (KIP-447).
    """
    has_ids = version >= _TRANSACTIONAL_TOPIC_IDS
    known, refused = _known(shard.topics, request.topics, _TRANSACTIONAL, has_ids=has_ids)
    if not known:
        return Decision.reply(ticket, TxnOffsetCommitResponse(topics=list(refused.values())))
    records: Records = []
    try:
        if error is not None:
            raise error.copy()
        _check_transactional_commit(shard, request, has_ids=has_ids)
    except KafkaError as failure:
        told = _refuse_all(known, _TRANSACTIONAL, failure.code)
    else:
        told = _commit_pending(shard, request.group_id, known, records)
    response = TxnOffsetCommitResponse(topics=_merge(refused, told) if refused else told)
    return Decision(
        records, [(ticket, response)], producer=ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    )


def _check_transactional_commit(shard: GroupShard, request: TxnOffsetCommitRequest, *, has_ids: bool) -> None:
    generation = request.generation_id_or_member_epoch
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    group = shard.groups.get(request.group_id)
    if group is None:
        if generation >= 0:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if has_ids else ErrorCode.ILLEGAL_GENERATION)
        return
    try:
        group.check_transactional_commit(request.member_id, request.group_instance_id, generation)
    except KafkaError as error:
        if error.code is ErrorCode.STALE_MEMBER_EPOCH and not has_ids:  # these producers know only the older error
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, error.message) from error
        raise


def _commit_pending(
    shard: GroupShard, group_id: str, known: _Known, records: Records
) -> list[TxnOffsetCommitResponseTopic]:
    """Add a record for every partition whose metadata is not too large; returns the rows of all partitions."""
    limit, now_ms = shard.settings.offset_metadata_max_bytes, shard.timestamp_ms()
    topics = []
    for name, topic_id, partitions in known:
        told = []
        for partition in partitions:
            index, metadata, code = partition.partition_index, partition.committed_metadata or "", ErrorCode.NONE
            if metadata and is_too_large(metadata, limit):
                code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                offset, leader_epoch = partition.committed_offset, partition.committed_leader_epoch
                value = OffsetCommitValue(offset, leader_epoch, metadata, now_ms, -1, topic_id)
                records.append((OffsetCommitKey(group_id, name, index), value))
            told.append(TxnOffsetCommitResponsePartition(index, code))
        topics.append(TxnOffsetCommitResponseTopic(name, topic_id, told))
    return topics


# Fetch


def fetch(
    shard: GroupShard, wanted: OffsetFetchRequestGroup, version: int, ticket: Ticket, is_stable: bool
) -> Decision:
    """OffsetFetch of one group; the reply is the group's row in a response of v8 or later.

    `is_stable`: an offset that an open transaction is about to change becomes UNSTABLE_OFFSET_COMMIT (KIP-447).
    """
    try:
        topics = _fetch(shard, wanted, version, is_stable)
    except KafkaError as error:
        row = OffsetFetchResponseGroup(wanted.group_id, error_code=error.code)
    else:
        row = OffsetFetchResponseGroup(wanted.group_id, topics)
    return Decision.reply(ticket, row)


def _fetch(
    shard: GroupShard, wanted: OffsetFetchRequestGroup, version: int, is_stable: bool
) -> list[OffsetFetchResponseTopics]:
    """The rows of all topics; many rows are made during the write of the response, from the present offsets."""
    group = shard.groups.get(wanted.group_id)
    if group is not None:
        group.check_fetch(wanted.member_id, wanted.member_epoch)
    reader = _Reader(shard.offsets.snapshot(wanted.group_id, with_pending=is_stable, is_for_now=_is_small(wanted)))
    if wanted.topics is None:
        return lazy_map(_all_topics(shard, wanted.group_id, version), reader.all_of)
    if version < _TOPIC_IDS:
        return lazy_map(wanted.topics, lambda topic: reader.topic(topic.name, ZERO_UUID, topic.partition_indexes))
    known: list[tuple[str | None, OffsetFetchRequestTopics]] = []
    unknown: list[tuple[str | None, OffsetFetchRequestTopics]] = []
    for topic in wanted.topics:
        name = shard.topics.name_of(topic.topic_id)
        (unknown if name is None else known).append((name, topic))
    return lazy_map(known + unknown, lambda named: reader.named(*named))


def _is_small(wanted: OffsetFetchRequestGroup) -> bool:
    """Whether all rows are made at once."""
    topics = wanted.topics
    return (
        topics is not None
        and len(topics) <= FEW_ITEMS
        and all(len(topic.partition_indexes) <= FEW_ITEMS for topic in topics)
    )


def _all_topics(shard: GroupShard, group_id: str, version: int) -> list[tuple[str, bytes]]:
    """All topics of the group, with their ids. From v10 on, topics without an id are left out."""
    names = shard.offsets.groups.get(group_id, {})
    if version < _TOPIC_IDS:
        return [(name, ZERO_UUID) for name in names]
    found = ((name, shard.topics.id_of(name)) for name in names)
    return [(name, topic_id) for name, topic_id in found if topic_id is not None]


class _Reader:
    """Makes the rows of one group."""

    __slots__ = ("_snapshot",)

    def __init__(self, snapshot: OffsetsSnapshot) -> None:
        self._snapshot = snapshot

    def all_of(self, topic: tuple[str, bytes]) -> OffsetFetchResponseTopics:
        """All partitions of a topic, given by its name and its id."""
        name, topic_id = topic
        row = self.topic(name, ZERO_UUID, list(self._snapshot.topic(name)))
        row.topic_id = topic_id
        return row

    def named(self, name: str | None, topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
        """The requested partitions of a topic named by id; `name` is None for an unknown id."""
        if name is None:
            return _refuse_fetch(topic, ErrorCode.UNKNOWN_TOPIC_ID)
        return self.topic(name, topic.topic_id, topic.partition_indexes)

    def topic(self, name: str, topic_id: bytes, indexes: list[int]) -> OffsetFetchResponseTopics:
        return OffsetFetchResponseTopics(
            name, topic_id, lazy_map(indexes, lambda index: self._partition(name, topic_id, index))
        )

    def _partition(self, name: str, topic_id: bytes, index: int) -> OffsetFetchResponsePartitions:
        snapshot = self._snapshot
        if snapshot.pending and (name, index) in snapshot.pending:
            return OffsetFetchResponsePartitions(index, -1, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
        packed = snapshot.topic(name).get(index)
        if packed is None:
            return OffsetFetchResponsePartitions(index, -1)
        value = decode_offset(packed)
        if topic_id != ZERO_UUID and value.topic_id not in (ZERO_UUID, topic_id):
            # The offset was committed for a deleted topic of the same name
            return OffsetFetchResponsePartitions(index, -1)
        return OffsetFetchResponsePartitions(index, value.offset, value.leader_epoch, value.metadata)


def _refuse_fetch(topic: OffsetFetchRequestTopics, code: ErrorCode) -> OffsetFetchResponseTopics:
    refused = lazy_map(topic.partition_indexes, lambda index: OffsetFetchResponsePartitions(index, -1, error_code=code))
    return OffsetFetchResponseTopics(topic.name, topic.topic_id, refused)


# Delete


def delete(shard: GroupShard, request: OffsetDeleteRequest, ticket: Ticket) -> Decision:
    """OffsetDelete: remove offsets of topics to which no member subscribes (KIP-496).

    Raises KafkaError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
    """
    group = shard.groups.get(request.group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {request.group_id} does not exist")
    group.check_offset_delete()
    records: Records = []
    refused: dict[str, OffsetDeleteResponseTopic] = {}
    answered = []
    for topic in request.topics:
        count = shard.topics.partitions_of(topic.name)
        known = [each.partition_index for each in topic.partitions if 0 <= each.partition_index < count]
        unknown = [each.partition_index for each in topic.partitions if not 0 <= each.partition_index < count]
        if unknown or not count:
            _merge_deleted(refused, [_deleted(topic, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)])
        if known:
            answered.append(_deleted(topic, known, _delete(shard, group, topic.name, known, records)))
    topics = _merge_deleted(refused, answered) if refused else answered
    return Decision(records, [(ticket, OffsetDeleteResponse(topics=topics))])


def _delete(shard: GroupShard, group: Group, topic: str, indexes: list[int], records: Records) -> ErrorCode:
    if group.subscribes_to(topic):
        return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    offsets, group_id = shard.offsets, group.group_id
    partitions = offsets.groups.get(group_id, {}).get(topic, {})
    for index in indexes:
        if index in partitions or offsets.is_pending(group_id, topic, index):
            records.append((OffsetCommitKey(group_id, topic, index), None))
    return ErrorCode.NONE


def _deleted(topic: OffsetDeleteRequestTopic, indexes: list[int], code: ErrorCode) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(topic.name, [OffsetDeleteResponsePartition(index, code) for index in indexes])


def _merge_deleted(
    rows: dict[str, OffsetDeleteResponseTopic], more: list[OffsetDeleteResponseTopic]
) -> list[OffsetDeleteResponseTopic]:
    for row in more:
        there = rows.setdefault(row.name, row)
        if there is not row:
            there.partitions += row.partitions
    return list(rows.values())
