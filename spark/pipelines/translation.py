"""Committed offsets of the source as offsets of the target of a mirror.

From the nearest sync point on, the visible records before the offset are counted in the source; so many visible
records later is the same place in the target. Markers, aborted records and gaps count on neither side, so the result
is exact wherever both sides still have their records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.pipelines.sync_points import OffsetPair, SyncPoint, nearest
from headgate.spark.reading.log_reader import IsolationLevel, OffsetRange, TopicReader
from headgate.tools.groups.offsets import CommittedOffsets, OffsetAndMetadata

COMMITTED = IsolationLevel.READ_COMMITTED


class Translation(NamedTuple):
    """An offset of the target. `again`: the most records that may be read a second time; 0 if exact."""

    partition: TopicPartition
    offset: int
    again: int


def translate(
    points: Sequence[SyncPoint], partition: TopicPartition, offset: int, source: TopicReader, target: TopicReader
) -> Translation | str:
    """The place of a source offset in the target, or the reason why there is none."""
    pair = nearest(points, partition, offset)
    if pair is None:
        return f"{partition}: offset {offset} lies before the first sync point that is kept"
    if pair.source_offset == offset:
        return Translation(pair.target, pair.target_offset, 0)
    bounds = source.bounds([partition], COMMITTED)[partition]
    if bounds.start_offset > pair.source_offset or bounds.end_offset < offset:
        return Translation(pair.target, pair.target_offset, offset - pair.source_offset)
    records = count_records(source, OffsetRange(partition, pair.source_offset, offset))
    return _skip(pair, records, target)


def translate_group(
    points: Sequence[SyncPoint], offsets: CommittedOffsets, source: TopicReader, target: TopicReader
) -> tuple[CommittedOffsets, list[str]]:
    """A group's offsets in the target, and sentences about partitions that are left out or not exact.

    Topics that are not mirrored are left out without a word.
    """
    mirrored = {topic for point in points for topic in point.names}
    found: CommittedOffsets = {}
    notes = []
    for partition, row in sorted(offsets.items()):
        if partition.topic not in mirrored:
            continue
        translated = translate(points, partition, row.offset, source, target)
        if isinstance(translated, str):
            notes.append(f"{translated}; the partition is left out")
            continue
        if translated.again:
            notes.append(f"{partition}: up to {translated.again} records may be read again")
        found[translated.partition] = OffsetAndMetadata(translated.offset, -1, row.metadata)
    return found, notes


def count_records(reader: TopicReader, wanted: OffsetRange) -> int:
    """The number of visible records in a range."""
    return sum(len(offsets) for offsets in _offsets(reader, wanted))


def _skip(pair: OffsetPair, records: int, target: TopicReader) -> Translation:
    """The offset behind so many visible records of the target."""
    bounds = target.bounds([pair.target], COMMITTED)[pair.target]
    if bounds.start_offset > pair.target_offset:  # retention took records that would have to be counted
        return Translation(pair.target, bounds.start_offset, records)
    left = records
    end = pair.target_offset
    for offsets in _offsets(target, OffsetRange(pair.target, pair.target_offset, bounds.end_offset)):
        if left < len(offsets):
            return Translation(pair.target, offsets[left], 0)
        left -= len(offsets)
        end = offsets[-1] + 1
    return Translation(pair.target, end, left)


def _offsets(reader: TopicReader, wanted: OffsetRange) -> Iterable[Sequence[int]]:
    """The offsets of the visible records, batch by batch."""
    from headgate.spark.records.columns import columns

    for rows in columns(reader.read(wanted, COMMITTED), wanted, ("offset",)):
        if rows.num_rows:
            yield rows.column(0).to_pylist()
