"""The plan of a load, as pure decisions: which offsets of each partition, and in which ranges.

A load takes the offsets after the last loaded one. With times, it takes the offsets between them that the folder lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.load.output.documents import Manifest
from headgate.spark.load.output.intervals import Interval, Intervals, difference, split, union
from headgate.spark.reading.log_reader import Bounds, OffsetRange

FEWEST_OFFSETS = 50_000
"""A smaller range is not split: the start of a task costs more."""


class LoadRefused(Exception):
    """The load would be wrong; the text names the topic, the reason and what to do."""


class TaskFailed(Exception):
    """A task of a load failed, perhaps in another process; the text is the text of the task's error."""


class LoadLimits(NamedTuple):
    """The ends of a load in one partition; None: from the last loaded offset, to the end of the partition."""

    from_offset: int | None = None
    to_offset: int | None = None


class PartitionPlan(NamedTuple):
    """The offsets to read of one partition, and the lost ones."""

    wanted: Intervals
    lost: Intervals


def decide(partition: TopicPartition, bounds: Bounds, covered: Intervals, limits: LoadLimits) -> PartitionPlan:
    """The offsets to read of a partition. Raises LoadRefused for a partition that ends before the folder's records."""
    loaded_to = covered[-1].end_offset if covered else bounds.start_offset
    if covered and loaded_to > bounds.end_offset:
        raise LoadRefused(
            f"{partition} ends before offset {bounds.end_offset}, but the folder has its records up to "
            f"{loaded_to - 1}: the topic was made anew, or has lost records; load into another folder"
        )
    start = loaded_to if limits.from_offset is None else limits.from_offset
    end = bounds.end_offset if limits.to_offset is None else min(limits.to_offset, bounds.end_offset)
    missing = difference(Interval(start, end), covered)
    available = Interval(bounds.start_offset, bounds.end_offset)
    wanted = [_overlap(interval, available) for interval in missing]
    lost = [_overlap(interval, Interval(0, bounds.start_offset)) for interval in missing]
    return PartitionPlan(union(wanted), union(lost))


def _overlap(interval: Interval, other: Interval) -> Interval:
    return Interval(max(interval.start_offset, other.start_offset), min(interval.end_offset, other.end_offset))


def split_ranges(wanted: Mapping[TopicPartition, Intervals], slots: int, most_offsets: int) -> list[OffsetRange]:
    """Ranges for tasks: enough for all task slots, none of more than `most_offsets`, the largest first."""
    total = sum(interval.size for intervals in wanted.values() for interval in intervals)
    most = max(1, min(most_offsets, max(FEWEST_OFFSETS, -(-total // max(1, slots)))))
    ranges = [
        OffsetRange(partition, *piece)
        for partition, intervals in sorted(wanted.items())
        for interval in intervals
        for piece in split(interval, most)
    ]
    return sorted(ranges, key=lambda interval: interval.start_offset - interval.end_offset)


def to_ranges(intervals: Mapping[TopicPartition, Intervals]) -> list[OffsetRange]:
    return [OffsetRange(partition, *interval) for partition, found in sorted(intervals.items()) for interval in found]


def check_topic_ids(before: Manifest | None, now: Mapping[str, str | None]) -> None:
    """Raise LoadRefused if a topic of the folder was deleted and created again since."""
    for name, topic_id in now.items():
        known = before.topic_ids.get(name) if before else None
        if known is not None and topic_id is not None and known != topic_id:
            raise LoadRefused(
                f"topic {name} was deleted and made anew since the last load (its id was {known}, now it is "
                f"{topic_id}): its offsets begin again; load the new topic into another folder"
            )


def refuse_losses(lost: Iterable[OffsetRange]) -> None:
    """Raise LoadRefused if retention took offsets that the folder lacks."""
    texts = [f"{interval.partition} from {interval.start_offset} to {interval.end_offset - 1}" for interval in lost]
    if texts:
        raise LoadRefused(
            f"retention or DeleteRecords took offsets that were not loaded: {'; '.join(texts)}. Nothing is loaded; "
            "with --fail-on-data-loss false the load goes on and names these offsets as deleted"
        )
