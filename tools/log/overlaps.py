"""Segments of which a segment before them holds the same offsets: a compaction left them.

The new segment has the name of the first old one. Where a disk loses the renames of the other old ones and keeps those
of the new one, or somebody brings an old file back from a copy, both are there, and only the new one counts: what it
has not was compacted away.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.protocol.records.batch import BatchHeader
from headgate.storage.segment.segment import Segment
from headgate.tools.log import scanning
from headgate.tools.log.listing import end_offset


def covered(segments: Sequence[Segment]) -> dict[int, Segment]:
    """The base offset of each segment that is covered by one before it -> that one. `segments` are in order.

    Only ends are read where none reaches into the next one. Raises OSError.
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
            if is_covered(over, under.base_offset, _batches(under)):
                found[under.base_offset] = segment
    return found


def is_covered(over: Sequence[BatchHeader], base_offset: int, under: Sequence[BatchHeader]) -> bool:
    """Whether the batches of a segment reach over another one's, from its `base_offset` to its end. Pure.

    No checksum covers the base offset of a batch. A single one that seems to belong into the other segment says
    nothing, unless it is there too.
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
