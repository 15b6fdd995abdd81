"""`headgate spark replay`: the records of a topic between two times into a topic, once by the name of the replay.

The first run fixes the offsets: those between the first record at or after each time, as ListOffsets finds them, or
the end of the partition. Every later run under the name goes on from the last batch, and finds nothing to do behind the
last offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.pipelines.copy_plan import (
    CopiedOffsets,
    CopyIdentity,
    CopyState,
    ends_of,
    next_batch,
    next_ranges,
    resume,
)
from headgate.spark.pipelines.copying import Copier, describe
from headgate.spark.reading.log_reader import IsolationLevel, OffsetRange, TopicReader
from headgate.spark.sink.marker import SinkMarker
from headgate.tools.output import Row, UsageError

COMMITTED = IsolationLevel.READ_COMMITTED


@dataclass(frozen=True)
class Replay:
    """The records to replay. `from_ms`, `to_ms`: times in ms; None: the start, and the end at the first run."""

    name: str
    topic: str
    target: str
    from_ms: int | None
    to_ms: int | None
    keeps_partitions: bool
    most_offsets: int

    def identity(self) -> CopyIdentity:
        source = {
            "topic": self.topic,
            "target": self.target,
            "from_ms": self.from_ms,
            "to_ms": self.to_ms,
            "partitions": "keep" if self.keeps_partitions else "key",
        }
        return CopyIdentity("replay", source)


def plan(replay: Replay, reader: TopicReader) -> tuple[CopiedOffsets, CopiedOffsets]:
    """(first offset, end offset) of each partition. Raises UsageError, LogUnavailable."""
    topic = reader.topics().get(replay.topic)
    if topic is None:
        raise UsageError(f"there is no topic {replay.topic}; `headgate topics list` shows all")
    partitions = [TopicPartition(replay.topic, number) for number in topic.partitions]
    bounds = reader.bounds(partitions, COMMITTED)
    starts = _at(
        reader,
        {partition: bounds[partition].start_offset for partition in partitions},
        replay.from_ms,
        bounds_end(bounds),
    )
    ends = _at(reader, bounds_end(bounds), replay.to_ms, bounds_end(bounds))
    clipped = {
        partition: min(max(starts[partition], bounds[partition].start_offset), bounds[partition].end_offset)
        for partition in partitions
    }
    return clipped, {
        partition: max(clipped[partition], min(ends[partition], bounds[partition].end_offset))
        for partition in partitions
    }


def bounds_end(bounds: Any) -> dict[TopicPartition, int]:
    return {partition: partition_bounds.end_offset for partition, partition_bounds in bounds.items()}


def _at(
    reader: TopicReader, default: CopiedOffsets, time_ms: int | None, without: CopiedOffsets
) -> dict[TopicPartition, int]:
    """The offsets of a time; `without`: where no record is as new; `default`: without a time."""
    if time_ms is None:
        return dict(default)
    found = reader.offsets_for_times(dict.fromkeys(default, time_ms))
    return {
        partition: offset if (offset := found.get(partition)) is not None else without[partition]
        for partition in default
    }


def run(
    replay: Replay,
    reader: TopicReader,
    marker: SinkMarker | None,
    open_copier: Callable[[], Copier],
) -> Iterator[Row]:
    """A row for each batch. Raises UsageError, SinkRefused, SinkFailed. The copier is opened if there is work."""
    state, identity = resume(marker), replay.identity()
    fixed = ends_of(replay.name, identity, marker) if marker is not None else None
    if fixed is None:
        positions, ends = plan(replay, reader)
        state = CopyState(0, positions)
    else:
        ends = fixed
        _check_not_lost(state.positions, ends, reader)
    identity = identity._replace(ends=ends)
    copier: Copier | None = None
    while ranges := next_ranges(state.positions, ends, replay.most_offsets):
        copier = copier or open_copier()
        batch = next_batch(identity, state, ranges)
        outcome = copier.copy(ranges, batch)
        yield describe(state, outcome)
        state = advance(state, ranges)


def advance(state: CopyState, ranges: list[OffsetRange]) -> CopyState:
    return CopyState(
        state.next_batch + 1, {**state.positions, **{wanted.partition: wanted.end_offset for wanted in ranges}}
    )


def _check_not_lost(positions: CopiedOffsets, ends: CopiedOffsets, reader: TopicReader) -> None:
    """Raise UsageError if records between the positions and the ends are gone."""
    left = [partition for partition, end in ends.items() if positions.get(partition, 0) < end]
    for partition, bounds in reader.bounds(left, COMMITTED).items():
        position = positions[partition]
        if position < bounds.start_offset or ends[partition] > bounds.end_offset:
            raise UsageError(
                f"{partition}: the replay needs the offsets {position} to {ends[partition] - 1}, and the partition has "
                f"{bounds.start_offset} to {bounds.end_offset - 1}: retention took them, or the topic was made anew"
            )
