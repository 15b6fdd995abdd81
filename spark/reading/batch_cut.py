"""Cuts whole batches out of bytes of a segment file, by their headers alone. Pure.

Batches of magic 2 and messages of magic 0 and 1 begin alike: offset, size, and the magic at byte 16. The offset of a
message, or of a wrapper around compressed messages, is the last one within; the offset of a batch is the first one.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from headgate.protocol.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, TRANSACTIONAL

_unpack = struct.Struct(">qi4xB4xh").unpack_from
_DELTA = 23
_SMALLEST_BATCH = 26
_SMALLEST_LENGTHS = (14, 22, HEADER_SIZE - LOG_OVERHEAD)
_NOTHING = -1


class BatchCut(NamedTuple):
    """Whole batches from byte `start` to before `end`; none if both are equal.

    `first_offset`: of the first batch; for a message the expected offset. `next_offset`: the offset after the last
    batch. `is_done`: the wanted end is reached. `needed`: the size of the batch at `end` if the bytes hold only its
    beginning; 0 if not even its size. `problem`: a sentence if the bytes at `end` are no batch.
    """

    start: int
    end: int
    first_offset: int
    next_offset: int
    has_transactions: bool
    is_done: bool
    needed: int
    problem: str | None


def cut(data: bytes, next_offset: int, end_offset: int) -> BatchCut:
    """The batches with offsets from `next_offset` to before `end_offset` in bytes that begin with a batch.

    Batches before `next_offset` are left out; the first batch may begin before that offset, the last one may end behind
    `end_offset`.
    """
    at, available = 0, len(data)
    start, first_offset = _NOTHING, next_offset
    has_transactions, needed, problem = False, 0, None
    is_done = next_offset >= end_offset
    while not is_done and available - at >= _SMALLEST_BATCH:
        first, length, magic, attributes = _unpack(data, at)
        if magic == MAGIC:
            last = first + int.from_bytes(data[at + _DELTA : at + _DELTA + 4], "big", signed=True)
        else:  # a wrapper may begin with any expected offset
            last, attributes, first = first, 0, min(first, next_offset)
        size = length + LOG_OVERHEAD
        if magic > MAGIC or length < _SMALLEST_LENGTHS[magic]:
            problem = f"{length} bytes of magic {magic} are no batch"
            break
        if size > available - at:
            needed = size
            break
        if last < first or (start != _NOTHING and first < next_offset):
            problem = f"offsets {first} to {last} follow {next_offset - 1}"
            break
        if first >= end_offset:
            is_done = True
            break
        if last >= next_offset:
            if start == _NOTHING:
                start, first_offset = at, first
            has_transactions = has_transactions or bool(attributes & TRANSACTIONAL)
            next_offset = last + 1
            is_done = next_offset >= end_offset
        at += size
    if start == _NOTHING:
        start = at
    return BatchCut(start, at, first_offset, next_offset, has_transactions, is_done, needed, problem)
