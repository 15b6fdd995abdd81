"""Sets of offsets: sorted intervals that neither overlap nor touch."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple


class Interval(NamedTuple):
    """The offsets from `start_offset` to before `end_offset`."""

    start_offset: int
    end_offset: int

    @property
    def size(self) -> int:
        return self.end_offset - self.start_offset


Intervals = tuple[Interval, ...]


def union(intervals: Iterable[Interval]) -> Intervals:
    """All offsets of the intervals, which may come in any order and overlap."""
    merged: list[Interval] = []
    for start, end in sorted(interval for interval in intervals if interval.size > 0):
        if merged and start <= merged[-1].end_offset:
            merged[-1] = Interval(merged[-1].start_offset, max(end, merged[-1].end_offset))
        else:
            merged.append(Interval(start, end))
    return tuple(merged)


def difference(wanted: Interval, taken: Intervals) -> Intervals:
    """The offsets of `wanted` that are not in `taken`."""
    left: list[Interval] = []
    start = wanted.start_offset
    for begin, end in taken:
        left.append(Interval(start, min(begin, wanted.end_offset)))
        start = max(start, end)
    left.append(Interval(start, wanted.end_offset))
    return tuple(interval for interval in left if interval.size > 0)


def split(interval: Interval, most: int) -> Intervals:
    """The interval in the fewest pieces of at most `most` offsets, all of nearly the same size."""
    count = max(1, -(-interval.size // most))
    places = [interval.start_offset + interval.size * number // count for number in range(count + 1)]
    return tuple(Interval(start, end) for start, end in pairwise(places) if start < end)
