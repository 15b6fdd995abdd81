"""The chain of lengths: where each record of a block begins. The length of a record gives the start of the next one.

A Python loop over records takes 0.1 microseconds for each. Where a block has many batches, numpy follows the chains of
all of them in step, one record of each at a time.
"""

from __future__ import annotations

from itertools import repeat
from typing import Any, Final

import numpy as np

from headgate.protocol.records import Buffer
from headgate.protocol.records.varint import read_varint

_ONE_BYTE = 0x80
CHAINS_IN_STEP: Final = 48  # fewer are followed one after another
_LONGEST_MEAN = 2048  # lengths from 8 KiB on have three bytes, which only the loop reads


class InvalidRecord(Exception):
    """A record cannot be read. `index`: its number among the records given; -1 if unknown."""

    def __init__(self, index: int, problem: str) -> None:
        self.index, self.problem = index, problem
        super().__init__(problem)


def _steps() -> list[list[int | None]]:
    """The bytes from a record to the next one, by the first two bytes of its length; None for longer lengths."""
    short: list[list[int | None]] = [[None if first & 1 else (first >> 1) + 1] * 256 for first in range(_ONE_BYTE)]
    long: list[list[int | None]] = [
        [None if first & 1 else (first & 0x7F | second << 7) // 2 + 2 for second in range(_ONE_BYTE)] + [None] * 128
        for first in range(_ONE_BYTE, 256)
    ]
    return short + long


_STEPS: Any = _steps()
# The same by the two bytes as one little-endian number; 0 in place of None
_STEP_TABLE: Any = np.array([_STEPS[pair & 0xFF][pair >> 8] or 0 for pair in range(1 << 16)], np.int64)


def record_bounds(data: Buffer, begins: Any, counts: Any) -> Any:
    """The positions of all records of batches, one batch after another, and the position after the last record.

    `begins`: where each batch begins, and where the last one ends; `counts`: the records of each, none of them 0;
    int64. `data` has padding behind it. Raises InvalidRecord.
    """
    firsts = np.zeros(len(begins), np.int64)
    np.cumsum(counts, out=firsts[1:])
    total = int(firsts[-1])
    if len(counts) < CHAINS_IN_STEP or begins[-1] - begins[0] > _LONGEST_MEAN * total:
        starts, position = follow_chain(data, int(begins[0]), total)
        bounds = np.fromiter((*starts, position), np.int64, total + 1)
        wrong = np.flatnonzero(bounds[firsts] != begins)
        if wrong.size:
            raise InvalidRecord(int(firsts[wrong[0]]) - 1, "its batch does not end behind its last record")
        return bounds
    bounds = np.empty(total + 1, np.int64)
    bounds[-1] = begins[-1]
    ends = _follow_in_step(data, bounds, begins[:-1], counts, firsts[:-1])
    for number in np.flatnonzero(ends != begins[1:]).tolist():
        _follow_again(data, bounds, int(begins[number]), int(begins[number + 1]), int(firsts[number]), counts[number])
    return bounds


def _follow_in_step(data: Buffer, bounds: Any, begins: Any, counts: Any, firsts: Any) -> Any:
    """Follow the chains of all batches, the longest first; fill `bounds`; return where each ends.

    A chain stops at a length that is not in the table. The few longest ones are left over.
    """
    pairs = np.ndarray((len(data) - 1,), "<u2", data, 0, (1,))
    order = np.argsort(-counts, kind="stable")
    descending = counts[order]
    ends = begins[order]
    at, to = ends, firsts[order]
    active = np.searchsorted(-descending, -np.arange(descending[0]), side="left")
    steps = np.empty(len(at), np.int64)
    for count in active.tolist():
        if count != len(at):
            at, to, steps = at[:count], to[:count], steps[:count]
            if count < CHAINS_IN_STEP:
                break
        bounds[to] = at
        _STEP_TABLE.take(pairs[at], out=steps, mode="clip")
        at += steps
        to += 1
    found = np.empty_like(ends)
    found[order] = ends
    return found


def _follow_again(data: Buffer, bounds: Any, begin: int, end: int, first: int, count: int) -> None:
    """Follow the chain of one batch. Raises InvalidRecord."""
    try:
        starts, position = follow_chain(data, begin, count)
    except InvalidRecord as error:
        raise InvalidRecord(first + error.index, error.problem) from None
    if position != end:
        raise InvalidRecord(first + count - 1, "its batch does not end behind its last record")
    bounds[first : first + count] = starts


def follow_chain(data: Buffer, position: int, count: int) -> tuple[list[int], int]:
    """The positions of `count` records, one after another from `position` on, and the position after the last.

    `data` has padding behind it. Raises InvalidRecord.
    """
    steps, starts = _STEPS, list[int]()
    append = starts.append
    while len(starts) < count:
        try:
            for _ in repeat(None, count - len(starts)):
                append(position)
                position += steps[data[position]][data[position + 1]]
        except TypeError:  # the step is None: a length of three bytes and more, or below 0
            position = _next_start(data, position, len(starts) - 1)
        except IndexError:
            raise InvalidRecord(len(starts) - 1, "it begins behind the end of its batch") from None
    return starts, position


def _next_start(data: Buffer, position: int, index: int) -> int:
    try:
        length, position = read_varint(data, position)
    except IndexError as error:
        raise InvalidRecord(index, str(error)) from None
    if length < 0:
        raise InvalidRecord(index, f"its length is {length}")
    return position + length
