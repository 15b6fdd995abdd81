"""Superseded segments: an earlier segment, written by a compaction, covers the same offsets.

The new segment has the name of the first old segment. Both remain if the disk keeps the rename of the new segment and
loses the renames of the other old segments, or if an old file is restored from a backup. Then only the new segment
counts: compaction has removed every record that the new segment lacks.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.protocol.records.batch import BatchHeader
from headgate.storage.segment.segment import Segment
from headgate.tools.log.listing import end_offset
from headgate.tools.log.verification import scanning


def find_superseded(segments: Sequence[Segment]) -> dict[int, Segment]:
    """Base offset of each superseded segment -> the segment that supersedes it. `segments` are in order.

    Where no segment reaches into the next one, only the ends of segments are read. Raises OSError.
    """
    found: dict[int, Segment] = {}
    for number, segment in enumerate(segments[:-1]):
        if segment.base_offset in found:
            continue
        end = end_offset([segment])
        if end is not None and end <= segments[number + 1].base_offset:
            continue
        over = _batches(segment)
        for under in segments[number + 1 :]:
            if not over or under.base_offset > over[-1].last_offset:
                break
            if supersedes(over, under.base_offset, _batches(under)):
                found[under.base_offset] = segment
    return found


def supersedes(over: Sequence[BatchHeader], base_offset: int, under: Sequence[BatchHeader]) -> bool:
    """True if the batches `over` of a segment cover another segment with `base_offset` and batches `under`. Pure.

    No checksum covers the base offset of a batch. So a single batch of `over` inside the other segment proves nothing,
    unless `under` has the same batch.
    """
    inside = [header for header in over if header.base_offset >= base_offset]
    if not inside or (under and under[-1].last_offset > inside[-1].last_offset):
        return False
    return len(inside) > 1 or any((one.base_offset, one.crc) == (inside[0].base_offset, inside[0].crc) for one in under)


def _batches(segment: Segment) -> list[BatchHeader]:
    found: list[BatchHeader] = []
    limit = scanning.limit_of(segment, None)
    scanning.scan(segment, segment.iterate(), limit, lambda position, header: found.append(header))
    segment.close()
    return found
