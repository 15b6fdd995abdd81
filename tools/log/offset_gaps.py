"""Offsets that a consumer with read_committed never sees, and the reasons.

deleted      before the start of the log
marker       the offset of a transaction marker, which no consumer receives
aborted      records of an aborted transaction
compacted    no record, in a compacted part of the log
missing      no record for an unknown reason: a repair, or a segment file that was deleted
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
    """The offsets from `first` to `last`, both included, and the reason."""

    first: int
    last: int
    reason: str


class BatchOffsets(NamedTuple):
    """A batch. `marker` and `offsets` read the transaction marker and the offsets of records, only where needed."""

    header: BatchHeader
    marker: Callable[[], Marker | None]
    offsets: Callable[[], Collection[int]]


AbortedTransactions: TypeAlias = dict[int, list[tuple[int, int]]]
"""Producer id -> (first offset, offset of the marker) of each aborted transaction, in order."""


def find_aborted_transactions(batches: Iterable[BatchOffsets]) -> AbortedTransactions:
    """The aborted transactions, found by their markers."""
    transactions = Transactions()
    found: AbortedTransactions = defaultdict(list)
    for header, marker, _ in batches:
        ended = transactions.follow(header, header.base_offset, marker() if header.is_control else None)
        if ended is not None:
            found[ended.producer_id].append((ended.first_offset, ended.last_offset))
        transactions.replicated(header.base_offset)  # forgets ended transactions: nothing here asks for them
    return found


def find_gaps(
    batches: Iterable[BatchOffsets], log_start: int, compacted_to: int, transactions: AbortedTransactions
) -> Iterator[Gap]:
    """All gaps from offset 0 on, in order; adjacent gaps with the same reason are merged.

    `compacted_to`: the cleaner has compacted the offsets before this one.
    """
    expected, pending = log_start, Gap(0, log_start - 1, DELETED)
    for one in batches:
        header = one.header
        if header.last_offset < log_start:
            continue
        first = header.base_offset if header.magic >= 2 else min(one.offsets(), default=header.base_offset)
        for found in (
            *_gaps_between_batches(expected, first - 1, compacted_to),
            *_gaps_in_batch(one, first, transactions),
        ):
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


def _gaps_between_batches(first: int, last: int, compacted_to: int) -> Iterator[Gap]:
    """The gaps in a range without batches."""
    cleaned = min(last, compacted_to - 1)
    if first <= cleaned:
        yield Gap(first, cleaned, COMPACTED)
    if max(first, cleaned + 1) <= last:
        yield Gap(max(first, cleaned + 1), last, MISSING)


def _gaps_in_batch(one: BatchOffsets, first: int, transactions: AbortedTransactions) -> Iterator[Gap]:
    header = one.header
    last = header.last_offset
    if header.is_control:
        yield Gap(first, last, MARKER)
    elif header.is_transactional and _is_in_spans(transactions.get(header.producer_id, ()), first):
        yield Gap(first, last, ABORTED)
    elif header.magic < 2 or header.records_count != last - first + 1:
        expected = first
        for offset in (*one.offsets(), last + 1):  # only compaction removes records from a batch
            if offset > expected:
                yield Gap(expected, offset - 1, COMPACTED)
            expected = offset + 1


def _is_in_spans(spans: Sequence[tuple[int, int]], offset: int) -> bool:
    found = bisect_right(spans, offset, key=itemgetter(0))
    return found > 0 and offset <= spans[found - 1][1]
