"""What compaction is to do: which log is next, how far it may go, which segments become one, which batches may go.

Pure decisions; `compaction` performs them. A log has a clean part at its beginning, in which each key has been seen
once, and a dirty part behind it, up to the active segment:

    start          first dirty offset          first uncleanable offset          end
      |   clean       |          dirty              |   too young, unsynced,  ... |
                                                        open transactions, active

The keys of the dirty part, each with its last offset, are collected; then all from the start on is written anew without
the records that a later one stands for. Offsets stay. Source: Apache Kafka's `LogCleanerManager`, `LogToClean`,
`Cleaner`, `CleanedTransactionMetadata`; KIP-354 (max.compaction.lag.ms), KIP-534 (delete horizons).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from headgate.protocol.records.batch import BatchHeader
from headgate.storage.config import LONG_MAX, LogConfig
from headgate.storage.segment.index import MAX_RELATIVE_OFFSET
from headgate.storage.segment.transaction_index import NO_OFFSET, AbortedTransaction

ABORT, COMMIT = 0, 1


class SegmentFacts(NamedTuple):
    """What decides about a segment. Sizes in bytes, times in milliseconds, -1 for a time that is not known."""

    base_offset: int
    size: int
    index_size: int
    time_index_size: int
    max_timestamp: int
    first_timestamp: int


class LogFacts(NamedTuple):
    """What decides about a log: its segments, the active one last, and offsets.

    `cleaned_offset` is where the last compaction ended, -1 for none; `up_to` the least of the high watermark, the last
    stable offset and the recovery point: what lies behind it may change, or be lost in a crash.
    """

    segments: Sequence[SegmentFacts]
    start_offset: int
    end_offset: int
    cleaned_offset: int
    up_to: int


@dataclass(frozen=True, slots=True)
class CleanableRatio:
    """How much of a log is to be cleaned. `overdue_ms`: for how long max.compaction.lag.ms has been exceeded."""

    first_dirty: int
    first_uncleanable: int
    clean_bytes: int
    dirty_bytes: int
    overdue_ms: int

    @property
    def ratio(self) -> float:
        """The dirty share of what may be cleaned."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, min_cleanable_dirty_ratio: float) -> bool:
        """Whether there is enough, or any that has waited too long."""
        return self.dirty_bytes > 0 and (self.overdue_ms > 0 or self.ratio > min_cleanable_dirty_ratio)


def assess(log: LogFacts, config: LogConfig, now_ms: int) -> CleanableRatio:
    """How dirty a log is. A checkpoint outside of the log, which was cut or deleted meanwhile, counts for nothing."""
    first_dirty = log.cleaned_offset
    if not log.start_offset <= first_dirty <= log.end_offset:
        first_dirty = log.start_offset
    ended = list(zip(log.segments[:-1], (segment.base_offset for segment in log.segments[1:]), strict=True))
    dirty = [segment for segment, end in ended if end > first_dirty]
    limit = min(log.up_to, log.segments[-1].base_offset)
    if config.min_compaction_lag_ms > 0:
        too_young = now_ms - config.min_compaction_lag_ms
        limit = min([limit, *(segment.base_offset for segment in dirty if segment.max_timestamp > too_young)])
    # Whole segments only: up to the one that the limit is in.
    first_uncleanable = max((end for _, end in ended if end <= limit), default=first_dirty)
    return CleanableRatio(
        first_dirty,
        max(first_dirty, first_uncleanable),
        sum(segment.size for segment, end in ended if end <= min(first_dirty, limit)),
        sum(segment.size for segment, end in ended if first_dirty < end <= limit),
        _overdue_ms(dirty, config, now_ms),
    )


def _overdue_ms(dirty: Sequence[SegmentFacts], config: LogConfig, now_ms: int) -> int:
    if config.max_compaction_lag_ms == LONG_MAX:
        return 0
    oldest = min((segment.first_timestamp for segment in dirty if segment.first_timestamp > 0), default=LONG_MAX)
    return max(0, now_ms - config.max_compaction_lag_ms - oldest)


def dirtiest(dirts: Iterable[tuple[float, CleanableRatio]]) -> int | None:
    """Which of the logs is next, by its number; None if none is due. Each comes with its min.cleanable.dirty.ratio."""
    due = [(dirt.ratio, -number) for number, (least, dirt) in enumerate(dirts) if dirt.is_due(least)]
    return -max(due)[1] if due else None


def grouped(
    segments: Sequence[SegmentFacts], end_offset: int, max_bytes: int, max_index_bytes: int
) -> list[list[SegmentFacts]]:
    """Neighbours that become one segment: together no larger than one may be, so that small ones grow together again.

    `end_offset` is where the last one ends; offsets relative to the first one have to fit into an index.
    """
    ends = [*(segment.base_offset for segment in segments[1:]), end_offset]
    groups: list[list[SegmentFacts]] = []
    sizes = (0, 0, 0)
    for segment, end in zip(segments, ends, strict=True):
        its = (segment.size, segment.index_size, segment.time_index_size)
        total = (sizes[0] + its[0], sizes[1] + its[1], sizes[2] + its[2])
        fits = total[0] <= max_bytes and max(total[1:]) <= max_index_bytes
        if groups and fits and end - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET:
            groups[-1].append(segment)
            sizes = total
        else:
            groups.append([segment])
            sizes = its
    return groups


class CleanedTransactions:
    """Which batches of transactions may go, asked in the order of the log.

    Records of aborted ones go at once. A marker may go when nothing of its transaction was met before it: then all of
    it is gone, and the marker's own delay begins. An aborted transaction ends where its marker is, or was: that may be
    in what nobody asks about.
    """

    __slots__ = ("_aborted", "_markers", "_open_aborted", "_open_committed")

    def __init__(self, aborted: Iterable[AbortedTransaction] = ()) -> None:
        self._aborted = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
        self._open_aborted: dict[int, bool] = {}  # producer -> whether a batch of it was met
        self._markers: dict[int, int] = {}  # producer -> where its last one of these ends
        self._open_committed: set[int] = set()

    def _reach(self, header: BatchHeader) -> None:
        """Begin what has begun by the end of a batch, and end what its producer has aborted before it."""
        while self._aborted and self._aborted[-1].first_offset <= header.last_offset:
            producer_id, _, marker_offset, _ = self._aborted.pop()
            self._open_aborted.setdefault(producer_id, False)
            self._markers[producer_id] = max(marker_offset, self._markers.get(producer_id, 0))
        if self._open_aborted and self._markers.get(header.producer_id, NO_OFFSET) < header.base_offset:
            self._open_aborted.pop(header.producer_id, None)

    def may_go(self, header: BatchHeader) -> bool:
        """Whether the records of a batch that is no marker are of no use."""
        self._reach(header)
        if not header.is_transactional:
            return False
        if header.producer_id in self._open_aborted:
            self._open_aborted[header.producer_id] = True
            return True
        self._open_committed.add(header.producer_id)
        return False

    def marker_may_go(self, header: BatchHeader, kind: int | None) -> bool:
        """Whether a marker has nothing left to mark; `kind` is None for one that was taken out of its batch before."""
        self._reach(header)
        if kind == ABORT:
            return not self._open_aborted.pop(header.producer_id, False)
        if kind == COMMIT:
            is_open = header.producer_id in self._open_committed
            self._open_committed.discard(header.producer_id)
            return not is_open
        return kind is None


class BatchRetention(Enum):
    """What becomes of a batch."""

    FILTER = "its records are looked at one by one; without any left it goes"
    FILTER_KEEP = "the same, but the batch stays even without records"
    DROP = "it goes"
    EMPTY = "it stays without its records"


class LastBatch(NamedTuple):
    """The last thing a producer wrote: the offset at which its last batch of records ends, -1 if it wrote none."""

    epoch: int
    last_offset: int


def batch_retention(
    header: BatchHeader, *, records_may_go: bool, is_last_of_group: bool, last: LastBatch | None
) -> BatchRetention:
    """What becomes of a batch; `last` is its producer's last one.

    That one stays, so that the producer's sequence and epoch are known after a restart. So does the last batch of what
    becomes one segment: where segments end does not change, and a recovery can tell a gap from a lost file.
    """
    is_last = last is not None and (
        header.last_offset == last.last_offset
        if last.last_offset >= 0
        else header.is_control and header.producer_epoch == last.epoch
    )
    if is_last or is_last_of_group:
        return BatchRetention.EMPTY if records_may_go else BatchRetention.FILTER_KEEP
    return BatchRetention.DROP if records_may_go else BatchRetention.FILTER
