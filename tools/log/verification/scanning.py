"""Scan a segment from end to end, past damage: every valid batch, and the ranges of bytes that are no batches.

Behind damage the scan goes on at the position in the length of the damaged batch, or else at the first position with a
whole batch, a right checksum and a plausible offset.
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


class DamagedRange(NamedTuple):
    """Bytes from `start` to before `end` that are no valid batches. Lost: offsets `first_offset` to `next_offset` - 1.

    `next_offset`: the offset of the valid batch after the range; None if the segment has none. `end_offset`: the
    offset after the last batch of the range if these are batches of another segment, else None.
    """

    start: int
    end: int
    first_offset: int
    next_offset: int | None
    problem: str
    end_offset: int | None = None


def scan(segment: Segment, first: BatchIterator, limit_offset: int, visit: Visit) -> list[DamagedRange]:
    """Visit every valid batch of a segment and check every checksum. Returns the damaged ranges in order.

    `first`: the iterator to begin with. Offsets from `limit_offset` on belong to another segment. Raises OSError.
    """
    found: list[DamagedRange] = []
    walk = first
    while True:
        position, expected, problem = _visit_valid(segment, walk, limit_offset, visit)
        if problem is None:
            return found
        valid = _next_valid(segment, position, expected, limit_offset)
        if valid is None:
            first_offset, behind = _misplaced_batches(segment, position, expected)
            found.append(DamagedRange(position, segment.size, first_offset, None, problem, behind))
            return found
        end, offset = valid
        found.append(DamagedRange(position, end, expected, offset, problem))
        walk = segment.iterate(end)
        walk.next_offset = expected


def _visit_valid(segment: Segment, walk: BatchIterator, limit_offset: int, visit: Visit) -> tuple[int, int, str | None]:
    """Visit valid batches up to the first problem. Returns its position, the offset expected there, and the problem.

    No checksum covers the base offset of a batch. A too high one shows only in the next batch, whose offset then seems
    to go back. So a batch counts as valid when the next one is valid too, or when it begins exactly at the expected
    offset: in this case the offset of the next batch is wrong.
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
            return last[0], expected, f"its offset {last[1].base_offset} is not below the offset of the next batch"
        if last is not None:
            visit(*last)
        return walk.position, walk.next_offset, walk.problem
    if last is not None:
        visit(*last)
        expected = last[1].last_offset + 1
    return walk.position, expected, f"offset {header.last_offset} belongs to the next segment, from {limit_offset} on"


def _goes_back_to(segment: Segment, walk: BatchIterator, expected: int) -> bool:
    """True if the batch at the end of a walk is valid and continues the last batch but one."""
    again = segment.iterate(walk.position)
    again.next_offset, again.check_crc_from = expected, 0
    return next((header.base_offset < walk.next_offset for _, header in again), False)


def _misplaced_batches(segment: Segment, position: int, expected: int) -> tuple[int, int | None]:
    """First offset and end offset of the batches from a position to the end of the segment.

    For a single batch the damage may be in its offset: then the result is `expected` and None, as all offsets are lost.
    """
    walk = segment.iterate(position)
    walk.next_offset, walk.check_crc_from = expected, 0
    first, *others = [header.base_offset for _, header in walk] or [expected]
    return (first, walk.next_offset) if others and walk.problem is None else (expected, None)


def limit_of(segment: Segment, following: Segment | None, end_offset: int | None = None) -> int:
    """The first offset that cannot be in a segment. `end_offset`: the end of the log, if known."""
    if following is not None:
        return following.base_offset
    return segment.base_offset + MAX_RELATIVE_OFFSET + 1 if end_offset is None else end_offset


def _next_valid(segment: Segment, position: int, next_offset: int, limit_offset: int) -> tuple[int, int] | None:
    """Position and base offset of the next valid batch; None if there is none.

    The length of the damaged batch leads to the next batch, unless the length itself is damaged. So an earlier batch
    counts if valid batches lead from it to the same position. Any other earlier batch lies inside a record's value.
    """
    head = segment.file.read_at(LOG_OVERHEAD, position)
    hop = position + LOG_OVERHEAD + int.from_bytes(head[_OFFSET_BYTES:], "big", signed=True)
    offset = _valid_batch_at(segment, hop, next_offset, limit_offset) if position < hop < segment.size else None
    end = segment.size if offset is None else hop
    for candidate in _candidates(segment, position + 1, end, _pattern(next_offset, limit_offset)):
        found = _valid_batch_at(segment, candidate, next_offset, limit_offset)
        if found is not None and (offset is None or _leads_to(segment, candidate, hop)):
            return candidate, found
    return None if offset is None else (hop, offset)


def _valid_batch_at(segment: Segment, position: int, next_offset: int, limit_offset: int) -> int | None:
    """The base offset of the valid batch at a position; None without one, or with an implausible offset."""
    walk = segment.iterate(position)
    walk.next_offset, walk.check_crc_from = next_offset, 0
    header = next((header for _, header in walk), None)
    return None if header is None or header.last_offset >= limit_offset else header.base_offset


def _leads_to(segment: Segment, position: int, end: int) -> bool:
    """True if consecutive valid batches lead from `position` to `end`."""
    walk = segment.iterate(position)
    walk.check_crc_from = 0
    return any(start >= end for start, _ in walk) and walk.position == end


def _candidates(segment: Segment, start: int, end: int, pattern: re.Pattern[bytes]) -> Iterator[int]:
    """Positions with a plausible offset, size and magic of a batch."""
    while start < end:
        window = segment.file.read_at(_WINDOW_BYTES + _MAGIC_AT, start)
        for found in pattern.finditer(window):
            candidate = start + found.start()
            size = int.from_bytes(window[found.start() + _OFFSET_BYTES : found.start() + LOG_OVERHEAD], "big")
            if found.start() < _WINDOW_BYTES and candidate < end and candidate + LOG_OVERHEAD + size <= segment.size:
                yield candidate
        start += _WINDOW_BYTES


def _pattern(next_offset: int, limit_offset: int) -> re.Pattern[bytes]:
    """Matches plausible headers: the first bytes common to all offsets of the range, a size above 0, any 4, a magic."""
    ends = [offset.to_bytes(_OFFSET_BYTES, "big") for offset in (next_offset, max(next_offset, limit_offset - 1))]
    same = next((count for count in range(_OFFSET_BYTES) if ends[0][count] != ends[1][count]), _OFFSET_BYTES)
    rest = b".{%d}" % (_OFFSET_BYTES - same)
    return re.compile(
        b"(?=" + re.escape(ends[0][:same]) + rest + rb"(?!\x00{4})[\x00-\x7f].{3}.{4}[\x00-\x02])", re.DOTALL
    )
