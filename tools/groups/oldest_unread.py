"""The timestamp of the oldest unread record, the first one at or after an offset, by the cheapest exact fetch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.lag.measurement import UNKNOWN_TIMESTAMP
from headgate.protocol.lag.oldest_unread import PARTITION_MAX_BYTES, UnreadSearch
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from headgate.protocol.topic_partition import TopicPartition, by_topic
from headgate.tools.client.client import Client, ClientError
from headgate.tools.client.cluster import Answers, Cluster
from headgate.tools.groups.offsets import CONSUMER_REPLICA_ID

_NEWEST_WITH_NAMES = 12
_OLDEST_WITH_BATCHES = 4  # the first version of Fetch with record batches, and so with timestamps


class FetchPosition(NamedTuple):
    """An offset of a partition. Groups may have committed several offsets of one partition."""

    partition: TopicPartition
    offset: int


def find_oldest_unread(
    cluster: Cluster, ends: Mapping[FetchPosition, int]
) -> tuple[dict[FetchPosition, int | None], dict[FetchPosition, Failure]]:
    """Timestamps in ms of the first record from each position to its end; and failures by position.

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
    """Search partitions of one leader; `bounds`: partition -> first offset and end."""
    try:
        version = client.version(FetchRequest, newest=_NEWEST_WITH_NAMES, oldest=_OLDEST_WITH_BATCHES)
    except ClientError:
        for partition in bounds:
            yield partition, UNKNOWN_TIMESTAMP
        return
    search = UnreadSearch(bounds)
    while asked := search.next_fetch():
        for partition, row in _fetch(client, version, asked):
            if row.error_code not in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
                yield partition, Failure.of(row.error_code)
                continue
            result = search.examine(partition, row.error_code, row.records)
            if result is not None:
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
                    partition_max_bytes=PARTITION_MAX_BYTES,
                )
                for partition in rows
            ],
        )
        for topic, rows in by_topic(offsets).items()
    ]
    max_bytes = PARTITION_MAX_BYTES * len(offsets)
    answer = client.ask(FetchRequest(replica_id=CONSUMER_REPLICA_ID, max_bytes=max_bytes, topics=topics), version)
    for topic in answer.responses:
        for row in topic.partitions:
            partition = TopicPartition(topic.topic, row.partition_index)
            if partition in offsets:
                yield partition, row
