"""The oldest unread record: the first at or behind an offset, found by the cheapest fetch that is exact.

ListOffsets finds an offset by its time, not a time by its offset; so one batch is fetched, the one that the group will
read next. Many partitions are asked at once with little room for each: a broker sends the first batch of the first one
whole, whatever its size (KIP-74), and of the others what fits; who got nothing is asked again alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from headgate.protocol.records import batch
from headgate.storage.lag import UNKNOWN_TIMESTAMP
from headgate.tools.client import Client, ClientError
from headgate.tools.groups.cluster import Answers, Cluster, Failure, TopicPartition
from headgate.tools.groups.offsets import by_topic

_BY_NAME = 12
_RECORD_BATCHES = 4  # the first Fetch whose answer has batches, with their times
_PARTITIONS_AT_ONCE = 100
_ROOM_FOR_EACH = 16 * 1024
_CONSUMER = -1


class Position(NamedTuple):
    """Where to look: groups may stand at several offsets of a partition."""

    partition: TopicPartition
    offset: int


class _Found(NamedTuple):
    """What one answer said: a time (None: nothing is there), or where to look next."""

    timestamp: int | None
    next_offset: int = -1
    is_too_large: bool = False


def oldest_unread(
    cluster: Cluster, ends: Mapping[Position, int]
) -> tuple[dict[Position, int | None], dict[Position, Failure]]:
    """The timestamp of the first record from each position to its end, as `storage.lag.measure` takes it.

    None: gaps and markers only. UNKNOWN_TIMESTAMP: the broker or the batch is older than timestamps and batches of
    magic 2 (Kafka 0.11), or what was to be read has been deleted meanwhile.
    """
    found: dict[Position, int | None] = {}
    failed: dict[Position, Failure] = {}
    for wave in _waves(ends):

        def ask(client: Client, wanted: list[TopicPartition], wave: Wave = wave) -> Answers[TopicPartition, int | None]:
            return _search(client, {partition: (wave[partition], ends[_at(wave, partition)]) for partition in wanted})

        answers, lost = cluster.at_leaders(wave, ask)
        found |= {_at(wave, partition): timestamp for partition, timestamp in answers.items()}
        failed |= {_at(wave, partition): failure for partition, failure in lost.items()}
    return found, failed


Wave = Mapping[TopicPartition, int]


def _at(wave: Wave, partition: TopicPartition) -> Position:
    return Position(partition, wave[partition])


def _waves(positions: Mapping[Position, int]) -> list[dict[TopicPartition, int]]:
    """The positions such that no partition is twice in one: a request may name it once."""
    waves: list[dict[TopicPartition, int]] = []
    seen: dict[TopicPartition, int] = {}
    for partition, offset in positions:
        number = seen[partition] = seen.get(partition, -1) + 1
        if number == len(waves):
            waves.append({})
        waves[number][partition] = offset
    return waves


def _search(
    client: Client, bounds: Mapping[TopicPartition, tuple[int, int]]
) -> Iterator[tuple[TopicPartition, int | Failure | None]]:
    """For each partition, from its offset to its end; one leader. Every answer decides a partition or goes on in it."""
    try:
        version = client.version(FetchRequest, newest=_BY_NAME, oldest=_RECORD_BATCHES)
    except ClientError:
        for partition in bounds:
            yield partition, UNKNOWN_TIMESTAMP
        return
    shared = {partition: offset for partition, (offset, _) in bounds.items()}
    alone: dict[TopicPartition, int] = {}
    while shared or alone:
        asked = _some(shared) if shared else dict([alone.popitem()])
        for partition in asked:
            shared.pop(partition, None)
        for partition, row in _fetch(client, version, asked):
            found = _judge(row, asked[partition], bounds[partition][1], is_alone=len(asked) == 1)
            if isinstance(found, Failure):
                yield partition, found
            elif found.is_too_large:
                alone[partition] = asked[partition]
            elif found.next_offset >= 0:
                shared[partition] = found.next_offset
            else:
                yield partition, found.timestamp


def _some(positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    return dict(list(positions.items())[:_PARTITIONS_AT_ONCE])


def _fetch(
    client: Client, version: int, offsets: Mapping[TopicPartition, int]
) -> Iterator[tuple[TopicPartition, PartitionData]]:
    topics = [
        FetchTopic(
            topic=topic,
            partitions=[
                FetchPartition(partition=one.number, fetch_offset=offsets[one], partition_max_bytes=_ROOM_FOR_EACH)
                for one in rows
            ],
        )
        for topic, rows in by_topic(offsets).items()
    ]
    room = _ROOM_FOR_EACH * len(offsets)
    answer = client.ask(FetchRequest(replica_id=_CONSUMER, max_bytes=room, topics=topics), version)
    for topic in answer.responses:
        for row in topic.partitions:
            partition = TopicPartition(topic.topic, row.partition_index)
            if partition in offsets:
                yield partition, row


def _judge(row: PartitionData, offset: int, end: int, *, is_alone: bool) -> _Found | Failure:
    if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return _Found(UNKNOWN_TIMESTAMP)
    if row.error_code:
        return Failure.of(row.error_code)
    records = row.records if isinstance(row.records, bytes | bytearray | memoryview) else b""
    found = first_record(records, offset, end)
    if found is None:
        return _Found(None) if is_alone else _Found(None, is_too_large=True)
    return found


def first_record(records: bytes | bytearray | memoryview, offset: int, end: int) -> _Found | None:
    """The time of the first record in these batches from `offset` to before `end`, or where to look next.

    None: there is no whole batch. Records of a batch may be gone by compaction, all of them too; control batches hold
    markers, which no consumer gets; the last batch may be cut.
    """
    view = memoryview(records)
    position, next_offset = 0, -1
    while len(view) - position >= batch.HEADER_SIZE:
        try:
            header = batch.read_header(view, position)
            if header.size > len(view) - position:
                break
            if not header.is_control:
                for record in batch.iterate(view[position : position + header.size]):
                    if record.offset >= end:
                        return _Found(None)
                    if record.offset >= offset:
                        return _Found(record.timestamp)
        except KafkaError:
            return _Found(
                UNKNOWN_TIMESTAMP
            )  # of an older format, or damaged: readers will meet it, here it has no time
        position += header.size
        next_offset = header.last_offset + 1
    if next_offset <= offset:
        return None if next_offset < 0 else _Found(UNKNOWN_TIMESTAMP)  # what lies before the offset was not asked for
    return _Found(None) if next_offset >= end else _Found(None, next_offset)
