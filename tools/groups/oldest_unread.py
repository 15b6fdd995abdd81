"""The timestamp of the oldest unread record, the first one at or after an offset, by the cheapest exact fetch.

ListOffsets finds the offset of a time, not the time of an offset. So one batch is fetched: the batch that the group
will read next. One request names many partitions, each with a small limit: a broker sends the first batch of the first
partition whole, whatever its size (KIP-74), and the batches of the others that fit. A partition without a whole batch
is fetched again alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.lag.measurement import UNKNOWN_TIMESTAMP
from headgate.protocol.lag.oldest_unread import UnreadResult, first_record
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from headgate.protocol.topic_partition import TopicPartition, by_topic
from headgate.tools.client.client import Client, ClientError
from headgate.tools.client.cluster import Answers, Cluster
from headgate.tools.groups.offsets import CONSUMER_REPLICA_ID

_NEWEST_WITH_NAMES = 12
_OLDEST_WITH_BATCHES = 4  # the first version of Fetch with record batches, and so with timestamps
_PARTITIONS_AT_ONCE = 100
_PARTITION_MAX_BYTES = 16 * 1024


class FetchPosition(NamedTuple):
    """An offset of a partition. Groups may have committed several offsets of one partition."""

    partition: TopicPartition
    offset: int


def find_oldest_unread(
    cluster: Cluster, ends: Mapping[FetchPosition, int]
) -> tuple[dict[FetchPosition, int | None], dict[FetchPosition, Failure]]:
    """Timestamps in ms of the first record from each position to its end, for `protocol.lag.measurement.measure`; and failures.

    `ends`: position -> the end offset of its partition. Timestamp None: only gaps and markers. UNKNOWN_TIMESTAMP: the
    broker or the batch is older than Kafka 0.11 (magic 2), or retention has deleted the record meanwhile.
    """
    found: dict[FetchPosition, int | None] = {}
    failed: dict[FetchPosition, Failure] = {}
    for wave in _waves(ends):

        def ask(client: Client, wanted: list[TopicPartition], wave: Wave = wave) -> Answers[TopicPartition, int | None]:
            return _search(client, {partition: (wave[partition], ends[_at(wave, partition)]) for partition in wanted})

        answers, failures = cluster.ask_leaders(wave, ask)
        found |= {_at(wave, partition): timestamp for partition, timestamp in answers.items()}
        failed |= {_at(wave, partition): failure for partition, failure in failures.items()}
    return found, failed


Wave = Mapping[TopicPartition, int]


def _at(wave: Wave, partition: TopicPartition) -> FetchPosition:
    return FetchPosition(partition, wave[partition])


def _waves(positions: Mapping[FetchPosition, int]) -> list[dict[TopicPartition, int]]:
    """The positions in waves of distinct partitions: a request may name a partition only once."""
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
    """Search partitions of one leader; `bounds`: partition -> first offset and end.

    Every answer ends the search in a partition or moves its offset forward, so the search ends.
    """
    try:
        version = client.version(FetchRequest, newest=_NEWEST_WITH_NAMES, oldest=_OLDEST_WITH_BATCHES)
    except ClientError:
        for partition in bounds:
            yield partition, UNKNOWN_TIMESTAMP
        return
    shared = {partition: offset for partition, (offset, _) in bounds.items()}
    alone: dict[TopicPartition, int] = {}
    while shared or alone:
        asked = dict(islice(shared.items(), _PARTITIONS_AT_ONCE)) if shared else dict([alone.popitem()])
        for partition in asked:
            shared.pop(partition, None)
        for partition, row in _fetch(client, version, asked):
            result = _examine(row, asked[partition], bounds[partition][1], is_alone=len(asked) == 1)
            if isinstance(result, Failure):
                yield partition, result
            elif result.is_too_large:
                alone[partition] = asked[partition]
            elif result.next_offset >= 0:
                shared[partition] = result.next_offset
            else:
                yield partition, result.timestamp


def _fetch(
    client: Client, version: int, offsets: Mapping[TopicPartition, int]
) -> Iterator[tuple[TopicPartition, PartitionData]]:
    topics = [
        FetchTopic(
            topic=topic,
            partitions=[
                FetchPartition(
                    partition=partition.number,
                    fetch_offset=offsets[partition],
                    partition_max_bytes=_PARTITION_MAX_BYTES,
                )
                for partition in rows
            ],
        )
        for topic, rows in by_topic(offsets).items()
    ]
    max_bytes = _PARTITION_MAX_BYTES * len(offsets)
    answer = client.ask(FetchRequest(replica_id=CONSUMER_REPLICA_ID, max_bytes=max_bytes, topics=topics), version)
    for topic in answer.responses:
        for row in topic.partitions:
            partition = TopicPartition(topic.topic, row.partition_index)
            if partition in offsets:
                yield partition, row


def _examine(row: PartitionData, offset: int, end: int, *, is_alone: bool) -> UnreadResult | Failure:
    if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return UnreadResult(UNKNOWN_TIMESTAMP)
    if row.error_code:
        return Failure.of(row.error_code)
    records = row.records if isinstance(row.records, bytes | bytearray | memoryview) else b""
    result = first_record(records, offset, end)
    if result is None:
        return UnreadResult(None) if is_alone else UnreadResult(None, is_too_large=True)
    return result
