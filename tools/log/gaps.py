"""Offsets that a consumer with read_committed never sees, and why.

deleted: before the log's start. marker: a transaction's marker is there, which no consumer is shown. aborted: records
of a transaction that was aborted. compacted: nothing is there, in a part of the log that was compacted. missing:
nothing is there, and nothing says why; a repair leaves that, and so does a segment that somebody deleted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from headgate.protocol.records.batch import BatchHeader
from headgate.protocol.records.control import Marker
from headgate.storage.segment.transactions import Transactions

DELETED, MARKER, ABORTED, COMPACTED, MISSING = "deleted", "marker", "aborted", "compacted", "missing"


class Gap(NamedTuple):
    """Offsets from `first` to `last`."""

    first: int
    last: int
    reason: str


class Batch(NamedTuple):
    """A batch, with what is asked of it only where it has to be: its marker, if it is one, and which records it has."""

    header: BatchHeader
    marker: Callable[[], Marker | None]
    offsets: Callable[[], Collection[int]]


Aborted: TypeAlias = dict[int, list[tuple[int, int]]]
"""Producer id -> first offset and marker of each aborted transaction."""


def aborted(batches: Iterable[Batch]) -> Aborted:
    """The aborted transactions, by their markers."""
    transactions = Transactions()
    found: Aborted = defaultdict(list)
    for header, marker, _ in batches:
        ended = transactions.follow(header, header.base_offset, marker() if header.is_control else None)
        if ended is not None:
            found[ended.producer_id].append((ended.first_offset, ended.last_offset))
        transactions.replicated(header.base_offset)  # nobody asks which have ended
    return found


def gaps(batches: Iterable[Batch], log_start: int, compacted_to: int, transactions: Aborted) -> Iterator[Gap]:
    """All gaps from offset 0 on, in order, neighbours of one reason as one.

    `compacted_to`: up to there the cleaner has been.
    """
    expected, pending = log_start, Gap(0, log_start - 1, DELETED)
    for one in batches:
        header = one.header
        if header.last_offset < log_start:
            continue
        first = header.base_offset if header.magic >= 2 else min(one.offsets(), default=header.base_offset)
        for found in (*_between(expected, first - 1, compacted_to), *_within(one, first, transactions)):
            gap = found._replace(first=max(found.first, log_start))
            if gap.last < gap.first:
                continue
            if gap.reason == pending.reason and gap.first == pending.last + 1:
                pending = pending._replace(last=gap.last)
                continue
            if pending.last >= pending.first:
                yield pending
            pending = gap
        expected = header.last_offset + 1
    if pending.last >= pending.first:
        yield pending


def _between(first: int, last: int, compacted_to: int) -> Iterator[Gap]:
    """Where there are no batches."""
    cleaned = min(last, compacted_to - 1)
    if first <= cleaned:
        yield Gap(first, cleaned, COMPACTED)
    if max(first, cleaned + 1) <= last:
        yield Gap(max(first, cleaned + 1), last, MISSING)


def _within(one: Batch, first: int, transactions: Aborted) -> Iterator[Gap]:
    header = one.header
    last = header.last_offset
    if header.is_control:
        yield Gap(first, last, MARKER)
    elif header.is_transactional and _is_in(transactions.get(header.producer_id, ()), first):
        yield Gap(first, last, ABORTED)
    elif header.magic < 2 or header.records_count != last - first + 1:
        expected = first
        for offset in (*one.offsets(), last + 1):  # only compaction takes records out of a batch
            if offset > expected:
                yield Gap(expected, offset - 1, COMPACTED)
            expected = offset + 1


def _is_in(spans: Sequence[tuple[int, int]], offset: int) -> bool:
    """Whether an offset is in one of these, which are in order."""
    found = bisect_right(spans, offset, key=itemgetter(0))
    return found > 0 and offset <= spans[found - 1][1]
