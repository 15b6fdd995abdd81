"""A segment from end to end, past what is damaged: every sound batch, and the bytes that are none.

Behind a fault the next batch is where the header of the damaged one says, or else at the first place at which there is
a whole batch with the right checksum and an offset that may come there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from headgate.protocol.records.batch import LOG_OVERHEAD, BatchHeader
from headgate.storage.segment.batch_iterator import BatchIterator
from headgate.storage.segment.index import MAX_RELATIVE_OFFSET
from headgate.storage.segment.segment import Segment

_WINDOW_BYTES = 1 << 20
_OFFSET_BYTES, _MAGIC_AT = 8, 16

Visit = Callable[[int, BatchHeader], None]


class Bad(NamedTuple):
    """Bytes from `start` to `end` that are no batches. Lost are the offsets from `first_offset` to `next_offset` - 1.

    `next_offset` is that of the sound batch behind them; None if there is none in the segment. `end_offset` is behind
    the last of them where they are batches, which only belong elsewhere; else None.
    """

    start: int
    end: int
    first_offset: int
    next_offset: int | None
    problem: str
    end_offset: int | None = None


def scan(segment: Segment, first: BatchIterator, limit_offset: int, visit: Visit) -> list[Bad]:
    """Go through a segment, from the walk `first` on; every checksum is looked at. What is bad, in order.

    Offsets from `limit_offset` on are another segment's. Raises OSError.
    """
    found: list[Bad] = []
    walk = first
    while True:
        position, expected, problem = _go(segment, walk, limit_offset, visit)
        if problem is None:
            return found
        good = _next_good(segment, position, expected, limit_offset)
        if good is None:
            first_offset, behind = _moved(segment, position, expected)
            found.append(Bad(position, segment.size, first_offset, None, problem, behind))
            return found
        end, offset = good
        found.append(Bad(position, end, expected, offset, problem))
        walk = segment.iterate(end)
        walk.next_offset = expected


def _go(segment: Segment, walk: BatchIterator, limit_offset: int, visit: Visit) -> tuple[int, int, str | None]:
    """Walk as far as it goes: where it ends, which offset would come there, and what is wrong with what does.

    The base offset of a batch is the one thing that no checksum covers. One that is too high shows in the next batch,
    which then seems to go back; so a batch is taken for sound when the next one is known, or when it begins exactly
    where the one before ends: then it is the next one whose offset is wrong.
    """
    walk.check_crc_from = 0
    expected = walk.next_offset
    last: tuple[int, BatchHeader] | None = None
    for position, header in walk:
        if header.last_offset >= limit_offset:
            break
        if last is not None:
            visit(*last)
            expected = last[1].last_offset + 1
        last = position, header
    else:
        may_be_wrong = last is not None and walk.problem is not None and last[1].base_offset > expected
        if last is not None and may_be_wrong and _goes_back_to(segment, walk, expected):
            return last[0], expected, f"its offset {last[1].base_offset} is not before that of the batch behind it"
        if last is not None:
            visit(*last)
        return walk.position, walk.next_offset, walk.problem
    if last is not None:
        visit(*last)
        expected = last[1].last_offset + 1
    return walk.position, expected, f"offset {header.last_offset} belongs to the next segment, from {limit_offset} on"


def _goes_back_to(segment: Segment, walk: BatchIterator, expected: int) -> bool:
    """Whether the batch at which a walk ended is sound, and follows the one before the last."""
    again = segment.iterate(walk.position)
    again.next_offset, again.check_crc_from = expected, 0
    return next((header.base_offset < walk.next_offset for _, header in again), False)


def _moved(segment: Segment, position: int, expected: int) -> tuple[int, int | None]:
    """The offsets of the batches from there to the end: the first, and the one behind the last, or None.

    Of a single batch the offset may be what is damaged: then all offsets are lost that should be there.
    """
    walk = segment.iterate(position)
    walk.next_offset, walk.check_crc_from = expected, 0
    first, *others = [header.base_offset for _, header in walk] or [expected]
    return (first, walk.next_offset) if others and walk.problem is None else (expected, None)


def limit_of(segment: Segment, following: Segment | None, end_offset: int | None = None) -> int:
    """The first offset that cannot be in a segment; `end_offset`: where the log ends, if that is known."""
    if following is not None:
        return following.base_offset
    return segment.base_offset + MAX_RELATIVE_OFFSET + 1 if end_offset is None else end_offset


def _next_good(segment: Segment, position: int, next_offset: int, limit_offset: int) -> tuple[int, int] | None:
    """Where the next sound batch begins, and with which offset.

    That is where the length of the damaged one leads, if there is one; or one before that from which batches lead
    there, for the length may be what is damaged. Other batches before it are some that a record holds.
    """
    head = segment.file.read_at(LOG_OVERHEAD, position)
    hop = position + LOG_OVERHEAD + int.from_bytes(head[_OFFSET_BYTES:], "big", signed=True)
    offset = _sound_at(segment, hop, next_offset, limit_offset) if position < hop < segment.size else None
    end = segment.size if offset is None else hop
    for candidate in _candidates(segment, position + 1, end, _pattern(next_offset, limit_offset)):
        found = _sound_at(segment, candidate, next_offset, limit_offset)
        if found is not None and (offset is None or _leads_to(segment, candidate, hop)):
            return candidate, found
    return None if offset is None else (hop, offset)


def _sound_at(segment: Segment, position: int, next_offset: int, limit_offset: int) -> int | None:
    """The base offset of the batch at a position; None if there is none that may be there."""
    walk = segment.iterate(position)
    walk.next_offset, walk.check_crc_from = next_offset, 0
    header = next((header for _, header in walk), None)
    return None if header is None or header.last_offset >= limit_offset else header.base_offset


def _leads_to(segment: Segment, position: int, end: int) -> bool:
    """Whether sound batches, one behind the other, go from one position to another."""
    walk = segment.iterate(position)
    walk.check_crc_from = 0
    return any(start >= end for start, _ in walk) and walk.position == end


def _candidates(segment: Segment, start: int, end: int, pattern: re.Pattern[bytes]) -> Iterator[int]:
    """Places that may be a batch's beginning: offset, size and magic are such as it could have."""
    while start < end:
        window = segment.file.read_at(_WINDOW_BYTES + _MAGIC_AT, start)
        for found in pattern.finditer(window):
            candidate = start + found.start()
            size = int.from_bytes(window[found.start() + _OFFSET_BYTES : found.start() + LOG_OVERHEAD], "big")
            if found.start() < _WINDOW_BYTES and candidate < end and candidate + LOG_OVERHEAD + size <= segment.size:
                yield candidate
        start += _WINDOW_BYTES


def _pattern(next_offset: int, limit_offset: int) -> re.Pattern[bytes]:
    """An offset that begins as all in the range do, a size that is not nothing, anything for 4 bytes, a magic."""
    ends = [offset.to_bytes(_OFFSET_BYTES, "big") for offset in (next_offset, max(next_offset, limit_offset - 1))]
    same = next((count for count in range(_OFFSET_BYTES) if ends[0][count] != ends[1][count]), _OFFSET_BYTES)
    rest = b".{%d}" % (_OFFSET_BYTES - same)
    return re.compile(
        b"(?=" + re.escape(ends[0][:same]) + rest + rb"(?!\x00{4})[\x00-\x7f].{3}.{4}[\x00-\x02])", re.DOTALL
    )
