"""A partition's log: append, read, find, roll, truncate, flush.

Synchronous and single-writer; knows nothing of connections or replication. Segments lie one behind the other, the last
is written to. What is appended is in the page cache when `append` returns, as in Apache Kafka; `flush` makes it durable
and moves `recovery_point`, below which nothing may be missing after a crash.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from random import Random

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.batch import NO_TIMESTAMP, BatchHeader, patch_head
from headgate.protocol.records.compression import Steps, finish
from headgate.protocol.records.control import Marker
from headgate.storage.cleanup import segment_deletion
from headgate.storage.cleanup.replacement import Compacted
from headgate.storage.config import LogConfig
from headgate.storage.disk.pool import Pool
from headgate.storage.log import appending, flush, rolling, snapshots, timestamp_lookup, truncation, validation
from headgate.storage.log.appending import Owner, make_room, written
from headgate.storage.log.epochs import Epochs
from headgate.storage.log.flush import Flush
from headgate.storage.log.pending_write import AppendInfo, PendingWrite
from headgate.storage.log.producers import Producers
from headgate.storage.log.segments import Segments
from headgate.storage.log.timestamp_lookup import More, TimestampOffset
from headgate.storage.log.validation import FULL, OWN
from headgate.storage.segment.file_slice import FileSlice
from headgate.storage.segment.segment import Segment
from headgate.storage.segment.transaction_index import Reaching

__all__ = ["AppendInfo", "FileSlice", "Log", "LogConfig", "TimestampOffset"]

_new_tuple = tuple.__new__  # a NamedTuple without its constructor in Python
_RECALL_BYTES = 64 * 1024 * 1024


class Log:
    """The log of one partition. Offsets: start <= stable <= end; `end_offset` is the one that comes next."""

    __slots__ = (
        "_jitter",
        "_random",
        "_segments",
        "_snapshot_offset",
        "being_written",
        "config",
        "directory",
        "end_offset",
        "epochs",
        "exclusive_locks",
        "flushing",
        "has_transactions",
        "indexes_unsynced",
        "is_ahead",
        "is_retired",
        "key",
        "last_decided_offset",
        "last_flush_ms",
        "names_unsynced",
        "owner",
        "pool",
        "producers",
        "recovery_point",
        "staged",
        "start_offset",
        "sync_error",
        "topic_id",
    )

    def __init__(
        self,
        pool: Pool,
        directory: str,
        topic: str,
        partition: int,
        topic_id: bytes | None,
        config: LogConfig,
        segments: list[Segment],
        random: Random,
    ) -> None:
        """`recovery.open_log` and `LogDirectory.create` make logs; what they know better is set by them afterwards."""
        self.pool = pool
        self._random = random
        self.directory = directory
        self.key = topic, partition
        """Whatever is kept by partition has this very tuple for its key: one for each would take half a kilobyte."""
        self.topic_id = topic_id
        self.config = config
        self._segments = Segments(segments)
        self.start_offset = self.end_offset = self.recovery_point = segments[-1].base_offset
        self.producers = Producers()
        self.epochs = Epochs(pool.files, directory)
        self._snapshot_offset = self.end_offset
        self.has_transactions = False
        """Whether there is, or was, a transaction in it."""
        self.last_decided_offset = 0
        """Below it every transaction has ended with a marker that is on the disk, as far as is known."""
        self.names_unsynced = False
        self.indexes_unsynced: list[str] = []  # of segments rolled since the last flush; and segments that were cut
        self.is_retired = False  # deleted, or about to be
        self.exclusive_locks = 0  # who works with the names of its files, in a thread: see `holding`
        self.owner: Owner | None = None
        """Without one, whoever appends waits for the disk."""
        self.flushing: Flush | None = None  # from `begin_flush` until `end_flush`
        self.last_flush_ms = 0
        self.sync_error: KafkaError | None = None
        """What kept the disk from taking the log: since then nobody knows what is on it, and no flush is made."""
        self.is_ahead = False  # of its files, which `storage.recovery.sync_failure_repair` has follow
        self.staged: PendingWrite | None = None
        self.being_written: PendingWrite | None = None  # by a thread: see `begin_write`
        self._jitter = random.random()  # the share of segment.jitter.ms that the segment being written has

    def __repr__(self) -> str:
        return f"Log({self.topic}-{self.partition}, offsets {self.start_offset} to {self.end_offset})"

    @property
    def topic(self) -> str:
        """The name of its topic."""
        return self.key[0]

    @property
    def partition(self) -> int:
        """Its number in the topic."""
        return self.key[1]

    @property
    def stable_offset(self) -> int:
        """Where the first transaction begins that is open, or ended above the high watermark as far as was told.

        The end, if there is none. See `Transactions.replicated`.
        """
        if not self.has_transactions:
            return self.end_offset
        return max(self.start_offset, min(self.producers.transactions.first_unstable, self.end_offset))

    @property
    def segments(self) -> tuple[Segment, ...]:
        """From the oldest to the one being written."""
        return tuple(self._segments)

    @property
    def active(self) -> Segment:
        """The segment that is written to."""
        return self._segments.active

    @property
    def active_base_offset(self) -> int:
        """Where the segment begins that is written to."""
        return self._segments.active.base_offset

    @property
    def compacted(self) -> Compacted:
        """What compaction did to it; made when first asked for: see `was_compacted`."""
        return self._segments.compacted

    @property
    def was_compacted(self) -> bool:
        """Whether `compacted` may say something."""
        return self._segments.were_compacted

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return self._segments.size

    @property
    def has_legacy_format(self) -> bool:
        """Whether there may be messages of magic 0 and 1 in it, as in what was adopted from Apache Kafka."""
        return self._segments.has_legacy_format

    @property
    def has_own_start(self) -> bool:
        """Whether the start is to be written down: it is within a segment, or others may come back in a crash."""
        may_come_back = self.names_unsynced or self.flushing is not None or self._segments.are_being_replaced
        return self.start_offset > (0 if may_come_back else self._segments[0].base_offset)

    # Writing

    def append(
        self,
        records: memoryview | bytearray | bytes,
        *,
        leader_epoch: int,
        now_ms: int,
        validate: str = validation.HEADER,
    ) -> AppendInfo:
        """Append a client's batches as the leader; with `validation.OWN` those of a coordinator, and its markers.

        Offsets and epoch are patched in place, or in a copy of what cannot be written to.

        Raises KafkaError: what `batch.split`, `validation` and `Producers.check` refuse, RECORD_LIST_TOO_LARGE for more
        than a segment, KAFKA_STORAGE_ERROR when the disk fails; the log is then as it was.
        """
        view = records if isinstance(records, memoryview) and not records.readonly else memoryview(bytearray(records))
        info = self.stage(view, leader_epoch, now_ms, validate)
        self.write_staged()
        return info

    def stage(
        self, view: memoryview, leader_epoch: int, now_ms: int, validate: str, gather_bytes: int = 0
    ) -> AppendInfo:
        """Append, but leave the write to `write_staged`, which must come before anything else looks into the log.

        Up to `gather_bytes` are copied; a larger `view` must stay as it is until then. Raises KafkaError as `append`
        does; what was staged before is then still staged, or was written.
        """
        config = self.config
        is_kept = (config.allows_verbatim and validate != FULL) or validate == OWN
        header = validation.plain_batch(view, config, now_ms) if is_kept else None
        if header is None:
            return appending.stage_closely(self, view, leader_epoch, now_ms, validate, gather_bytes)
        if header.producer_id >= 0:
            duplicate = self.producers.check(header, self.recall)
            if duplicate is not None:
                return appending.answer_duplicate(self, duplicate)
        first_offset, size, timestamp = self.end_offset, len(view), header.max_timestamp
        last_offset = first_offset + header.last_offset_delta
        staged = self.staged
        if staged is None or not staged.has_room(size, timestamp, last_offset, leader_epoch):
            staged = make_room(self, size, timestamp, last_offset, now_ms, leader_epoch)
        patch_head(view, 0, first_offset, header.batch_length, leader_epoch)
        staged.add(bytes(view) if size <= gather_bytes else view, size, last_offset, timestamp)
        if header.producer_id >= 0:
            staged.remember(self.producers, header.producer_id)
            self.producers.record(header, first_offset)
        self.end_offset = last_offset + 1
        return _new_tuple(AppendInfo, (first_offset, last_offset, NO_TIMESTAMP, self.start_offset, timestamp, False))

    def follow_transactions(self) -> None:
        """There are transactions from now on."""
        self.has_transactions = True
        self._segments.active.follow_transactions()

    def write_staged(self) -> None:
        """Write what `stage` took.

        Raises KafkaError(KAFKA_STORAGE_ERROR), which stands in `PendingWrite.error` too; if it was the write that
        failed, the log is then as it was before the first of it.
        """
        staged, self.staged = self.staged, None
        if staged is None:
            return
        if self.sync_error is not None:
            raise appending.take_back(self, staged, self.refusal())
        try:
            self._segments.active.append(staged.content(), staged.written, self.config.index_interval_bytes)
        except OSError as error:
            raise appending.take_back(self, staged, error) from error
        written(self, staged)

    def look_up(self) -> None:
        """Have in memory what the next append asks for. Raises WouldBlock if that is not to be had at once.

        Raises OSError and KafkaError, with which the append would be refused too.
        """
        self._segments.active.look_up()

    def begin_write(self) -> PendingWrite | None:
        """Hand out what is staged: a thread may call its `write`, then comes `end_write`. None if nothing is staged.

        What may be done with the log meanwhile says `holding`. Raises KafkaError(KAFKA_STORAGE_ERROR).
        """
        return appending.begin_write(self)

    def end_write(self, staged: PendingWrite, error: BaseException | None) -> None:
        """The write has ended. Raises KafkaError(KAFKA_STORAGE_ERROR) as `write_staged` does."""
        appending.end_write(self, staged, error)

    def recall(self, producer_id: int, end: int) -> Iterator[BatchHeader]:
        """A producer's batches up to the offset `end`, from the last part of the log that may hold them."""
        for header in self._segments.headers_before(end, _RECALL_BYTES):
            if header.producer_id == producer_id and not header.is_control:
                yield header

    def longest_ms(self) -> int:
        config = self.config
        return rolling.longest_ms(config, self._jitter) if config.segment_jitter_ms else config.max_segment_ms

    def is_aged(self, now_ms: int) -> bool:
        """Whether the segment being written has something, and was begun longer ago than segment.ms.

        An append rolls by the time of records, which may be years old: by the clock of a log that gets them all the
        time each look would roll it.
        """
        active = self._segments.active
        return active.size > 0 and now_ms - active.created_ms > self.longest_ms()

    def roll(self, now_ms: int) -> None:
        """Begin a new segment. The old one becomes durable with the next `flush`, which is then due. Raises OSError.

        May be called in a thread, for which the log is lent (`holding`).
        """
        # By name, as the bytes may be on the disk before, by a flush that is under way.
        if not self.seal():  # a roll before had come so far
            self.indexes_unsynced += self._segments.active.sealed_files
        self._begin_segment(now_ms)

    def _begin_segment(self, now_ms: int) -> None:
        if self.is_retired:
            raise OSError(errno.ESTALE, "the log was deleted; its directory may be another's by now", self.directory)
        segment = Segment.create(self.pool, self.directory, self.end_offset, now_ms)
        self._jitter = self._random.random()
        self.names_unsynced = True
        if self.has_transactions:
            segment.follow_transactions()
        self._segments.add(segment)

    def truncate_to(self, offset: int) -> None:
        """Forget everything at and behind `offset`, with the whole batch that holds it. Raises OSError."""
        truncation.truncate(self, offset)

    def cut(self, segment: Segment, position: int, offset: int) -> None:
        """Forget everything from a position on, where `offset` would be. Raises OSError."""
        self.drop_behind(segment, position)
        self.end_offset = offset
        self.epochs.truncate_to(offset)
        self.reload_producers()

    def drop_behind(self, segment: Segment, position: int) -> None:
        """Remove the bytes from a position on, and the segments behind; what else knows of them is the caller's."""
        self._segments.drop_behind(segment, position)
        # Else what was cut off could come back, in a crash, behind what is appended from now on.
        self.pool.files.sync_directory(self.directory)

    def forget_behind(self, base_offset: int, position: int, offset: int) -> None:
        """`cut` in memory alone, of what is behind a segment that was renewed up to there.

        A thread makes the producers' state anew, and changes the files.
        """
        truncation.forget_behind(self, self._segments, base_offset, position, offset)

    def forget_all(self) -> None:
        """The same from the start on."""
        truncation.forget_all(self, self._segments)

    def renew(self, segment: Segment) -> None:
        """Have a segment with its indexes made anew, all of them in memory, in the place of what there is of it."""
        segment.move_to(self.pool)
        self._segments.renew(segment)
        self.is_ahead = self.is_ahead or segment is self.active

    def restart_at(self, offset: int, now_ms: int) -> None:
        """Forget everything, and go on at `offset`. Raises OSError."""
        truncation.restart(self, self._segments, offset, now_ms)

    def reload_producers(self, known: Iterable[int] | None = None) -> None:
        """Make the producers' state anew, from the last snapshot and the batches behind it.

        `known` are the snapshots there are, if the caller has looked. Those of states behind the log's end are deleted.
        """
        finish(self.reload_producers_steps(known))

    def reload_producers_steps(
        self, known: Iterable[int] | None = None, producers: Producers | None = None
    ) -> Steps[None]:
        """The same in slices. `producers` is their state, if the caller has it."""
        files = self.pool.files
        if known is None:
            known = snapshots.offsets(files.list(self.directory))
        known = snapshots.remove_behind(files, self.directory, known, self.end_offset)
        self._snapshot_offset = self._segments[0].base_offset
        if producers is None:
            found = snapshots.replayed(files, self.directory, known, self._segments, self.end_offset)
            producers, self._snapshot_offset = yield from found
        self.take_producers(producers, self._snapshot_offset)

    @property
    def snapshot_offset(self) -> int:
        """Where the producers' state was last written down, or that was begun to be followed."""
        return self._snapshot_offset

    def take_producers(self, producers: Producers, snapshot_offset: int) -> None:
        """Have this state of the producers, which somebody else has made."""
        self.producers, self._snapshot_offset = producers, snapshot_offset
        self.has_transactions = self.has_transactions or producers.are_transactional

    def batches(self, offset: int) -> Iterator[tuple[BatchHeader, Marker | None]]:
        """What `headers` gives, each with the transaction marker in the batch, if it has one."""
        return self._segments.batches(offset)

    def headers(self, offset: int) -> Iterator[BatchHeader]:
        """The headers of all batches from the one that holds `offset` to the end.

        Raises KafkaError(KAFKA_STORAGE_ERROR) where a segment is damaged.
        """
        return self._segments.headers(offset)

    # Reading

    def read(
        self, offset: int, max_bytes: int, up_to: int, at_least_one: bool, blocking: bool = True
    ) -> FileSlice | None:
        """Plan a read of whole batches, from the one with `offset` on, `max_bytes` at most, none reaching `up_to`.

        `up_to` is a batch boundary, or the end. With `at_least_one` the first batch comes even if it is larger than
        `max_bytes`, and even if pieces of other files may keep no more of these open (`HeldFiles`). None where there is
        nothing: `offset` is `up_to`, not even one batch fits, or the file may not be kept open. Raises KafkaError:
        OFFSET_OUT_OF_RANGE outside of [start, end], KAFKA_STORAGE_ERROR. If not `blocking`, raises WouldBlock rather
        than wait for the disk.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic}-{self.partition} has offsets {self.start_offset} to {self.end_offset}, not {offset}",
            )
        if offset >= up_to:
            return None
        if not at_least_one and self.pool.held.is_full and not self._segments.owner(offset).is_lent:
            return None
        try:
            return self._segments.plan(offset, max_bytes, up_to, self.end_offset, at_least_one, blocking)
        except OSError as error:
            raise self.disk_error(error) from error

    def locate(self, offset: int) -> tuple[Segment, int]:
        """Where the batch that holds `offset`, or the next one behind it, begins. Raises OSError, KafkaError."""
        return self._segments.locate(offset)

    def aborted(self, start: int, up_to: int, piece: FileSlice | None = None, blocking: bool = True) -> Reaching:
        """The aborted transactions with records from `start` on and before `up_to`, also if none is left of these.

        With a piece that `read` planned from `start` on, little more than what concerns that. Raises
        KafkaError(KAFKA_STORAGE_ERROR), and WouldBlock if not `blocking`.
        """
        try:
            if piece is not None:
                up_to = min(up_to, self._segments.bound(start, piece, self.end_offset, blocking))
            return self._segments.aborted(start, up_to, blocking)
        except OSError as error:
            raise self.disk_error(error) from error

    def offset_for_time(
        self, timestamp_ms: int, up_to: int, more: More | None = None, blocking: bool = True
    ) -> Steps[timestamp_lookup.Found]:
        """In slices, the first record of this time or later, below `up_to`. They need nothing of the log any more.

        If they end with `More`, ask again with that. Raises KafkaError(KAFKA_STORAGE_ERROR), and WouldBlock if not
        `blocking`; the slices OSError.
        """
        start_offset = self.start_offset if more is None else max(self.start_offset, more.base_offset)
        return self._search(timestamp_lookup.first_from, blocking, start_offset, timestamp_ms, start_offset).steps(
            up_to
        )

    def max_timestamp(
        self, up_to: int, more: More | None = None, blocking: bool = True
    ) -> Steps[timestamp_lookup.Found]:
        """The same for the first record with the highest timestamp, if that is below `up_to`. Source: KIP-734."""
        return self._search(timestamp_lookup.newest, blocking, self.start_offset, self.start_offset, more).steps(up_to)

    def _search(
        self, plan: Callable[..., timestamp_lookup.Search], blocking: bool, since: int, *wanted: object
    ) -> timestamp_lookup.Search:
        try:
            return plan(self._segments.since(since), *wanted, blocking=blocking)
        except OSError as error:
            raise self.disk_error(error) from error

    def starts(self) -> list[int]:
        """Where each segment begins, the oldest first, and where the last one ends, if there is anything in it."""
        found = [max(segment.base_offset, self.start_offset) for segment in self._segments]
        return [*found, self.end_offset] if self._segments.active.size else found

    def modified_ms(self) -> list[int]:
        """When each segment was last written to, the oldest first. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        try:
            return [segment.modified_ms for segment in self._segments]
        except OSError as error:
            raise self.disk_error(error) from error

    # Upkeep

    def begin_segment_deletion(
        self, now_ms: int, up_to: int, most: int | None = None, *, blocking: bool = True
    ) -> segment_deletion.SegmentDeletion | None:
        """Give up the oldest segments, `most` at most, that retention does not keep, below the high watermark `up_to`.

        They are to be run, in any thread, and handed to `end_segment_deletion`. None if there are none, or not now: see
        `holding`. Raises OSError, of these WrongIndex for `mending.remake_steps`; WouldBlock if not `blocking`.
        """
        with self.pool.waiting(blocking):
            return segment_deletion.begin(self, self._segments, now_ms, up_to, most)

    def end_segment_deletion(self, expired: segment_deletion.SegmentDeletion) -> None:
        """They were run: those that are left are tried again with the next ones."""
        segment_deletion.end(self, self._segments, expired)

    def all_expired(self, now_ms: int, up_to: int, *, blocking: bool = True) -> bool:
        """Whether nothing in the log is kept, so that its only segment may go too: see `leave`.

        Raises OSError; WouldBlock if not `blocking`.
        """
        if len(self._segments) > 1 or not self.active.size:
            return False
        with self.pool.waiting(blocking):
            return segment_deletion.expired(self, self._segments, now_ms, up_to) > 0

    def leave(self, now_ms: int) -> None:
        """Begin a new segment behind one that is to be deleted: unlike `roll` that needs no room on the disk.

        Raises OSError.
        """
        with suppress(OSError):  # where there is no room for it now, it is written with the next segment
            self._take_snapshot()
        self._begin_segment(now_ms)

    def advance_start(self, offset: int) -> None:
        """Records before `offset` are no longer to be had; their segments go with `begin_segment_deletion`."""
        if offset > self.start_offset:
            self.start_offset = offset
            self.epochs.start_from(offset)

    # Flushing: see `storage.log.flush`

    def flush(self, now_ms: int | None = None) -> None:
        """Make everything appended so far durable. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        flush.make(self, now_ms)

    def begin_flush(self) -> Flush:
        """What makes everything written so far durable; to be run, in any thread, and handed to `end_flush`.

        Raises OSError, and then nothing is changed; KafkaError(KAFKA_STORAGE_ERROR) after one that failed.
        """
        return flush.begin(self)

    def end_flush(self, made: Flush, now_ms: int | None = None) -> None:
        """A flush was run: the log is safe up to its end, or `sync_error` says why not. What it did not do is due."""
        flush.end(self, made, now_ms)

    def fail(self, error: OSError) -> None:
        """Refuse appends and flushes after a failed sync, until `storage.recovery.sync_failure_repair` is done."""
        flush.fail(self, error)

    def repaired(self) -> None:
        """Everything there is was checked, and is on the disk."""
        self.sync_error, self.is_ahead = None, False
        self.flushed()

    def write_epochs(self) -> None:
        """Write the leader epochs down, in any thread; a flush does that too. Raises OSError."""
        if self.epochs.is_stale and not self.is_retired:
            with suppress(FileNotFoundError):  # deleted in this moment
                self.epochs.begin_write()()

    def flushed(self) -> None:
        """Everything appended so far is on the disk: the whole file system was synced."""
        self.recovery_point = self.end_offset
        self.epochs.is_synced, self.names_unsynced = not self.epochs.is_stale, False
        self.indexes_unsynced.clear()

    def since(self, offset: int) -> list[Segment]:
        """The segments from the one with an offset on."""
        return self._segments.since(offset)

    def seal(self) -> bool:
        """Write out the indexes, and the producers' state; whether there were indexes to write. Raises OSError."""
        is_changed = self._segments.seal(self.indexes_unsynced)
        self._take_snapshot()
        return is_changed

    def _take_snapshot(self) -> None:
        if self._snapshot_offset < self.end_offset:
            snapshots.save(self.pool.files, self.directory, self.end_offset, self.producers)
            self._snapshot_offset = self.end_offset

    def finish(self) -> bool:
        """Write what lets the next start do without a scan; whether something needs a flush now.

        Raises KafkaError(KAFKA_STORAGE_ERROR).
        """
        return flush.finish(self)

    def close(self) -> None:
        """Finish, make everything durable, and close the files. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        if self.finish():
            self.flush()
        self.release()

    def move_to(self, pool: Pool) -> None:
        """Share this pool from now on; the files are closed, and nothing is loaded."""
        pool.doomed.extend(self.pool.doomed)
        self.pool = pool
        for segment in self._segments:
            segment.move_to(pool)

    def release(self) -> None:
        """Close the files and no more; they are opened again where they are needed."""
        for segment in self._segments:
            segment.close()

    def retire(self) -> None:
        """Close the files for good: the directory goes, and its name may become another's."""
        self.is_retired = True
        for segment in self._segments:
            segment.retire()

    def refusal(self) -> KafkaError:
        """`sync_error` to be raised: a new one each time, as what is raised keeps where it was."""
        assert self.sync_error is not None
        return KafkaError(self.sync_error.code, self.sync_error.message)

    def disk_error(self, error: OSError) -> KafkaError:
        """What clients are told of an error of the disk."""
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the disk of {self.topic}-{self.partition} refuses: {error}")
