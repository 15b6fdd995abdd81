"""Compaction: the keys of a log's dirty part, and segments written anew without the records that are of no use.

Everything here only reads closed segments and writes files named `.cleaned`, in slices, so that it may run in a thread
or in a process of its own, which is given a `Job` and no log. `replacement` then puts a new segment in the place of the
old ones, on the loop. Memory: the table of keys, within `Job.table_bytes`, and a few batches; where the table is full,
the rest of the dirty part is left for the next time.

Batches keep their offsets, producer fields, codec and timestamps. What stays whole is copied as it is. A batch that
cannot be read to its end, which `headgate.validate.records=header` lets in, stays as it is too, and its keys count for
nothing. A wrong CRC ends the compaction: it would be made right. Source: Apache Kafka's `Cleaner` and
`MemoryRecords.filterTo`.
"""

from __future__ import annotations

import errno
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from protocol.errors import ErrorCode, KafkaError
from protocol.records import batch, compression, control, filtering
from protocol.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    HEADER_SIZE,
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
)
from protocol.records.compression import Steps
from protocol.records.control import UNKNOWN, Marker
from storage import cleaner, replacement
from storage.aborted import Aborted, parse
from storage.cleaner import AbortedTransaction, CleanedTransactions, Dirt, Fate, LastBatch, LogFacts, SegmentFacts
from storage.config import LONG_MAX
from storage.log import Log
from storage.pool import Pool
from storage.replacement import CLEANED_SUFFIX
from storage.segment import LOG_SUFFIX, Segment, Written
from storage.transactions import Transactions

MAX_SEGMENT_BYTES = 0x7FFF_FFFF
MOST_UNPLAIN = 100_000
_WRITE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Job:
    """One compaction, as plain values. `segments`: all that may be rewritten; the last ends at `first_uncleanable`.

    `producers`: id, epoch and last offset of what each producer wrote last; `aborted`: producer id, first
    offset, and that of the marker.
    `has_transactions`: segments have indexes of aborted transactions. `levels`: of each codec, by its number. Sizes in
    bytes.
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
    aborted: Sequence[tuple[int, int, int]]
    has_transactions: bool

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> Job:
        """From what `dataclasses.asdict` gives, also by way of JSON."""
        return cls(**{**values, "segments": [SegmentFacts(*facts) for facts in values["segments"]]})


class Collected(NamedTuple):
    """The keys were collected up to `end_offset`. `groups`: the base offsets of segments that become one."""

    end_offset: int
    groups: list[list[int]]
    keys: int


class Rewritten(NamedTuple):
    """A group as one new segment, on the disk: the sizes of its `.log`, `.index`, `.timeindex`, `.txnindex`.

    Without `is_changed` nothing could be left out, and no file is there.
    """

    is_changed: bool
    sizes: tuple[int, int, int, int]
    read_bytes: int
    records: int
    kept_records: int
    unreadable_batches: int


class Damaged(Exception):
    """A segment is not what was written. Compaction does not touch it."""


class Compaction:
    """The work on one job: `collect`, then `rewrite` each group in its order. `moved_bytes`: read and written yet."""

    def __init__(self, pool: Pool, job: Job) -> None:
        self._pool = pool
        self._job = job
        self._table: filtering.Table = {}
        self._latest = -1
        self._transactions = self._transactions_since(0)
        # What is left of the dirty part, and the batches of it of which that does not tell all: those that did not
        # count, and those with deletions. Where they are too many, they are all of one kind.
        self._survivors: list[int] = []
        self._unplain: set[int] = set()
        self._plain_until = cleaner.NO_OFFSET
        self._held: dict[int, int] = {}  # producer -> first offset of an aborted transaction that ends behind all
        self._producers = {producer_id: LastBatch(*last) for producer_id, *last in job.producers}
        self._facts = {facts.base_offset: facts for facts in job.segments}
        self._written = Transactions()  # those of what was rewritten yet
        self.moved_bytes = 0

    def _transactions_since(self, offset: int) -> CleanedTransactions:
        aborted = map(AbortedTransaction._make, self._job.aborted)
        return CleanedTransactions(its for its in aborted if its.marker_offset >= offset)

    # The keys

    def collect(self) -> Steps[Collected]:
        """The keys of the dirty part, or of as much of it as there is room for; yields often. Raises OSError, Damaged.

        Records of aborted transactions do not count, as they stand for nothing.
        """
        job, segments = self._job, self._job.segments
        capacity, is_full = max(1, job.table_bytes // filtering.ENTRY_BYTES), False
        self._latest = job.first_dirty - 1
        ends = [*(facts.base_offset for facts in segments[1:]), job.first_uncleanable]
        transactions = self._transactions_since(job.first_dirty)
        for facts, end in zip(segments, ends, strict=True):
            if end > job.first_dirty and not is_full:
                is_full = yield from self._collect(facts, transactions, capacity)
                if not is_full:
                    self._latest = end - 1
        self._survivors = sorted(self._table.values())
        end_offset = self._latest + 1
        wanted = [facts for facts in segments if facts.base_offset < end_offset]
        last = ends[len(wanted) - 1]
        # Else the index of a later segment would tell of records that are not there.
        self._held = {producer_id: first for producer_id, first, marker in job.aborted if first < last <= marker}
        groups = cleaner.grouped(wanted, last, min(job.segment_bytes, MAX_SEGMENT_BYTES), job.segment_index_bytes)
        if job.first_dirty == job.first_uncleanable and not job.has_transactions:
            groups = [group for group in groups if len(group) > 1]  # all that is to be done is to merge
        return Collected(end_offset, [[facts.base_offset for facts in group] for group in groups], len(self._table))

    def _collect(self, facts: SegmentFacts, transactions: CleanedTransactions, capacity: int) -> Steps[bool]:
        """Take up the keys of one segment; whether it ended before because there was no more room."""
        table = self._table
        for header, view, _ in self._batches(facts):
            if header.last_offset < self._job.first_dirty:
                continue
            if header.is_control:
                transactions.marker_may_go(header, _kind(header, view))
            elif transactions.may_go(header):
                self._note_unplain(header)
            elif header.records_count:
                keys, is_plain = yield from self._keys(header, view)
                if table and len(table) + len(keys) > capacity:
                    added = sum(key not in table for key in keys)
                    if len(table) + added > capacity:
                        return True
                table.update(keys)
                if not is_plain:
                    self._note_unplain(header)
            self._latest = header.last_offset
            yield
        return False

    def _keys(self, header: BatchHeader, view: memoryview) -> Steps[filtering.Keys]:
        try:
            return (yield from filtering.key_steps(header, _records(header, view)))
        except KafkaError:
            return filtering.Keys({}, is_plain=False)

    def _note_unplain(self, header: BatchHeader) -> None:
        if len(self._unplain) < MOST_UNPLAIN:
            self._unplain.add(header.base_offset)
        else:
            self._plain_until = min(self._plain_until, header.base_offset)

    # The segments

    def rewrite(self, bases: Sequence[int]) -> Steps[Rewritten]:
        """Write the segments of a group, given by their base offsets, as one; yields often. Raises OSError, Damaged."""
        job = self._job
        replacement.remove(self._pool.files, job.directory, bases[0])
        new = Segment.create(self._pool, job.directory, bases[0], job.now_ms, CLEANED_SUFFIX)
        try:
            rewriting = _Rewriting(new, job.index_interval_bytes)
            for base in bases:
                yield from self._rewrite(self._facts[base], rewriting, is_last_segment=base == bases[-1])
            rewriting.flush()
            if job.has_transactions:
                new.follow_transactions(rewriting.aborted)
            self.moved_bytes += new.size
            is_changed = rewriting.is_changed or len(bases) > 1
            if is_changed and new.size:
                self._finish(new, bases[-1])
        except BaseException:
            new.close()
            replacement.remove(self._pool.files, job.directory, bases[0])
            raise
        new.close()
        if not is_changed or not new.size:
            replacement.remove(self._pool.files, job.directory, bases[0])
        sizes = (new.size, new.offsets.size, new.times.size, -1 if new.aborted is None else new.aborted.size)
        read_bytes = sum(self._facts[base].size for base in bases)
        counts = (rewriting.records, rewriting.kept_records, rewriting.unreadable_batches)
        return Rewritten(is_changed and new.size > 0, sizes, read_bytes, *counts)

    def _finish(self, new: Segment, last: int) -> None:
        """Bring it to the disk, as old as the last one that it replaces: who goes by the time of a file sees no news.

        The names are synced when it replaces the old ones.
        """
        new.seal()
        files, path = self._pool.files, self._path(last)
        files.set_modified_ms(new.path, files.modified_ms(path))
        new.sync()

    def _rewrite(self, facts: SegmentFacts, rewriting: _Rewriting, *, is_last_segment: bool) -> Steps[None]:
        for header, view, end in self._batches(facts):
            is_last = is_last_segment and end == facts.size
            made = yield from self._clean(header, view, rewriting, is_last_of_group=is_last)
            if made is not view:
                rewriting.is_changed = True
            if made is not None:
                its_header = header if made is view else batch.read_header(made)
                rewriting.add(made, its_header)
                self._follow(its_header, made, rewriting)
            yield

    def _follow(self, header: BatchHeader, data: Buffer, rewriting: _Rewriting) -> None:
        """Note the aborted transactions of which anything is left, as whoever makes the index from the log will."""
        if header.attributes & control.TRANSACTION_BITS:
            marker = _marker(header, data) if header.is_control else None
            aborted = self._written.follow(header, header.base_offset, marker)
            if aborted is not None:
                rewriting.aborted.append(aborted)

    def _clean(
        self, header: BatchHeader, view: memoryview, rewriting: _Rewriting, *, is_last_of_group: bool
    ) -> Steps[Buffer | None]:
        """What becomes of a batch: itself, another one, or nothing."""
        now_ms, horizon = self._job.now_ms, header.delete_horizon_ms
        if header.is_control:
            has_nothing_to_mark = self._transactions.marker_may_go(header, _kind(header, view))
            may_go = has_nothing_to_mark and horizon is not None and horizon <= now_ms
        else:
            has_nothing_to_mark, may_go = False, self._transactions.may_go(header)
            if may_go and self._held.get(header.producer_id, header.base_offset + 1) <= header.base_offset:
                rewriting.records += header.records_count
                rewriting.kept_records += header.records_count
                return view
        last = self._producers.get(header.producer_id)
        fate = cleaner.fate(header, records_may_go=may_go, is_last_of_group=is_last_of_group, last=last)
        rewriting.records += header.records_count
        if fate is Fate.DROP:
            return None
        if not header.records_count:
            return None if fate is Fate.FILTER else view
        if fate is Fate.EMPTY:
            return _empty(header)
        if header.is_control:
            rewriting.kept_records += header.records_count
            if not has_nothing_to_mark or horizon is not None:
                return view
            kept = filtering.Kept()
            kept.parts, kept.count = [bytes(view[HEADER_SIZE:])], header.records_count
            return (yield from self._rebuild(header, kept, begins_delay=True))
        try:
            return (yield from self._filter(header, view, rewriting, fate))
        except KafkaError:
            rewriting.unreadable_batches += 1
            rewriting.kept_records += header.records_count
            return view

    def _filter(self, header: BatchHeader, view: memoryview, rewriting: _Rewriting, fate: Fate) -> Steps[Buffer | None]:
        """A batch of records without those that may go. Raises KafkaError where it cannot be read."""
        if self._is_plain(header):
            return (yield from self._pick(header, view, rewriting, fate))
        horizon = header.delete_horizon_ms
        table = None if header.base_offset > self._latest else self._table
        keeps_tombstones = horizon is None or self._job.now_ms < horizon
        kept = yield from filtering.filter_steps(
            header, _records(header, view), table, keeps_tombstones=keeps_tombstones
        )
        begins_delay = kept.tombstones > 0 and horizon is None
        made: Buffer | None = view
        if not kept.count:
            made = None if fate is Fate.FILTER else _empty(header)
        elif kept.count < header.records_count or begins_delay:
            made = yield from self._rebuild(header, kept, begins_delay=begins_delay)
        rewriting.kept_records += kept.count
        return made

    def _is_plain(self, header: BatchHeader) -> bool:
        """Whether the offsets of survivors tell all of this batch."""
        base_offset = header.base_offset
        is_collected = header.last_offset >= self._job.first_dirty and base_offset <= self._latest
        return is_collected and base_offset < self._plain_until and base_offset not in self._unplain

    def _pick(self, header: BatchHeader, view: memoryview, rewriting: _Rewriting, fate: Fate) -> Steps[Buffer | None]:
        """The same by the offsets of survivors: most batches need not even be decompressed."""
        survivors = self._survivors
        first = bisect_left(survivors, header.base_offset)
        offsets = survivors[first : bisect_right(survivors, header.last_offset, first)]
        rewriting.kept_records += len(offsets)
        if not offsets:
            return None if fate is Fate.FILTER else _empty(header)
        if len(offsets) == header.records_count:
            return view
        kept = yield from filtering.pick_steps(header, _records(header, view), offsets)
        return (yield from self._rebuild(header, kept, begins_delay=False))

    def _rebuild(self, header: BatchHeader, kept: filtering.Kept, *, begins_delay: bool) -> Steps[Buffer]:
        """The batch with these records. `begins_delay`: of now, until what has no value may go.

        Raises KafkaError for times that a header cannot hold.
        """
        body, count = b"".join(kept.parts), kept.count
        newest = filtering.newest_time(header, body, count)
        if not MIN_TIMESTAMP <= newest <= MAX_TIMESTAMP:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"a record has the timestamp {newest}")
        base_timestamp, attributes = header.base_timestamp, header.attributes
        if begins_delay:
            horizon = min(self._job.now_ms + self._job.delete_retention_ms, LONG_MAX)
            body = yield from filtering.move_times_steps(body, count, base_timestamp - horizon)
            base_timestamp, attributes = horizon, attributes | DELETE_HORIZON
        codec = header.compression
        packed: Buffer = body
        if codec != compression.NONE:
            packed = yield from compression.compress_steps(codec, body, self._job.levels[codec])
        return batch.with_records(
            header._replace(
                attributes=attributes, base_timestamp=base_timestamp, max_timestamp=newest, records_count=count
            ),
            packed,
        )

    # Reading

    def _path(self, base_offset: int) -> str:
        return f"{self._job.directory}/{base_offset:020d}{LOG_SUFFIX}"

    def _batches(self, facts: SegmentFacts) -> Iterator[tuple[BatchHeader, memoryview, int]]:
        """Each batch of a segment with where it ends. Raises Damaged, OSError."""
        path, size = self._path(facts.base_offset), facts.size
        file = self._pool.files.open(path)
        try:
            position = start = 0
            window = memoryview(b"")
            while position < size:
                try:
                    header = batch.read_header(window, position - start) if position - start < len(window) else None
                except KafkaError:
                    header = None
                if header is None or position - start + header.size > len(window):
                    window = memoryview(file.read_at(min(self._job.read_bytes, size - position), position))
                    start, header = position, _header(window, path, position)
                    if header.size > len(window):
                        window = memoryview(file.read_at(min(header.size, size - position), position))
                view = window[position - start : position - start + header.size]
                if len(view) < header.size or not batch.check_crc(view):
                    raise Damaged(
                        f"{path}, byte {position}, offset {header.base_offset}: the CRC of the batch is wrong"
                    )
                position += header.size
                self.moved_bytes += header.size
                yield header, view, position
        finally:
            file.release()


class _Rewriting:
    """A new segment in the making."""

    def __init__(self, segment: Segment, index_interval_bytes: int) -> None:
        self._segment = segment
        self._interval_bytes = index_interval_bytes
        self._parts: list[Buffer] = []
        self._written: list[Written] = []
        self._size = 0
        self.aborted: list[Aborted] = []
        self.is_changed = False
        self.records = self.kept_records = self.unreadable_batches = 0

    def add(self, data: Buffer, header: BatchHeader) -> None:
        self._parts.append(data)
        self._written.append((len(data), header.last_offset, header.max_timestamp))
        self._size += len(data)
        if self._size >= _WRITE_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._segment.size + self._size > MAX_SEGMENT_BYTES:
            raise Damaged(f"{self._segment.path} would be larger than an index can tell of")
        if self._size:
            self._segment.append(b"".join(self._parts), self._written, self._interval_bytes)
        self._parts, self._written, self._size = [], [], 0


def _header(window: memoryview, path: str, position: int) -> BatchHeader:
    try:
        return batch.read_header(window)
    except KafkaError as error:
        raise Damaged(f"{path}, byte {position}: {error.message}") from None


def _records(header: BatchHeader, view: memoryview) -> bytes:
    """Raises KafkaError where they cannot be decompressed."""
    return bytes(compression.decompress(header.compression, view[HEADER_SIZE:]))


def _kind(header: BatchHeader, view: Buffer) -> int | None:
    """What a control batch says; None if its record was taken out, UNKNOWN if it is nothing that is known here."""
    if not header.records_count:
        return None
    marker = _marker(header, view)
    if marker is None:
        return UNKNOWN
    return control.COMMIT if marker.is_commit else control.ABORT


def _marker(header: BatchHeader, view: Buffer) -> Marker | None:
    return control.read(view) if header.records_count else None


def _empty(header: BatchHeader) -> bytearray:
    """A batch with no records, for the sake of its offsets and its producer. Source: `writeEmptyHeader` of Kafka."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON)
    return batch.with_records(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, records_count=0), b"")


# From a log to a job, and back


def assess(log: Log, now_ms: int, up_to: int) -> Dirt:
    """How dirty a log is, below the high watermark `up_to`. Raises OSError."""
    return cleaner.assess(_facts(log, up_to), log.config, now_ms)


def _facts(log: Log, up_to: int) -> LogFacts:
    with_ages = log.config.max_compaction_lag_ms != LONG_MAX  # else nobody asks, and it has to be read from the file
    with_times = log.config.min_compaction_lag_ms > 0
    segments = log.segments
    for number, segment in enumerate(segments[:-1]):  # messages of magic 0 and 1 are left alone, with all before them
        if segment.holds_messages:
            segments = log.segments[number + 1 :]
    active = log.segments[-1]
    facts = [
        SegmentFacts(
            segment.base_offset,
            segment.size,
            segment.offsets.size,
            segment.times.size,
            segment.max_timestamp if with_times and segment is not active else NO_TIMESTAMP,
            segment.first_timestamp if with_ages and segment is not active and segment.size else NO_TIMESTAMP,
        )
        for segment in segments
    ]
    start_offset = max(log.start_offset, facts[0].base_offset)
    limit = min(up_to, log.stable_offset, log.recovery_point)
    return LogFacts(facts, start_offset, log.end_offset, log.compacted.offset, limit)


def plan(log: Log, dirt: Dirt, now_ms: int, *, table_bytes: int, read_bytes: int) -> Job:
    """The job of cleaning what `assess` has found. Raises OSError, BadFile for a damaged index."""
    log.compacted.finish()
    config = log.config
    facts = [facts for facts in _facts(log, log.end_offset).segments if facts.base_offset < dirt.first_uncleanable]
    producers = [
        (producer_id, producer.epoch, producer.batches[-1].last_offset if producer.batches else -1)
        for producer_id, producer in log.producers.by_id.items()
        if not producer.batches or producer.batches[-1].last_offset < dirt.first_uncleanable
    ]
    return Job(
        directory=log.directory,
        segments=facts,
        first_dirty=dirt.first_dirty,
        first_uncleanable=dirt.first_uncleanable,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        table_bytes=table_bytes,
        read_bytes=read_bytes,
        levels=[config.compression_level(name) for name in compression.type_names],
        producers=producers,
        aborted=list(_aborted(log, dirt.first_uncleanable)),
        has_transactions=log.has_transactions,
    )


def plan_merge(log: Log, end_offset: int, now_ms: int, *, table_bytes: int, read_bytes: int) -> Job | None:
    """What follows a compaction up to an offset: that neighbours which have become small by it become one.

    None where there are none. Raises OSError, BadFile.
    """
    dirt = Dirt(end_offset, end_offset, 0, 0, 0)
    job = plan(log, dirt, now_ms, table_bytes=table_bytes, read_bytes=read_bytes)
    groups = cleaner.grouped(job.segments, end_offset, job.segment_bytes, job.segment_index_bytes)
    return job if len(groups) < len(job.segments) else None


def _aborted(log: Log, up_to: int) -> Iterator[tuple[int, int, int]]:
    """The aborted transactions that began before an offset: producer id, first offset, and that of the marker."""
    for segment in log.segments:
        if segment.aborted is not None and segment.aborted.entries:
            for aborted in parse(segment.aborted.content()):
                if aborted.first_offset < up_to:
                    yield aborted.producer_id, aborted.first_offset, aborted.last_offset


def new_segment(log: Log, bases: Sequence[int], rewritten: Rewritten, now_ms: int) -> Segment:
    """The segment that `Compaction.rewrite` has left, to be handed to `Compacted.begin`."""
    return Segment(log.pool, log.directory, bases[0], rewritten.sizes, now_ms, CLEANED_SUFFIX)


# A round


class Collect(NamedTuple):
    """Have a worker do `Compaction.collect`; the answer is a Collected."""

    job: Job


class Rewrite(NamedTuple):
    """Have it do `Compaction.rewrite`; the answer is a Rewritten."""

    bases: list[int]


class Sync(NamedTuple):
    """Have a thread do what waits for the disk."""

    work: Callable[[], None]


Request = Collect | Rewrite | Sync


class Gone(Exception):
    """The log, or what was to be replaced of it, is not there any more; nothing is wrong."""


class Round:
    """One compaction of one log. `table_bytes` and `read_bytes` are those of `Job`."""

    def __init__(
        self,
        log: Log,
        dirt: Dirt,
        now_ms: int,
        *,
        table_bytes: int,
        read_bytes: int,
        is_current: Callable[[], bool] = lambda: True,
    ) -> None:
        self._log = log
        self._dirt = dirt
        self._now_ms = now_ms
        self._table_bytes, self._read_bytes = table_bytes, read_bytes
        self._is_current = is_current
        self._cuts = log.compacted.cuts
        self.before_bytes = log.size
        self.records = self.kept_records = self.unreadable_batches = 0

    def steps(self) -> Generator[Request, Any, None]:
        """All of it; what takes long is asked for, and what is between is done at once, by the thread of the log.

        Raises OSError, KafkaError and BadFile for a damaged index, Gone, and what is thrown in as an answer.
        """
        log, sizes = self._log, {"table_bytes": self._table_bytes, "read_bytes": self._read_bytes}
        yield from self._finish_last()
        job = plan(log, self._dirt, self._now_ms, **sizes)
        collected = yield Collect(job)
        for bases in collected.groups:
            rewritten = yield from self._rewrite(bases)
            self.records += rewritten.records
            self.kept_records += rewritten.kept_records
            self.unreadable_batches += rewritten.unreadable_batches
        self._check()
        log.compacted.offset = collected.end_offset
        # Those that are small now become one.
        merge = plan_merge(log, collected.end_offset, self._now_ms, **sizes)
        if merge is not None:
            for bases in (yield Collect(merge)).groups:
                yield from self._rewrite(bases)
            self._check()

    @property
    def _is_sound(self) -> bool:
        """Whether the log is there, is to be compacted, and what is known of its keys was not cut off."""
        return not self._log.is_retired and self._is_current() and self._log.compacted.cuts == self._cuts

    def _check(self) -> None:
        if not self._is_sound:
            raise Gone("the log is gone, or was cut, or is not compacted any more")

    def _finish_last(self) -> Generator[Request, Any, None]:
        """What the last replacement has left."""
        compacted = self._log.compacted
        if compacted.unfinished is not None:
            compacted.unfinished.rename_old()
            yield Sync(compacted.unfinished.sync)
            if self._log.is_retired:
                raise Gone("the log was deleted")
            compacted.finish()

    def _rewrite(self, bases: list[int]) -> Generator[Request, Any, Rewritten]:
        """Have a group written anew, and take it up, unless its segments are gone, or there is no room for it."""
        log = self._log
        self._check()
        old = log.compacted.closed(bases)
        if old is None:
            raise Gone("segments were deleted")
        needed = sum(segment.size for segment in old)
        _, free = log.pool.files.space(log.directory)
        if free < needed:
            raise OSError(errno.ENOSPC, f"a new segment may need {needed} bytes of space, and {free} are left")
        rewritten: Rewritten = yield Rewrite(bases)
        if rewritten.is_changed:
            yield from self._replace(bases, rewritten)
        return rewritten

    def _replace(self, bases: list[int], rewritten: Rewritten) -> Generator[Request, Any, None]:
        log = self._log
        old = log.compacted.closed(bases)
        if old is None or not self._is_sound:
            if not log.is_retired:  # else the directory may be another's by now
                yield Sync(partial(replacement.remove, log.pool.files, log.directory, bases[0]))
            raise Gone("segments were deleted, or the log was")
        replaced = log.compacted.begin(log.pool.files, old, new_segment(log, bases, rewritten, self._now_ms))
        error = None
        try:
            yield Sync(replaced.run)
        except Exception as failure:  # noqa: BLE001 - raised below
            error = failure
        if log.is_retired:
            raise Gone("the log was deleted")
        is_done = log.compacted.end(replaced, log.config.file_delete_delay_ms)
        yield from self._finish_last()
        if error is not None:
            raise error
        if not is_done:
            raise Gone("segments were deleted")


def go_on(steps: Generator[Request, Any, None], answer: object) -> Request:
    """What a round asks for next, after an answer: None at first; an exception is thrown in. Raises StopIteration."""
    return steps.throw(answer) if isinstance(answer, BaseException) else steps.send(answer)


def compact(log: Log, now_ms: int, up_to: int | None = None, *, table_bytes: int = 1 << 27) -> bool:
    """Compact a log once, at once, however clean it is; whether there was anything to do. Raises OSError, Damaged."""
    dirt = assess(log, now_ms, log.end_offset if up_to is None else up_to)
    if not dirt.dirty_bytes:
        return False
    steps = Round(log, dirt, now_ms, table_bytes=table_bytes, read_bytes=_WRITE_BYTES).steps()
    answer: object = None
    work: Compaction | None = None
    while True:
        try:
            request = go_on(steps, answer)
        except StopIteration:
            return True
        try:
            if isinstance(request, Collect):
                work = Compaction(log.pool, request.job)
                answer = compression.finish(work.collect())
            elif isinstance(request, Rewrite):
                assert work is not None
                answer = compression.finish(work.rewrite(request.bases))
            else:
                answer = request.work()
        except BaseException as error:  # noqa: BLE001 - for the round to raise
            answer = error
