"""The offsets of a range without a row, and the reasons; found from the offsets of the rows themselves.

Only a piece of a log with holes costs more than a comparison: there the batch headers say why. A hole that they do not
explain is an error of the reader or of the parser, and ends the load.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from headgate.protocol.records.aborted_batches import AbortedBatches
from headgate.protocol.records.batch import HEADER, LOG_OVERHEAD, MAGIC, BatchHeader
from headgate.spark.load.output.documents import REJECTED
from headgate.spark.reading.log_reader import FetchedBatches, OffsetRange
from headgate.tools.log.offset_gaps import ABORTED, COMPACTED, DELETED, MARKER, MISSING, Gap

_PRESENT = ""
_NONE: Any = np.empty(0, np.int64)


def to_int64(column: Any) -> Any:
    """An Arrow array of int64 without nulls as a numpy array. Arrow's own `to_numpy` imports pandas, for a second."""
    return np.frombuffer(column.buffers()[1], np.int64, len(column), 8 * column.offset) if len(column) else _NONE


class UnexplainedGap(Exception):
    """Rows are missing where the log has records; the text names partition and offsets."""


class GapFinder:
    """Takes the pieces of a range in order, each with the offsets of its rows.

    `expected`: the next offset. `is_compacted`: the topic is compacted; without a batch at an offset the reason is then
    compaction, and unknown (`missing`) for another topic.
    """

    def __init__(self, wanted: OffsetRange, *, is_compacted: bool) -> None:
        self.wanted = wanted
        self.gaps: list[Gap] = []
        self.rows = 0
        self.expected = wanted.start_offset
        self._absent = COMPACTED if is_compacted else MISSING

    def add(self, fetched: FetchedBatches, offsets: Any) -> None:
        """`offsets`: an int64 array of the rows of this piece. Raises UnexplainedGap."""
        end = max(self.expected, min(fetched.next_offset, self.wanted.end_offset))
        count = len(offsets)
        if count and not self.expected <= offsets[0] <= offsets[-1] < end:
            raise UnexplainedGap(
                f"{self.wanted.partition}: the rows from {offsets[0]} to {offsets[-1]} came for the offsets "
                f"from {self.expected} to {end - 1}"
            )
        if count != end - self.expected:
            for gap in self._explain(fetched, list(_holes(offsets, self.expected, end))):
                self._append(gap)
        self.rows += count
        self.expected = end

    def skip_deleted(self, start_offset: int) -> None:
        """The log starts at this offset by now: missing offsets before it are deleted records."""
        end = min(start_offset, self.wanted.end_offset)
        if end > self.expected:
            self._append(Gap(self.expected, end - 1, DELETED))
            self.expected = end

    def finish(self) -> None:
        """Account for the offsets after the last batch. Raises UnexplainedGap if the range was not read to its end."""
        end = self.wanted.end_offset
        if self.expected < end:
            self._append(Gap(self.expected, end - 1, self._absent))
            self.expected = end
        found = self.rows + sum(gap.last - gap.first + 1 for gap in self.gaps)
        if found != end - self.wanted.start_offset:
            raise UnexplainedGap(f"{self.wanted.partition}: {found} offsets of {self.wanted} are accounted for")

    def _append(self, gap: Gap) -> None:
        if self.gaps and self.gaps[-1].last + 1 == gap.first and self.gaps[-1].reason == gap.reason:
            self.gaps[-1] = self.gaps[-1]._replace(last=gap.last)
        else:
            self.gaps.append(gap)

    def _explain(self, fetched: FetchedBatches, holes: list[tuple[int, int]]) -> Iterator[Gap]:
        """Split the holes at the bounds of batches, each part with its reason."""
        spans = self._spans(fetched)
        _, last, reason = next(spans)
        for hole_first, hole_last in holes:
            at = hole_first
            while at <= hole_last:
                while at > last:
                    _, last, reason = next(spans)
                until = min(hole_last, last)
                if reason == _PRESENT:
                    raise UnexplainedGap(
                        f"{self.wanted.partition}: the records from {at} to {until} are in the log, but are no rows"
                    )
                yield Gap(at, until, reason)
                at = until + 1

    def _spans(self, fetched: FetchedBatches) -> Iterator[tuple[int, int, str]]:
        """(first offset, last offset, reason) of each batch and of the offsets between batches, without an end."""
        expected = 0
        aborted = AbortedBatches(fetched.aborted)
        for header, view in _headers(memoryview(fetched.batches)):
            if header.magic < MAGIC:
                # A message, or a wrapper with the offset of its last message: only compaction leaves holes before it
                yield expected, header.base_offset - 1, self._absent
                yield header.base_offset, header.base_offset, _PRESENT
                expected = header.base_offset + 1
                continue
            if header.base_offset > expected:
                yield expected, header.base_offset - 1, self._absent
            yield header.base_offset, header.last_offset, _reason(header, is_aborted=aborted.includes(header, view))
            expected = header.last_offset + 1
        yield expected, self.wanted.end_offset, self._absent


def _reason(header: BatchHeader, *, is_aborted: bool) -> str:
    if header.is_control:
        return MARKER
    if is_aborted:
        return ABORTED
    return _PRESENT if header.records_count == header.last_offset_delta + 1 else COMPACTED


def _headers(view: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The batches of a piece. Of an old message only base offset, length and magic mean anything."""
    position = 0
    while position + LOG_OVERHEAD < len(view):
        if position + HEADER.size <= len(view):
            header = BatchHeader._make(HEADER.unpack_from(view, position))
        else:
            header = BatchHeader._make(HEADER.unpack(bytes(view[position:]).ljust(HEADER.size, b"\0")))
        end = position + header.batch_length + LOG_OVERHEAD
        if header.batch_length <= 0 or end > len(view):
            return
        yield header, view[position:end]
        position = end


def _holes(offsets: Any, start: int, end: int) -> Iterator[tuple[int, int]]:
    """(first, last) of each run of numbers from `start` to before `end` that are not in the sorted `offsets`."""
    bounds = np.concatenate(([start - 1], offsets, [end]))
    for place in np.flatnonzero(np.diff(bounds) > 1).tolist():
        yield int(bounds[place]) + 1, int(bounds[place + 1]) - 1


def complement(gaps: list[Gap], wanted: OffsetRange) -> Iterator[tuple[int, int]]:
    """(first, last) of each run of offsets that are rows. Raises UnexplainedGap for gaps that overlap or go back."""
    ends = [(wanted.start_offset - 1, wanted.start_offset - 1), *((gap.first, gap.last) for gap in gaps)]
    ends.append((wanted.end_offset, wanted.end_offset))
    for (_, before), (first, _) in pairwise(ends):
        if first <= before:
            raise UnexplainedGap(f"{wanted.partition}: the gaps of {wanted} overlap at {first}")
        if first > before + 1:
            yield before + 1, first - 1


def with_rejected(gaps: list[Gap], offsets: list[int]) -> list[Gap]:
    """The gaps, with gaps for rejected records, in order. The offsets of rejected records are sorted."""
    if not offsets:
        return gaps
    places = np.array(offsets)
    starts = np.flatnonzero(np.diff(places, prepend=places[0] - 2) != 1)
    ends: Any = np.append(starts[1:], len(places)) - 1
    runs = zip(places[starts].tolist(), places[ends].tolist(), strict=True)
    return sorted([*gaps, *(Gap(first, last, REJECTED) for first, last in runs)])
