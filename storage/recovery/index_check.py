"""Whether the indexes of a segment are what its batches make of them, as far as a look at their ends tells.

What a kill or someone's hand did to them is seen so; whoever wants to be sure makes them again (`indexes`).
"""

from __future__ import annotations

from headgate.protocol.errors import KafkaError
from headgate.storage.segment.batch_seek import seek
from headgate.storage.segment.index import NO_TIMESTAMP
from headgate.storage.segment.segment import Segment


def has_indexes(segment: Segment, index_interval_bytes: int, *, look_into_them: bool) -> bool:
    """Whether the indexes of a sealed segment may be what their names say; lost or cut ones are not."""
    if not segment.size:
        return True
    if not segment.offsets.is_whole or not segment.times.is_whole:
        return False
    aborted = segment.aborted
    if aborted is not None and not (aborted.is_whole and (aborted.is_sound or not look_into_them)):
        return False
    if not segment.times.entries and segment.first_timestamp >= 0:
        return False
    if segment.offsets.entries and not look_into_them:
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
    """Whether a last segment is as a clean stop left it: its batches end at `end_offset`, and its indexes are finished.

    Most partitions are idle when a broker is killed. Looking at the end of such a one is enough, as after a clean stop.
    """
    if not segment.size or end_offset <= segment.base_offset:
        return False
    try:
        if not has_indexes(segment, index_interval_bytes, look_into_them=True):
            return False
    except KafkaError:  # it does not begin with a batch
        return False
    return end_of_finished(segment, end_offset) == end_offset


def end_of_finished(segment: Segment, end_offset: int) -> int | None:
    """Where the batches of a sealed segment end; None if a part of its indexes was, or may have been, lost."""
    if segment.aborted is not None:  # nothing at the end tells how many transactions were aborted before
        return None
    offsets, times = segment.offsets, segment.times
    # Records out of order: the newest may be far from the end, and the entry that tells of it be lost.
    known = offsets.floor(times.last_offset) if times.entries else offsets.last_position
    iterator = segment.iterate(min(known, offsets.last_position))
    newest = NO_TIMESTAMP, segment.base_offset - 1
    for _, header in iterator:
        if header.max_timestamp > newest[0]:
            newest = header.max_timestamp, header.last_offset
    # Else an entry is lost, or one that was there before a cut is back.
    is_sealed = newest == (times.last_timestamp, times.last_offset) and times.last_offset < end_offset
    is_sealed = is_sealed and times.entries <= offsets.entries + 1
    is_sound = iterator.problem is None and is_sealed and offsets.is_increasing and times.is_increasing
    return iterator.next_offset if is_sound and _has_sound_ends(segment) else None


def _has_sound_ends(segment: Segment) -> bool:
    """Whether the first entries of both indexes, and the last one of offsets, are what the batches make of them.

    Zeros may stand for a part of the first; in any other a zero is less than the entry before, or would have to fall
    between two entries. What was there before a cut may be back at the end.
    """
    offsets, times = segment.offsets, segment.times
    if not offsets.entries:
        return True  # then there is one of times at most, and that was looked at
    if not all(_is_sound(segment, *entry) for entry in (offsets.first(), offsets.last())):
        return False
    newest, first = (NO_TIMESTAMP, 0), offsets.first()[0]
    for _, header in segment.iterate():
        if header.max_timestamp > newest[0]:
            newest = header.max_timestamp, header.last_offset - segment.base_offset
        if header.last_offset - segment.base_offset >= first:
            break
    return newest[0] == NO_TIMESTAMP or (times.entries > 0 and times.first() == newest)


def _is_sound(segment: Segment, last_offset: int, position: int) -> bool:
    try:
        bounds = seek(segment, position, position)
    except KafkaError:
        return False
    return bounds is not None and (bounds[0], bounds[3]) == (position, segment.base_offset + last_offset)
