"""The plan of a batch: which offsets of which partitions are read, and by how many tasks. Pure but for the reader."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from math import floor
from typing import Final, NamedTuple

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.reading.log_reader import Bounds, OffsetRange, TopicDescription, TopicReader
from headgate.spark.source.options import ReadOptions, Subscription
from headgate.spark.source.positions import EARLIEST, LATEST, AtOffsets, AtTime, AtTimes, Edge, Offsets, Position
from headgate.spark.source.pushed_filters import PushedFilters
from headgate.tools.client.cluster import shorten_list
from headgate.tools.output import UsageError

INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__headgate_census"}
)

DATA_LOSS: Final = (
    "Some data may have been lost because they are not available in Kafka any more: retention or DeleteRecords took "
    "them, or the topic was deleted or made anew. Set failOnDataLoss to false to go on without them"
)


class DataLost(Exception):
    """Records that a query must read are gone; the text says which. `failOnDataLoss` decides whether that ends it."""


class RangeTask(NamedTuple):
    """The offsets of one task.

    `is_from_start`: the range begins at the log start, which may move on meanwhile. `topic_id`: the topic that the
    plan saw; None if nothing knows ids.
    """

    wanted: OffsetRange
    is_from_start: bool = False
    topic_id: bytes | None = None


Report = Callable[[str], None]
"""Reports lost records: raises DataLost, or logs a warning."""


def assigned_partitions(topics: Mapping[str, TopicDescription], subscription: Subscription) -> list[TopicPartition]:
    """The partitions of a subscription, in order. Raises UsageError for one that does not exist."""
    if subscription.pattern is not None:
        pattern = re.compile(subscription.pattern)
        names = [name for name in topics if name not in INTERNAL_TOPICS and pattern.search(name)]
        return sorted(TopicPartition(name, number) for name in names for number in topics[name].partitions)
    wanted = subscription.topics or sorted({partition.topic for partition in subscription.partitions})
    if missing := [name for name in wanted if name not in topics]:
        raise UsageError(f"there is no topic {shorten_list(missing)}; `headgate topics list` shows all")
    known = [TopicPartition(name, number) for name in wanted for number in topics[name].partitions]
    if not subscription.partitions:
        return sorted(known)
    if absent := sorted(set(subscription.partitions) - set(known)):
        raise UsageError(f"assign: there is no partition {shorten_list([str(partition) for partition in absent])}")
    return sorted(subscription.partitions)


def resolve(
    position: Position,
    bounds: Mapping[TopicPartition, Bounds],
    reader: TopicReader,
    option: str,
    *,
    fails_without_time: bool = False,
) -> dict[TopicPartition, int]:
    """The offset of each partition of `bounds`. `option` names the position in errors. Raises UsageError."""
    match position:
        case Edge.EARLIEST:
            return {partition: partition_bounds.start_offset for partition, partition_bounds in bounds.items()}
        case Edge.LATEST:
            return {partition: partition_bounds.end_offset for partition, partition_bounds in bounds.items()}
        case AtOffsets(offsets):
            _check_partitions(option, offsets, bounds)
            return {
                partition: _offset(offsets[partition], partition_bounds)
                for partition, partition_bounds in bounds.items()
            }
        case AtTime(time_ms):
            times = dict.fromkeys(bounds, time_ms)
        case AtTimes(times_ms):
            _check_partitions(option, times_ms, bounds)
            times = dict(times_ms)
    return _resolve_times(times, bounds, reader, option, fails_without_time=fails_without_time)


def _resolve_times(
    times: Mapping[TopicPartition, int],
    bounds: Mapping[TopicPartition, Bounds],
    reader: TopicReader,
    option: str,
    *,
    fails_without_time: bool,
) -> dict[TopicPartition, int]:
    """The first offset at or after each time; the end where no record that can be read is that new."""
    found = reader.offsets_for_times(times)
    resolved = {}
    for partition, partition_bounds in bounds.items():
        offset = found.get(partition)
        if offset is not None and offset < partition_bounds.end_offset:
            resolved[partition] = offset
        elif fails_without_time:
            raise UsageError(
                f"{option}: no record of {partition} is at or after {times[partition]} ms; "
                f"startingOffsetsByTimestampStrategy=latest starts at the end there"
            )
        else:
            resolved[partition] = partition_bounds.end_offset
    return resolved


def _check_partitions(option: str, given: Iterable[TopicPartition], bounds: Iterable[TopicPartition]) -> None:
    named, assigned = set(given), set(bounds)
    if named == assigned:
        return
    texts = []
    for names, text in ((assigned - named, "lacks"), (named - assigned, "has, and the query does not read,")):
        if names:
            texts.append(f"{text} {shorten_list([str(partition) for partition in sorted(names)])}")
    raise UsageError(f"{option} must name every partition (-1 is latest, -2 earliest): it {' and '.join(texts)}")


def _offset(offset: int, bounds: Bounds) -> int:
    return {EARLIEST: bounds.start_offset, LATEST: bounds.end_offset}.get(offset, offset)


def plan_batch(reader: TopicReader, options: ReadOptions, filters: PushedFilters, report: Report) -> list[RangeTask]:
    """The tasks of a batch. Raises UsageError, LogUnavailable, and DataLost by `report`."""
    topics = reader.topics()
    partitions = assigned_partitions(topics, options.subscription)
    bounds = reader.bounds(partitions, options.isolation)
    start = options.start or Edge.EARLIEST
    first = resolve(start, bounds, reader, "startingOffsets", fails_without_time=options.fails_without_time)
    last = resolve(options.end, bounds, reader, "endingOffsets")
    tasks = []
    for partition in partitions:
        task = _plan_partition(OffsetRange(partition, first[partition], last[partition]), bounds[partition], report)
        if filters.keeps(partition):
            topic_id = topics[partition.topic].topic_id
            tasks.append(task._replace(wanted=filters.narrow(task.wanted), topic_id=topic_id))
    return split(tasks, options.min_partitions, options.max_records_per_partition)


def _plan_partition(wanted: OffsetRange, bounds: Bounds, report: Report) -> RangeTask:
    """The part of a range that exists; what does not is reported."""
    first, last = wanted.start_offset, wanted.end_offset
    if first < bounds.start_offset:
        gone = min(last, bounds.start_offset)
        if gone > first:
            report(f"{wanted.partition}: the offsets {first} to {gone - 1} are gone. {DATA_LOSS}")
        first = bounds.start_offset
    if max(first, last) > bounds.end_offset:
        report(
            f"{wanted.partition}: the offsets {wanted.start_offset} to {last} are asked for, the partition ends at "
            f"{bounds.end_offset}. {DATA_LOSS}"
        )
        last = bounds.end_offset
    elif first > last > bounds.start_offset:
        raise UsageError(f"{wanted.partition}: the start, {first}, is behind the end, {last}")
    return RangeTask(OffsetRange(wanted.partition, first, last), is_from_start=first == bounds.start_offset)


def split(tasks: Sequence[RangeTask], least: int | None, most_records: int | None) -> list[RangeTask]:
    """Split large ranges: into at most `most_records` offsets each, then until there are about `least` tasks.

    As in `kafka`, a partition with a small share of all offsets stays whole. Empty ranges are dropped.
    """
    tasks = [task for task in tasks if size(task.wanted) > 0]
    if most_records:
        tasks = [part for task in tasks for part in cut(task, -(-size(task.wanted) // most_records))]
    if not least or len(tasks) >= least:
        return tasks
    total = sum(size(task.wanted) for task in tasks)
    whole = [task for task in tasks if _share(task, total, least) == 1]
    left = total - sum(size(task.wanted) for task in whole)
    wanted = max(least - len(whole), 1)
    return [part for task in tasks for part in cut(task, 1 if task in whole else _share(task, left, wanted))]


def size(wanted: OffsetRange) -> int:
    """The number of offsets of a range; compaction and markers may leave fewer records."""
    return wanted.end_offset - wanted.start_offset


def _share(task: RangeTask, total: int, tasks: int) -> int:
    return max(floor(size(task.wanted) / total * tasks + 0.5), 1)


def cut(task: RangeTask, count: int) -> list[RangeTask]:
    """A range in `count` parts of nearly the same size, in order; fewer if it has fewer offsets."""
    wanted, count = task.wanted, min(count, size(task.wanted))
    edges = [wanted.start_offset + size(wanted) * number // count for number in range(count + 1)]
    return [
        RangeTask(OffsetRange(wanted.partition, first, last), task.is_from_start and number == 0, task.topic_id)
        for number, (first, last) in enumerate(pairwise(edges))
    ]


def end_offsets(
    reader: TopicReader, partitions: Sequence[TopicPartition], options: ReadOptions
) -> dict[TopicPartition, int]:
    """The end of each partition, exclusive, for the isolation level of the options."""
    bounds = reader.bounds(partitions, options.isolation)
    return {partition: bounds[partition].end_offset for partition in partitions}


def share_limit(first: Offsets, last: Offsets, limit: int) -> dict[TopicPartition, int]:
    """An end for each partition of `last` so that the ranges together have about `limit` offsets.

    Each partition gets its share of what there is to read, and at least one offset: no small partition starves. As in
    `kafka`, this can exceed the limit by less than one offset for each partition.
    """
    sizes = {partition: end - first[partition] for partition, end in last.items() if end > first[partition]}
    total = sum(sizes.values())
    if total <= limit:
        return dict(last)
    return {
        partition: min(end, first[partition] + max(limit * sizes[partition] // total, 1)) if partition in sizes else end
        for partition, end in last.items()
    }
