"""Index check: whether the indexes of a segment match its batches, judged by the ends of the indexes.

The check finds damage by a kill or by hand. Only a rebuild (`indexes`) is certain.
"""

from __future__ import annotations

from headgate.protocol.errors import KafkaError
from headgate.storage.segment.batch_seek import seek
from headgate.storage.segment.index import NO_TIMESTAMP
from headgate.storage.segment.segment import Segment


def has_indexes(segment: Segment, index_interval_bytes: int, *, checks_content: bool) -> bool:
    """Whether the indexes of a sealed segment are there and not cut. `checks_content` also checks their content."""
    if not segment.size:
        return True
    if not segment.offsets.is_whole or not segment.times.is_whole:
        return False
    aborted = segment.aborted
    if aborted is not None and not (aborted.is_whole and (aborted.is_plausible or not checks_content)):
        return False
    if not segment.times.entries and segment.first_timestamp >= 0:
        return False
    if segment.offsets.entries and not checks_content:
        return True
    return _is_indexed_to_its_end(segment, index_interval_bytes)


def _is_indexed_to_its_end(segment: Segment, index_interval_bytes: int) -> bool:
    indexed = segment.offsets.last_position
    try:
        last = seek(segment, indexed, segment.size - 1)
    except KafkaError:
        return False
    return last is not None and last[0] - indexed <= index_interval_bytes


def is_untouched(segment: Segment, end_offset: int, index_interval_bytes: int) -> bool:
    """Whether the last segment is as a clean stop leaves it: the batches end at `end_offset`, the indexes are complete.

    Most partitions are idle when a broker is killed. The end of an idle segment is enough, as after a clean stop.
    """
    if not segment.size or end_offset <= segment.base_offset:
        return False
    try:
        if not has_indexes(segment, index_interval_bytes, checks_content=True):
            return False
    except KafkaError:  # the segment does not begin with a batch
        return False
    return end_of_finished(segment, end_offset) == end_offset


def end_of_finished(segment: Segment, end_offset: int) -> int | None:
    """The end offset of a sealed segment's batches; None if a part of its indexes is lost, or may be lost."""
    if segment.aborted is not None:  # the end does not show how many transactions were aborted before
        return None
    offsets, times = segment.offsets, segment.times
    # With timestamps out of order the newest record may be far from the end, and its index entry may be lost.
    known = offsets.floor(times.last_offset) if times.entries else offsets.last_position
    iterator = segment.iterate(min(known, offsets.last_position))
    newest = NO_TIMESTAMP, segment.base_offset - 1
    for _, header in iterator:
        if header.max_timestamp > newest[0]:
            newest = header.max_timestamp, header.last_offset
    # Otherwise an entry is lost, or an entry from before a truncation has reappeared.
    is_sealed = newest == (times.last_timestamp, times.last_offset) and times.last_offset < end_offset
    is_sealed = is_sealed and times.entries <= offsets.entries + 1
    is_valid = iterator.problem is None and is_sealed and offsets.is_increasing and times.is_increasing
    return iterator.next_offset if is_valid and _has_valid_ends(segment) else None


def _has_valid_ends(segment: Segment) -> bool:
    """Whether the first entries of both indexes, and the last entry of the offset index, match the batches.

    A crash may leave zeros for a part of the first entry. The check for increasing entries finds zeros in later
    entries. At the end, entries from before a truncation may have reappeared.
    """
    offsets, times = segment.offsets, segment.times
    if not offsets.entries:
        return True  # then the time index has at most one entry, which the caller has checked
    if not all(_is_valid(segment, *entry) for entry in (offsets.first(), offsets.last())):
        return False
    newest, first = (NO_TIMESTAMP, 0), offsets.first()[0]
    for _, header in segment.iterate():
        if header.max_timestamp > newest[0]:
            newest = header.max_timestamp, header.last_offset - segment.base_offset
        if header.last_offset - segment.base_offset >= first:
            break
    return newest[0] == NO_TIMESTAMP or (times.entries > 0 and times.first() == newest)


def _is_valid(segment: Segment, last_offset: int, position: int) -> bool:
    try:
        bounds = seek(segment, position, position)
    except KafkaError:
        return False
    return bounds is not None and (bounds[0], bounds[3]) == (position, segment.base_offset + last_offset)
