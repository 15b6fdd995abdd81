"""One compaction as plain values: the input from the log, and the results of the computation.

A `Job` is complete, so that it can be sent to another process as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from headgate.protocol.records import compression
from headgate.protocol.records.batch import NO_TIMESTAMP
from headgate.storage.cleanup.compaction import planning
from headgate.storage.cleanup.compaction.planning import CleanableRatio, CleanedTransactions, LogFacts, SegmentFacts
from headgate.storage.config import LONG_MAX
from headgate.storage.log.log import Log
from headgate.storage.segment.transaction_index import AbortedTransaction, parse


@dataclass(frozen=True, slots=True)
class Job:
    """One compaction. Sizes in bytes. `segments`: all that may be rewritten; the last ends at `first_uncleanable`.

    `producers`: (id, epoch, last offset) of the last safe batch of each producer, where a power cut may leave no later
    one. `unsafe_producers`: ids of producers without a remembered batch below the recovery point. `aborted`: (producer
    id, first offset, offset of the marker). `has_transactions`: segments have transaction indexes. `levels`: the
    compression level of each codec, by its number.
    """

    directory: str
    segments: Sequence[SegmentFacts]
    first_dirty: int
    first_uncleanable: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    table_bytes: int
    read_bytes: int
    levels: Sequence[int | None]
    producers: Sequence[tuple[int, int, int]]
    unsafe_producers: Sequence[int]
    aborted: Sequence[tuple[int, int, int]]
    has_transactions: bool

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> Job:
        """The job from the result of `dataclasses.asdict`, also after a way through JSON."""
        return cls(**{**values, "segments": [SegmentFacts(*facts) for facts in values["segments"]]})

    @property
    def ended(self) -> list[tuple[SegmentFacts, int]]:
        """Each segment with its end offset."""
        ends = [*(facts.base_offset for facts in self.segments[1:]), self.first_uncleanable]
        return list(zip(self.segments, ends, strict=True))

    def transactions_since(self, offset: int) -> CleanedTransactions:
        """The transactions that were aborted at `offset` or behind, for an iteration that begins there."""
        aborted = (AbortedTransaction(*transaction) for transaction in self.aborted)
        return CleanedTransactions(transaction for transaction in aborted if transaction.last_offset >= offset)


class Collected(NamedTuple):
    """The result of a collection: keys up to `end_offset`. `groups`: base offsets of the segments that become one.

    `table_share`: the used share of the key table, 0 to 1.
    """

    end_offset: int
    groups: list[list[int]]
    read_bytes: int
    table_share: float


class Rewritten(NamedTuple):
    """The result of a rewrite: one new segment on the disk.

    `sizes`: bytes of its `.log`, `.index`, `.timeindex`, `.txnindex`, -1 for none. Without `is_changed` nothing could
    be removed, and there are no new files.
    """

    is_changed: bool
    sizes: tuple[int, int, int, int]
    read_bytes: int
    records: int
    kept_records: int
    unreadable_batches: int


class Damaged(Exception):
    """A segment is damaged. Compaction leaves it unchanged."""


def assess(log: Log, now_ms: int, up_to: int, blocking: bool = True) -> CleanableRatio:
    """The cleanable ratio of a log below the high watermark `up_to`. Raises OSError; WouldBlock if not `blocking`."""
    return planning.assess(_facts(log, up_to, blocking), log.config, now_ms)


def _facts(log: Log, up_to: int, blocking: bool) -> LogFacts:
    with_ages = log.config.max_compaction_lag_ms != LONG_MAX  # otherwise unused, and it costs a read from the file
    with_times = log.config.min_compaction_lag_ms > 0
    segments = log.segments[:]
    # Compaction leaves messages of magic 0 and 1 unchanged, and all segments before them.
    for number, segment in enumerate(segments[:-1]):
        if segment.has_legacy_format:
            segments = log.segments[number + 1 :]
    active = log.segments[-1]
    facts = [
        SegmentFacts(
            segment.base_offset,
            segment.size,
            segment.offsets.size,
            segment.times.size,
            segment.read_newest_ms(blocking) if with_times and segment is not active else NO_TIMESTAMP,
            segment.read_first_timestamp(blocking)
            if with_ages and segment is not active and segment.size
            else NO_TIMESTAMP,
        )
        for segment in segments
    ]
    start_offset = max(log.start_offset, facts[0].base_offset)
    limit = min(up_to, log.stable_offset, log.recovery_point)
    if log.has_transactions and log.recovery_point < log.end_offset:  # a power cut may take an unsynced marker back
        limit = min(limit, log.last_decided_offset)
    return LogFacts(facts, start_offset, log.end_offset, log.segments.compacted.offset, limit)


def plan(
    log: Log, cleanable: CleanableRatio, now_ms: int, *, table_bytes: int, read_bytes: int, blocking: bool = True
) -> Job:
    """The job for the part of a log that `assess` found cleanable.

    Raises OSError, BadFile for a damaged index; WouldBlock if not `blocking`.
    """
    log.segments.compacted.finish()
    config = log.config
    known = _facts(log, log.end_offset, blocking).segments
    facts = [facts for facts in known if facts.base_offset < cleanable.first_uncleanable]
    producers, unsafe_producers = _last_batches(log, cleanable.first_uncleanable)
    return Job(
        directory=log.directory,
        segments=facts,
        first_dirty=cleanable.first_dirty,
        first_uncleanable=cleanable.first_uncleanable,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        table_bytes=table_bytes,
        read_bytes=read_bytes,
        levels=[config.compression_level(name) for name in compression.CODEC_NAMES],
        producers=producers,
        unsafe_producers=unsafe_producers,
        aborted=list(_aborted(log, cleanable.first_uncleanable, blocking)),
        has_transactions=log.has_transactions,
    )


def plan_merge(
    log: Log, end_offset: int, now_ms: int, *, table_bytes: int, read_bytes: int, blocking: bool = True
) -> Job | None:
    """The job that merges small neighbours after a compaction up to an offset; None if there are none.

    Raises OSError, BadFile; WouldBlock if not `blocking`.
    """
    cleanable = CleanableRatio(end_offset, end_offset, 0, 0, 0)
    job = plan(log, cleanable, now_ms, table_bytes=table_bytes, read_bytes=read_bytes, blocking=blocking)
    groups = planning.grouped(job.segments, end_offset, job.segment_bytes, job.segment_index_bytes)
    return job if len(groups) < len(job.segments) else None


def _last_batches(log: Log, up_to: int) -> tuple[list[tuple[int, int, int]], list[int]]:
    """The `producers` and `unsafe_producers` of a job that ends at an offset below the recovery point."""
    producers, unsafe = list[tuple[int, int, int]](), list[int]()
    safe_end = log.recovery_point
    for producer_id, producer in log.producers.by_id.items():
        last = max((batch.last_offset for batch in producer.batches if batch.last_offset < safe_end), default=-1)
        if not producer.batches or 0 <= last < up_to:
            producers.append((producer_id, producer.epoch, last))
        if last < 0 and safe_end < log.end_offset:  # older batches are not remembered, or have the previous epoch
            unsafe.append(producer_id)
    return producers, unsafe


def _aborted(log: Log, up_to: int, blocking: bool) -> Iterator[tuple[int, int, int]]:
    """The aborted transactions that began before an offset: (producer id, first offset, offset of the marker)."""
    for segment in log.segments:
        if segment.aborted is not None and segment.aborted.entries:
            for aborted in parse(segment.aborted.content(blocking)):
                if aborted.first_offset < up_to:
                    yield aborted.producer_id, aborted.first_offset, aborted.last_offset
