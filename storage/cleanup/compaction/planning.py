"""The plan of compaction: which log is next, how far it goes, which segments merge, which batches are dropped.

All decisions are pure; `work` performs them. A log begins with a clean part, in which each key occurs once, and goes on
with a dirty part, up to the active segment:

    start          first dirty offset          first uncleanable offset          end
      |   clean       |          dirty              |   too young, unsynced,  ... |
                                                        open transactions, active

Compaction collects the keys of the dirty part, each with its last offset. Then it rewrites all segments from the start
on without the records that have a later record with the same key. Offsets stay. Source: Apache Kafka's
`LogCleanerManager`, `LogToClean`, `Cleaner`, `CleanedTransactionMetadata`; KIP-354 (max.compaction.lag.ms), KIP-534
(delete horizons).
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
    """The facts of a segment that decide about its compaction. Sizes in bytes; times in ms, -1 if unknown.

    `newest_ms`: the time of the newest record, or of the last write where records have no times.
    """

    base_offset: int
    size: int
    index_size: int
    time_index_size: int
    newest_ms: int
    first_timestamp: int


class LogFacts(NamedTuple):
    """The facts of a log that decide about its compaction: its segments, the active one last, and offsets.

    `cleaned_offset` is the end of the last compaction, -1 for none. `up_to` is the lowest of the high watermark, the
    last stable offset and the recovery point: later records may change, or be lost in a crash.
    """

    segments: Sequence[SegmentFacts]
    start_offset: int
    end_offset: int
    cleaned_offset: int
    up_to: int


@dataclass(frozen=True, slots=True)
class CleanableRatio:
    """The cleanable part of a log. `overdue_ms`: the time since max.compaction.lag.ms was exceeded, 0 for none."""

    first_dirty: int
    first_uncleanable: int
    clean_bytes: int
    dirty_bytes: int
    overdue_ms: int

    @property
    def ratio(self) -> float:
        """The dirty share of the cleanable bytes, 0 to 1."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, min_cleanable_dirty_ratio: float) -> bool:
        """Whether the dirty part is large enough, or overdue."""
        return self.dirty_bytes > 0 and (self.overdue_ms > 0 or self.ratio > min_cleanable_dirty_ratio)


def assess(log: LogFacts, config: LogConfig, now_ms: int) -> CleanableRatio:
    """The cleanable part of a log. Pure.

    A cleaned offset outside of the log is ignored: the log was cut or deleted meanwhile.
    """
    first_dirty = log.cleaned_offset
    if not log.start_offset <= first_dirty <= log.end_offset:
        first_dirty = log.start_offset
    ended = list(zip(log.segments[:-1], (segment.base_offset for segment in log.segments[1:]), strict=True))
    dirty = [segment for segment, end in ended if end > first_dirty]
    limit = min(log.up_to, log.segments[-1].base_offset)
    if config.min_compaction_lag_ms > 0:
        too_young = now_ms - config.min_compaction_lag_ms
        limit = min([limit, *(segment.base_offset for segment in dirty if segment.newest_ms > too_young)])
    # Whole segments only: the segment that contains the limit stays.
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


def dirtiest(logs: Iterable[tuple[float, CleanableRatio]]) -> int | None:
    """The number of the log to compact next, counted from 0; None if none is due.

    `logs`: for each log its min.cleanable.dirty.ratio and its cleanable part.
    """
    due = [(cleanable.ratio, -number) for number, (least, cleanable) in enumerate(logs) if cleanable.is_due(least)]
    return -max(due)[1] if due else None


def grouped(
    segments: Sequence[SegmentFacts], end_offset: int, max_bytes: int, max_index_bytes: int
) -> list[list[SegmentFacts]]:
    """The groups of neighbouring segments that become one segment each, within the size limits in bytes.

    `end_offset` is the end of the last segment. The offsets in a group, relative to its first, must fit into an index.
    """
    ends = [*(segment.base_offset for segment in segments[1:]), end_offset]
    groups: list[list[SegmentFacts]] = []
    sizes = (0, 0, 0)
    for segment, end in zip(segments, ends, strict=True):
        segment_sizes = (segment.size, segment.index_size, segment.time_index_size)
        total = (sizes[0] + segment_sizes[0], sizes[1] + segment_sizes[1], sizes[2] + segment_sizes[2])
        fits = total[0] <= max_bytes and max(total[1:]) <= max_index_bytes
        if groups and fits and end - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET:
            groups[-1].append(segment)
            sizes = total
        else:
            groups.append([segment])
            sizes = segment_sizes
    return groups


class CleanedTransactions:
    """Decides which batches of transactions may be dropped. The caller asks in the order of the log.

    The records of an aborted transaction are dropped at once. A marker may be dropped if no batch of its transaction
    came before it: all of them are gone, and the delay of the marker begins. An aborted transaction ends at the offset
    of its marker, even if the marker was dropped or is outside of the asked batches.
    """

    __slots__ = ("_aborted", "_markers", "_open_aborted", "_open_committed")

    def __init__(self, aborted: Iterable[AbortedTransaction] = ()) -> None:
        self._aborted = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
        self._open_aborted: dict[int, bool] = {}  # producer -> whether a batch of the transaction came before
        self._markers: dict[int, int] = {}  # producer -> offset of the marker of its last open aborted transaction
        self._open_committed: set[int] = set()

    def _reach(self, header: BatchHeader) -> None:
        """Begin the aborted transactions up to a batch, and end those of its producer before the batch."""
        while self._aborted and self._aborted[-1].first_offset <= header.last_offset:
            producer_id, _, marker_offset, _ = self._aborted.pop()
            self._open_aborted.setdefault(producer_id, False)
            self._markers[producer_id] = max(marker_offset, self._markers.get(producer_id, 0))
        if self._open_aborted and self._markers.get(header.producer_id, NO_OFFSET) < header.base_offset:
            self._open_aborted.pop(header.producer_id, None)

    def may_go(self, header: BatchHeader) -> bool:
        """Whether the records of a batch, which is no marker, may be dropped."""
        self._reach(header)
        if not header.is_transactional:
            return False
        if header.producer_id in self._open_aborted:
            self._open_aborted[header.producer_id] = True
            return True
        self._open_committed.add(header.producer_id)
        return False

    def marker_may_go(self, header: BatchHeader, kind: int | None) -> bool:
        """Whether no batch is left of the transaction of a marker. `kind` is None if the marker was removed before."""
        self._reach(header)
        if kind == ABORT:
            return not self._open_aborted.pop(header.producer_id, False)
        if kind == COMMIT:
            is_open = header.producer_id in self._open_committed
            self._open_committed.discard(header.producer_id)
            return not is_open
        return kind is None


class BatchRetention(Enum):
    """The decision about a batch."""

    FILTER = "filter the records; drop the batch if no record is left"
    FILTER_KEEP = "filter the records; keep the batch even without records"
    DROP = "drop the batch"
    EMPTY = "keep the batch without its records"


class LastBatch(NamedTuple):
    """The last batch of records of a producer: its epoch and its last offset, -1 if there is none."""

    epoch: int
    last_offset: int


def batch_retention(
    header: BatchHeader, *, records_may_go: bool, is_last_of_group: bool, last: LastBatch | None
) -> BatchRetention:
    """The decision about a batch; `last` is the last batch of its producer. Pure.

    The last batch of a producer stays, so that its sequence and epoch are known after a restart. The last batch of a
    group of segments stays too: the end of a segment never changes, so recovery can distinguish a gap from a lost file.
    """
    is_last = last is not None and (
        header.last_offset == last.last_offset
        if last.last_offset >= 0
        else header.is_control and header.producer_epoch == last.epoch
    )
    if is_last or is_last_of_group:
        return BatchRetention.EMPTY if records_may_go else BatchRetention.FILTER_KEEP
    return BatchRetention.DROP if records_may_go else BatchRetention.FILTER
