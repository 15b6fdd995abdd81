"""How far readers are behind: the lag of `headgate groups lag`, with the rate of a reader and the time left."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.positions.locations import CHECKPOINT, TABLE, Connect, WantedTopics, is_wanted, read_location
from headgate.tools.arguments import now_ms
from headgate.tools.client.cluster import Cluster, shorten_list
from headgate.tools.groups.lag import PartitionLag, lag_of_offsets
from headgate.tools.groups.offsets import READ_UNCOMMITTED, CommittedOffsets
from headgate.tools.output import Row
from headgate.tools.progress import format_duration

Rates = Mapping[TopicPartition, float]


class ReaderPosition(NamedTuple):
    """A reader by its place: its offsets, and its rate in records a second where that is known."""

    name: str
    offsets: CommittedOffsets
    rates: Mapping[TopicPartition, float] = {}


class ReaderLag(NamedTuple):
    """The lag of a reader in a partition. `seconds_left`: None if the rate is unknown or too low to end it."""

    lag: PartitionLag
    rate: float | None
    seconds_left: float | None


def measure(
    cluster: Cluster,
    readers: Sequence[ReaderPosition],
    timestamp_ms: Callable[[], int],
    isolation_level: int = READ_UNCOMMITTED,
    arrivals: Rates | None = None,
) -> tuple[list[ReaderLag], list[str]]:
    """The lag of all readers in their partitions, and sentences about failures.

    `arrivals`: new records a second by partition, as measured; 0 without a measurement.
    """
    offsets = {reader.name: reader.offsets for reader in readers}
    rows, failures = lag_of_offsets(cluster, offsets, timestamp_ms, isolation_level)
    by_name = {reader.name: reader.rates for reader in readers}
    return [_with_rate(row, by_name[row.group].get(row.partition), arrivals or {}) for row in rows], failures


def read_lag(connect: Connect, options: argparse.Namespace) -> tuple[list[ReaderLag], list[str], list[str]]:
    """The lag of all locations of the options now; failures; notes. Raises ClientError, UsageError.

    Offsets are read before the ends: a reader that goes on in between never seems to be beyond the end.
    """
    readers: list[ReaderPosition] = []
    notes: list[str] = []
    for location in options.places:
        found = read_location(location, connect, options.topic, options.group)
        readers.append(ReaderPosition(str(location), found.offsets, found.rates))
        notes += found.notes if found.offsets else [*found.notes, f"{location}: there are no offsets yet"]
    rows, failures = measure(connect(), readers, now_ms, options.isolation_level)
    for location, reader in zip(options.places, readers, strict=True):
        if location.kind in (CHECKPOINT, TABLE):
            notes += _not_met(connect(), reader, options.topic)
    return rows, failures, notes


def _not_met(cluster: Cluster, reader: ReaderPosition, topics: WantedTopics) -> list[str]:
    """A sentence about partitions that are new since the last batch or load, which have no row."""
    known = cluster.topics({partition.topic for partition in reader.offsets})
    partitions = [
        TopicPartition(name, row.partition_index) for name, topic in known.items() for row in topic.partitions
    ]
    names = [
        str(partition)
        for partition in sorted(partitions)
        if partition not in reader.offsets and is_wanted(partition, topics)
    ]
    return [f"{reader.name} has not met {shorten_list(names)}: see `headgate spark check`"] if names else []


def _with_rate(row: PartitionLag, rate: float | None, arrivals: Rates) -> ReaderLag:
    return ReaderLag(row, rate, seconds_left(row.records, rate, arrivals.get(row.partition, 0.0)))


def seconds_left(records: int | None, rate: float | None, arrival_rate: float = 0.0) -> float | None:
    """The time until a reader has read everything; None if that is unknown, or never."""
    if records == 0:
        return 0.0
    if records is None or rate is None or rate <= arrival_rate:
        return None
    return records / (rate - arrival_rate)


def to_row(reader: ReaderLag) -> Row:
    """The row of the command: the columns of `groups lag`, with rate and time left."""
    row = reader.lag
    return {
        "reader": row.group,
        "topic": row.partition.topic,
        "partition": row.partition.number,
        "committed": row.committed.offset if row.committed else None,
        "start": row.start,
        "end": row.end,
        "lag": row.records,
        "lag_seconds": row.seconds,
        "rate": reader.rate,
        "seconds_left": reader.seconds_left,
        "status": row.status,
        "leader": row.leader,
    }


def summarize(rows: Sequence[ReaderLag]) -> list[str]:
    """A sentence for each reader: all of its partitions together. The slowest partition decides about the time left."""
    names = dict.fromkeys(row.lag.group for row in rows)
    return [_summary(name, [row for row in rows if row.lag.group == name]) for name in names]


def _summary(name: str, rows: Sequence[ReaderLag]) -> str:
    records = sum(row.lag.records or 0 for row in rows)
    ages = [row.lag.seconds for row in rows if row.lag.seconds is not None]
    text = f"{name}: {records:,} records behind in {len(rows)} partitions"
    if ages:
        text += f", {max(ages):,.1f} s"
    if any(row.rate is not None for row in rows):
        times = [row.seconds_left for row in rows]
        known = [left for left in times if left is not None]
        left = f"{format_duration(max(known))} left" if len(known) == len(times) else "no end in sight"
        text += f", {sum(row.rate or 0.0 for row in rows):,.0f} records/s, {left}"
    return text
