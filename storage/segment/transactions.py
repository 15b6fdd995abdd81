"""The transactions of a log: the open ones, and the ended ones that are not on every replica yet.

A transaction begins with a producer's first transactional batch and ends with a marker. Offsets from the first record
of an open one on are unstable: a read_committed consumer does not see them. The same holds for an ended one until its
marker is below the high watermark, as another leader might lack the marker. Source: KIP-98; Apache Kafka's
`ProducerStateManager` (`ongoingTxns`, `unreplicatedTxns`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headgate.protocol.records.batch import CONTROL, BatchHeader
from headgate.protocol.records.control import TRANSACTION_BITS, Marker
from headgate.storage.segment.transaction_index import NO_OFFSET, AbortedTransaction


class Transactions:
    """`open`: producer id -> first offset, the oldest first. `decided`: first offset -> offset of the marker."""

    __slots__ = ("decided", "open")

    def __init__(self, opened: Mapping[int, int] | None = None) -> None:
        self.open: dict[int, int] = dict(opened or {})
        self.decided: dict[int, int] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Transactions) and (self.open, self.decided) == (other.open, other.decided)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Transactions(open={self.open}, decided={self.decided})"

    @property
    def first_unstable(self) -> int:
        """The first offset of all these transactions; NO_OFFSET without any."""
        first = next(iter(self.open.values()), NO_OFFSET)
        return min(first, *self.decided) if self.decided else first

    def follow(self, header: BatchHeader, offset: int, marker: Marker | None) -> AbortedTransaction | None:
        """Apply a batch at an offset, with its marker; returns the transaction that the marker aborts.

        An empty batch does nothing: compaction leaves it for its producer's state when the whole transaction is
        removed. The transaction was decided then, and its marker may be removed too: without a better snapshot, Apache
        Kafka would consider it open for ever.
        """
        attributes = header.attributes
        if not attributes & TRANSACTION_BITS or not header.records_count:
            return None
        if attributes & CONTROL:
            return self.end(header.producer_id, offset, marker) if marker is not None else None
        self.open.setdefault(header.producer_id, offset)
        return None

    def end(self, producer_id: int, offset: int, marker: Marker) -> AbortedTransaction | None:
        """End a producer's transaction with the marker at `offset`. A transaction without records leaves no trace."""
        first_offset = self.open.pop(producer_id, None)
        if first_offset is None:
            return None
        self.decided[first_offset] = offset
        if marker.is_commit:
            return None
        return AbortedTransaction(producer_id, first_offset, offset, next(iter(self.open.values()), offset + 1))

    def replicated(self, high_watermark: int) -> None:
        """Note that every replica has the log below an offset: transactions that ended there are stable."""
        if self.decided:
            self.decided = {first: last for first, last in self.decided.items() if last >= high_watermark}

    def restore(self, producer_id: int, first_offset: int, end_offset: int) -> None:
        """Truncate to `end_offset`; a producer's open transaction began at `first_offset` (-1: none).

        Markers from there on were never written.
        """
        self.open.pop(producer_id, None)
        if first_offset >= 0:
            self.open[producer_id] = first_offset
            self.open = dict(sorted(self.open.items(), key=_offset))
        self.decided = {first: last for first, last in self.decided.items() if last < end_offset}


def opened(transaction_starts: Iterable[tuple[int, int]]) -> Transactions:
    """Transactions from (producer id, first offset or -1); -1 means none."""
    return Transactions(dict(sorted((pair for pair in transaction_starts if pair[1] >= 0), key=_offset)))


def _offset(pair: tuple[int, int]) -> int:
    return pair[1]
