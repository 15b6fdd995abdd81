"""A partition's log: append, read, find, roll, truncate, flush.

Synchronous and single-writer; knows nothing of connections or replication. Segments are in order; appends go to the
last. Appended bytes are in the page cache when `append` returns, as in Apache Kafka; `flush` makes them durable and
moves `recovery_point`, below which nothing may be missing after a crash.

`LogState` has the values, `Segments` the files; `Log` alone changes both.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from headgate.protocol.errors import ErrorCode, KafkaError, without_frames
from headgate.protocol.records import control
from headgate.protocol.records.batch import NO_TIMESTAMP, TRANSACTIONAL, BatchHeader, patch, patch_head
from headgate.protocol.records.control import Marker
from headgate.protocol.steps import Steps, finish
from headgate.storage.config import LOG_APPEND_TIME, LogConfig
from headgate.storage.disk.layout import PARTITION_METADATA
from headgate.storage.disk.pool import Pool
from headgate.storage.files import parent
from headgate.storage.log import rolling, snapshots, validation
from headgate.storage.log.flush import MAX_SEGMENTS, Flush, hold
from headgate.storage.log.log_lock import BY_NAME, DELETING
from headgate.storage.log.pending_write import MAX_BATCHES, MAX_STAGED_BYTES, AppendInfo, Owner, PendingWrite
from headgate.storage.log.producers import Producers, WrittenBatch
from headgate.storage.log.reading import LogReader
from headgate.storage.log.segment_deletion import SegmentDeletion
from headgate.storage.log.timestamp_lookup import TimestampOffset
from headgate.storage.log.validation import HEADER, OWN_BATCHES, OWN_RAISED
from headgate.storage.segment.file_slice import FileSlice
from headgate.storage.segment.index import MAX_RELATIVE_OFFSET
from headgate.storage.segment.segment import Segment

__all__ = ["AppendInfo", "FileSlice", "Log", "LogConfig", "TimestampOffset"]


class Made(NamedTuple):
    """A batch that the broker itself has just made; `marker`: what a control batch says."""

    marker: Marker | None = None


_new_tuple = tuple.__new__  # a NamedTuple without its constructor in Python
_RECALL_BYTES = 64 * 1024 * 1024


class Log(LogReader):
    """The log of one partition. Offsets: start <= stable <= end; `end_offset` is the next offset."""

    __slots__ = ()

    def configure(self, config: LogConfig) -> None:
        """Use these settings from now on."""
        self.config = config

    def share_topic_id(self, topic_id: bytes) -> None:
        """Use this object for the topic's id, as all partitions of the topic do."""
        self.topic_id = topic_id

    # Writing

    def append(
        self,
        records: memoryview | bytearray | bytes,
        *,
        leader_epoch: int,
        now_ms: int,
        validate: str = validation.HEADER,
        owner: Owner | None = None,
    ) -> AppendInfo:
        """Append a client's batches as the leader; with `validation.OWN` a coordinator's batches and markers.

        Offsets and epoch are patched in place, or in a copy of a read-only buffer. `owner` has threads wait for the
        disk; without an owner this call waits.

        Raises UnverifiedTransaction for the first batch of a client's transaction. Raises KafkaError: the errors of
        `batch.split`, `validation` and `Producers.check`; RECORD_LIST_TOO_LARGE for more than a segment;
        KAFKA_STORAGE_ERROR when the disk fails. The log is then unchanged.
        """
        view = records if isinstance(records, memoryview) and not records.readonly else memoryview(bytearray(records))
        info = self.stage(view, leader_epoch, now_ms, validate, owner=owner)
        self.write_staged()
        return info

    def stage(
        self,
        view: memoryview,
        leader_epoch: int,
        now_ms: int,
        validate: str,
        gather_bytes: int = 0,
        owner: Owner | None = None,
        made: Made | None = None,
    ) -> AppendInfo:
        """Append, but leave the write to `write_staged`, which must come before any read of the log.

        A `view` of up to `gather_bytes` is copied; a larger one must not change until the write. `made`: the caller has
        just made the batch, so that nothing about it has to be checked or read. Raises KafkaError as `append` does;
        earlier staged batches are then still staged, or written.
        """
        config = self.config
        if validate == HEADER:
            header = validation.plain_batch(view, config, now_ms) if config.allows_verbatim else None
        elif made is not None:
            header = validation.made_batch(view, config)
        else:
            header = validation.kept_batch(view, config, now_ms, validate)
        if header is None:
            return self._stage_closely(view, leader_epoch, now_ms, validate, gather_bytes, owner)
        producer_id, marker = header.producer_id, None
        if producer_id >= 0:
            if header.attributes >= TRANSACTIONAL:
                marker = self._check_transaction(header, view, validate, made)
            if marker is None:
                duplicate = self.producers.check(header, self.recall)
                if duplicate is not None:
                    return self._duplicate(duplicate)
        first_offset, size, timestamp = self.end_offset, len(view), header.max_timestamp
        last_offset = first_offset + header.last_offset_delta
        staged = self.staged
        if staged is None or not staged.has_room(size, timestamp, last_offset, leader_epoch):
            staged = self._make_room(size, timestamp, last_offset, now_ms, leader_epoch, owner)
        patch_head(view, 0, first_offset, header.batch_length, leader_epoch)
        staged.add(bytes(view) if size <= gather_bytes else view, size, last_offset, timestamp)
        if producer_id >= 0:
            staged.remember(self.producers, producer_id)
            aborted = self.producers.record(header, first_offset, marker)
            if aborted is not None:
                staged.aborted += (aborted,)
        self.end_offset = last_offset + 1
        return _new_tuple(AppendInfo, (first_offset, last_offset, NO_TIMESTAMP, self.start_offset, timestamp, False))

    def _check_transaction(
        self, header: BatchHeader, view: memoryview, validate: str, made: Made | None
    ) -> Marker | None:
        """Whether a batch may open its transaction, go on with it, or end it; returns the marker that ends it.

        Raises as `Producers.check_transaction` and `Producers.check_marker` do.
        """
        marker = None
        if validate not in OWN_BATCHES:
            self.producers.check_transaction(header)
        elif header.is_control:
            marker = control.read(view) if made is None else made.marker
            self.producers.check_marker(header, marker, is_raised=validate == OWN_RAISED)
        if not self.has_transactions:
            self.follow_transactions()
        return marker

    def _stage_closely(
        self,
        view: memoryview,
        leader_epoch: int,
        now_ms: int,
        validate: str,
        gather_bytes: int,
        owner: Owner | None,
    ) -> AppendInfo:
        """Stage several batches, or batches that need a change; or raise their error."""
        if validate != validation.PREPARED:
            view = validation.prepare(view, self.config, now_ms, validate)
        batches = validation.stored(view, self.config, now_ms)
        if batches and validate not in OWN_BATCHES and batches[0][0].attributes & TRANSACTIONAL:
            self.producers.check_transaction(batches[0][0])  # it is alone, or refused
        duplicate = self.producers.check_all(batches, self.recall, is_raised=validate == OWN_RAISED)
        if duplicate is not None:
            return self._duplicate(duplicate)
        first_offset = offset = self.end_offset
        last_offset = first_offset + sum(header.last_offset_delta + 1 for header, _ in batches) - 1
        max_timestamp = max(header.max_timestamp for header, _ in batches)
        staged = self.staged
        if staged is None or not staged.has_room(len(view), max_timestamp, last_offset, leader_epoch):
            staged = self._make_room(len(view), max_timestamp, last_offset, now_ms, leader_epoch, owner)
        for header, part in batches:
            patch(part, offset, leader_epoch)
            offset += header.last_offset_delta + 1
            kept = bytes(part) if len(view) <= gather_bytes else part
            staged.add(kept, header.size, offset - 1, header.max_timestamp)
        header, part = batches[0]
        if header.producer_id >= 0:
            staged.remember(self.producers, header.producer_id)
            self._record_producer(header, part, staged)
        self.end_offset = offset
        append_time = now_ms if self.config.message_timestamp_type == LOG_APPEND_TIME else NO_TIMESTAMP
        return AppendInfo(first_offset, last_offset, append_time, self.start_offset, max_timestamp, False)

    def _record_producer(self, header: BatchHeader, part: memoryview, staged: PendingWrite) -> None:
        if header.attributes & control.TRANSACTION_BITS and not self.has_transactions:
            self.follow_transactions()
        marker = control.read(part) if header.is_control else None
        aborted = self.producers.record(header, self.end_offset, marker)
        if aborted is not None:
            staged.aborted += (aborted,)

    def _duplicate(self, written: WrittenBatch) -> AppendInfo:
        """The place of a duplicate batch, from its first append."""
        append_time = written.timestamp if self.config.message_timestamp_type == LOG_APPEND_TIME else NO_TIMESTAMP
        first_offset, last_offset, timestamp = written.first_offset, written.last_offset, written.timestamp
        return AppendInfo(first_offset, last_offset, append_time, self.start_offset, timestamp, True)

    def _make_room(
        self, size: int, max_timestamp: int, last_offset: int, now_ms: int, leader_epoch: int, owner: Owner | None
    ) -> PendingWrite:
        """Write the staged batches, roll if due, and begin a new write with all the room of the segment."""
        if self.staged is not None:
            self.write_staged()
        if self.sync_error is not None:
            raise self.refusal()
        config, active = self.config, self._segments.active
        if size > config.segment_bytes:
            message = f"{size} bytes exceed segment.bytes={config.segment_bytes}"
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, message)
        try:
            staged = self._next_write(owner)
            if staged.has_room(size, max_timestamp, last_offset, leader_epoch):  # the usual case: nothing is due
                self.staged = staged
                return staged
            longest_ms = self.longest_ms()
            if active.size and rolling.is_due(active, config, longest_ms, size, max_timestamp, last_offset, now_ms):
                if owner is None:
                    self.roll(now_ms)
                else:
                    owner.run_roll(partial(self.roll, now_ms))
            if leader_epoch > self.epochs.latest:
                self.epochs.assign(leader_epoch, self.end_offset)
                if owner is not None:
                    owner.write_epochs_soon()
            self.staged = staged = self._next_write(owner)
        except OSError as error:
            raise self.disk_error(error) from error
        return staged

    def _next_write(self, owner: Owner | None) -> PendingWrite:
        """An empty write at the end of the log, with the room of the segment."""
        config, active = self.config, self._segments.active
        staged = PendingWrite(self.end_offset, self.epochs.latest, owner)
        size, first_timestamp = active.size, active.first_timestamp
        # With less information, each append checks for itself.
        if size and first_timestamp >= 0 and not active.is_full(config.segment_index_bytes, MAX_BATCHES):
            staged.max_bytes = min(config.segment_bytes - size, MAX_STAGED_BYTES)
            staged.max_timestamp = first_timestamp + self.longest_ms()
            staged.max_offset = active.base_offset + MAX_RELATIVE_OFFSET
        return staged

    def follow_transactions(self) -> None:
        """Note that the log has transactions from now on."""
        self.has_transactions = True
        self._segments.active.follow_transactions()

    def write_staged(self) -> None:
        """Write the staged batches.

        Raises KafkaError(KAFKA_STORAGE_ERROR), also in `PendingWrite.error`; after a failed write the log is as before
        the first staged batch.
        """
        staged, self.staged = self.staged, None
        if staged is None:
            return
        if self.sync_error is not None:
            raise self._undo_staged(staged, self.refusal())
        try:
            self._segments.active.append(staged.content(), staged.written, self.config.index_interval_bytes)
        except OSError as error:
            raise self._undo_staged(staged, error) from error
        self._written(staged)

    def look_up(self) -> None:
        """Load the data that the next append needs. Raises WouldBlock instead of waiting for the disk.

        Raises OSError and KafkaError, with which the append would be refused too.
        """
        self._segments.active.look_up()

    def begin_write(self) -> PendingWrite | None:
        """Hand out the staged write: a thread may call its `write`; then call `end_write`. None without one.

        `log_lock` has the operations that are allowed meanwhile. Raises KafkaError(KAFKA_STORAGE_ERROR).
        """
        staged, self.staged = self.staged, None
        if staged is not None:
            if self.sync_error is not None:
                raise self._undo_staged(staged, self.refusal())
            active = self._segments.active
            try:
                staged.place(active.begin_append(), active.size)
            except OSError as error:
                raise self._undo_staged(staged, error) from error
        self.being_written = staged
        return staged

    def end_write(self, staged: PendingWrite, error: BaseException | None) -> None:
        """End a write after its run. Raises KafkaError(KAFKA_STORAGE_ERROR) as `write_staged` does."""
        self.being_written = None
        staged.release()
        if error is not None and not isinstance(error, OSError):  # no thread or no memory: nothing was written
            error = OSError(errno.ECANCELED, repr(error))
        interval_bytes = self.config.index_interval_bytes
        try:
            self._segments.active.finish_append(staged.written, interval_bytes, error, in_memory=True)
        except OSError as failure:
            raise self._undo_staged(staged, failure) from failure
        self._written(staged)

    def _undo_staged(self, staged: PendingWrite, error: OSError | KafkaError) -> KafkaError:
        """Restore the log after a failed write; return the error for the producers."""
        without_frames(error)  # they hold the batches that could not be written
        active = self._segments.active
        self.end_offset = staged.first_offset
        # The file was truncated to its former end; until that is on the disk, the dropped bytes can come back.
        self.recovery_point = min(self.recovery_point, active.base_offset)
        self.sync_with_next_flush([active.path])  # an empty segment has no offset to be flushed
        staged.restore(self.producers)
        staged.error = self.disk_error(error) if isinstance(error, OSError) else error
        return staged.error.copy()

    def _written(self, staged: PendingWrite) -> None:
        """Note that the staged batches are in the page cache; flush if due. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        if staged.aborted:
            self._segments.active.follow_transactions(staged.aborted)
        if self.end_offset - self.recovery_point < self.config.records_unsynced:
            return
        if staged.owner is not None:
            staged.owner.sync_soon()
            return
        try:
            self.flush()
        except KafkaError as error:
            staged.error = error.copy()
            raise

    def roll(self, now_ms: int) -> None:
        """Begin a new segment. The next `flush`, which is then due, makes the old one durable. Raises OSError.

        A thread may call this; it has acquired `ROLLING`.
        """
        # By name, as a flush under way may sync the file earlier.
        if not self.seal():  # a failed roll came so far
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

    def truncate_to(self, offset: int, write_recovery_points: Callable[[], None]) -> None:
        """Remove everything from `offset` on, with the whole batch that contains it. Raises OSError.

        `write_recovery_points` writes the checkpoint of the log's directory: it must not promise removed bytes.
        """
        if offset >= self.end_offset:
            return
        if offset < self.start_offset:
            raise ValueError(f"{self!r} cannot be truncated to {offset}, before its start")
        if offset == self.start_offset:  # may be in the middle of a batch, where no bytes end
            self.restart_at(offset, self.active.created_ms, write_recovery_points)
            return
        self.limit_durable_end(offset)
        write_recovery_points()  # the file may promise more than this log knows: see `_undo_staged`
        segment = self._segments.owner(offset)
        self.drop_behind(segment, segment.locate(offset))
        self.end_offset = offset
        self.epochs.truncate_to(offset)
        self.reload_producers()

    def restart_at(self, offset: int, now_ms: int, write_recovery_points: Callable[[], None]) -> None:
        """Remove everything, and continue at `offset`. Raises OSError.

        A segment exists at any time: a log without segments would seem to be lost completely.
        """
        segments, first = self._segments, self._segments[0]
        self.limit_durable_end(first.base_offset)
        write_recovery_points()
        self.drop_behind(first, 0)
        if first.base_offset != offset:
            segments.add(Segment.create(self.pool, self.directory, offset, now_ms))
            self.pool.files.sync_directory(self.directory)
            segments.delete_first(self.config.file_delete_delay_ms)
            self.pool.files.sync_directory(self.directory)
        self.start_offset = self.end_offset = self.recovery_point = offset
        self.names_unsynced, self.has_transactions = True, False
        self.epochs.truncate_to(0)
        self.reload_producers()

    def drop_behind(self, segment: Segment, position: int) -> None:
        """Remove the bytes from a position on, and all later segments. The caller corrects all other state."""
        self._segments.drop_behind(segment, position)
        # Otherwise a crash could restore the removed bytes after newly appended ones.
        self.pool.files.sync_directory(self.directory)

    # Recovery and repair

    def recovered(self, end_offset: int, unsynced: Sequence[str] = (), *, is_clean: bool) -> None:
        """Take the end of the log that a start has found; `unsynced`: files for the next flush.

        After a crash it is unknown whether the leader epochs' file is on the disk.
        """
        self.end_offset = end_offset
        self.sync_with_next_flush(unsynced)
        if not is_clean:
            self.epochs.is_synced = False

    def start_at(self, start_offset: int, recovery_point: int) -> None:
        """Let the log begin at `start_offset` or its first segment; it is durable up to `recovery_point`."""
        self.start_offset = max(start_offset, self._segments[0].base_offset)
        self.recovery_point = min(self.end_offset, recovery_point)

    def opened(self, *, is_clean: bool) -> None:
        """Note that a start has opened the log."""
        self._segments.active.was_truncated = not is_clean  # perhaps: a killed broker may have truncated it
        self.names_unsynced = not is_clean or not self.size  # an empty log never needed a flush

    def note_transactions(self) -> None:
        """Note that the log has, or had, transactions."""
        self.has_transactions = True

    def forget_behind(self, base_offset: int, position: int, offset: int) -> None:
        """Truncate the log in memory alone, after a position of a segment that was renewed up to that position.

        A thread rebuilds the producers' state, and changes the files.
        """
        self._segments.forget_behind(base_offset, position)
        self.end_offset = offset
        self.epochs.forget_behind(offset)
        self.is_ahead = True

    def forget_all(self) -> None:
        """Truncate the log to its start, in memory alone."""
        segments = self._segments
        segments.replace_all(
            Segment(self.pool, self.directory, self.start_offset, created_ms=segments.active.created_ms)
        )
        segments.active.may_be_longer = True
        self.end_offset = self.start_offset
        self.has_transactions = False
        self.epochs.forget_behind(0)
        self.is_ahead = True

    def renew(self, segment: Segment) -> None:
        """Replace a segment by one with rebuilt indexes, all in memory."""
        segment.move_to(self.pool)
        self._segments.renew(segment)
        self.is_ahead = self.is_ahead or segment is self.active

    def reload_producers(self) -> None:
        """Rebuild the producers' state from the last snapshot and all later batches."""
        finish(self.reload_producers_steps())

    def reload_producers_steps(
        self, known: Iterable[int] | None = None, producers: Producers | None = None
    ) -> Steps[None]:
        """`reload_producers` in slices. Snapshots behind the log's end are deleted.

        `known`: the offsets of the snapshots, `producers`: their state, if the caller has them.
        """
        files = self.pool.files
        if known is None:
            known = snapshots.offsets(files.list(self.directory))
        known = snapshots.remove_behind(files, self.directory, known, self.end_offset)
        self._snapshot_offset = self._segments[0].base_offset
        if producers is None:
            found = snapshots.replayed(files, self.directory, known, self._segments, self.end_offset)
            producers, self._snapshot_offset = yield from found
        self.take_producers(producers, self._snapshot_offset)

    def take_producers(self, producers: Producers, snapshot_offset: int) -> None:
        """Take a state of the producers, and the offset of its snapshot."""
        self.producers, self._snapshot_offset = producers, snapshot_offset
        self.has_transactions = self.has_transactions or producers.are_transactional

    # Deletion of old segments: `storage.cleanup.retention` selects them

    def begin_segment_deletion(self, count: int) -> SegmentDeletion | None:
        """Give up the oldest segments, at most `count`. A thread may run the result; then call `end_segment_deletion`.

        None without such segments, or if a compaction is about to replace the first.
        """
        segments = self._segments
        count = segments.deletable(count)
        if not count:
            return None
        self.advance_start(segments[count].base_offset)
        self.names_unsynced = True
        self.acquire(DELETING)
        replacement = segments.compacted.unfinished if segments.were_compacted else None
        return SegmentDeletion(segments.forget_first(count), self.config.file_delete_delay_ms, replacement)

    def end_segment_deletion(self, deletion: SegmentDeletion) -> None:
        """End a deletion after its run: segments that could not be renamed return to the log, for the next deletion."""
        self.release(DELETING)
        if not self.is_retired:  # without its `.log`, the next start removes the rest of a segment
            self._segments.put_back([segment for segment in deletion.left if not segment.is_deleted])

    def roll_for_retention(self, now_ms: int) -> None:
        """Begin a new segment after one that retention deletes. Unlike `roll`, needs no room on the disk.

        Raises OSError.
        """
        with suppress(OSError):  # without room the snapshot is written with the next segment
            self._take_snapshot()
        self._begin_segment(now_ms)

    def advance_start(self, offset: int) -> None:
        """Stop serving records before `offset`; retention deletes their segments."""
        if offset > self.start_offset:
            self.start_offset = offset
            self.epochs.start_from(offset)

    # Flushing: see `storage.log.flush`

    def flush(self, now_ms: int | None = None) -> None:
        """Make everything appended so far durable. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        is_part = True
        while is_part:
            try:
                flush = self.begin_flush()
                try:
                    flush.run()
                finally:
                    self.end_flush(flush, now_ms)
            except OSError as error:
                raise self.disk_error(error) from error
            is_part = flush.is_part

    def begin_flush(self) -> Flush:
        """A flush of everything written, or of the segments that one flush may hold: then another flush is due.

        A thread may run the flush; then call `end_flush`. Raises OSError, and then nothing has changed;
        KafkaError(KAFKA_STORAGE_ERROR) after a failed sync.
        """
        if self.sync_error is not None:
            raise self.refusal()
        # The system reports an error once: of two simultaneous flushes the other would seem successful.
        assert self.flushing is None, f"{self!r} is being flushed"
        assert not self.exclusive_operations & BY_NAME, f"a thread works with the files of {self!r}"
        # All later changes are for the next flush.
        unsynced_indexes, syncs_names = self.indexes_unsynced, self.names_unsynced
        self.indexes_unsynced, self.names_unsynced = [], False
        try:
            self.flushing = flush = self._flush_of(unsynced_indexes, syncs_names)
        except OSError:
            self.indexes_unsynced[:0] = unsynced_indexes
            self.names_unsynced = self.names_unsynced or syncs_names
            raise
        self.epochs.note_synced()
        return flush

    def _flush_of(self, unsynced_indexes: Iterable[str], syncs_names: bool) -> Flush:
        segments = self.since(self.recovery_point)
        unsynced = segments[:MAX_SEGMENTS]
        # Also the indexes of a segment that a stop sealed without a roll.
        indexes = dict.fromkeys(path for segment in unsynced for path in segment.sealed_indexes)
        indexes.update(dict.fromkeys(unsynced_indexes))
        epochs, paths, directories = self.epochs, list[str](), list[str]()
        write = None
        if not epochs.is_synced and epochs.latest >= 0:
            write = self._unless_retired(epochs.begin_write(needs_room=False)) if epochs.is_stale else None
            paths.append(epochs.path)
        if syncs_names or not epochs.is_synced:
            directories = [self.directory, parent(self.directory)]
            if self.topic_id is not None:
                paths.append(f"{self.directory}/{PARTITION_METADATA}")
        is_part = len(unsynced) < len(segments)
        written = segments[MAX_SEGMENTS].base_offset if is_part else self.written_end
        stable_offset = 0 if is_part else min(self.stable_offset, written)
        held = hold(unsynced)
        return Flush(
            self.pool.files, written, held, paths, directories, list(indexes), write, stable_offset, is_part=is_part
        )

    def _unless_retired(self, write: Callable[[], None]) -> Callable[[], None]:
        """`write`, skipped once the log is deleted: its directory is gone then, or belongs to another log."""

        def write_if_there() -> None:
            if not self.is_retired:
                try:
                    write()
                except FileNotFoundError:
                    if not self.is_retired:  # deleted at this moment
                        raise

        return write_if_there

    def end_flush(self, flush: Flush, now_ms: int | None = None) -> None:
        """End a flush after its run: the log is durable up to its end, or `sync_error` is set; the rest is due."""
        flush.release()
        if not flush.is_done:
            self.epochs.is_synced = False
        self.apply_flush(flush, now_ms)
        if flush.error is not None:
            self.refuse_after_failed_sync(flush.error)

    def refuse_after_failed_sync(self, error: OSError) -> None:
        """Refuse appends and flushes after a failed sync, until `storage.recovery.sync_failure_repair` is done."""
        if self.note_failed_sync(error):
            self.pool.needs_repair.append(self)

    def repaired(self) -> None:
        """Note that everything in the log was checked, and is on the disk."""
        self._segments.active.may_be_longer = False
        self.sync_error, self.is_ahead = None, False
        self.flushed()

    def write_epochs(self) -> None:
        """Write the leader epochs to their file, in any thread; a flush does that too. Raises OSError."""
        if self.epochs.is_stale and not self.is_retired:
            with suppress(FileNotFoundError):  # deleted at this moment
                self.epochs.begin_write()()

    def flushed(self) -> None:
        """Note that everything appended so far is on the disk: the whole file system was synced."""
        self.recovery_point = self.end_offset
        self.epochs.is_synced, self.names_unsynced = not self.epochs.is_stale, False
        self.indexes_unsynced.clear()

    def seal(self) -> bool:
        """Write the indexes and the producers' state to their files; True if an index was written. Raises OSError."""
        is_changed = self._segments.seal(self.indexes_unsynced)
        self._take_snapshot()
        return is_changed

    def _take_snapshot(self) -> None:
        if self._snapshot_offset < self.end_offset:
            snapshots.save(self.pool.files, self.directory, self.end_offset, self.producers)
            self._snapshot_offset = self.end_offset

    def finish(self) -> bool:
        """Write the files that spare the next start a scan; true if a flush is needed then.

        Raises KafkaError(KAFKA_STORAGE_ERROR).
        """
        if self.being_written is not None:  # no producer has learned of the write
            with suppress(KafkaError):
                self.end_write(self.being_written, OSError(errno.ECANCELED, "the log was closed"))
        if self.flushing is not None:  # nothing will end it
            self.end_flush(self.flushing)
        self.exclusive_operations = 0  # nor an operation that no thread has begun
        if self.sync_error is not None:
            raise self.refusal()
        try:
            is_changed = self.seal()
            if not self.epochs.is_synced and self.epochs.is_stale:
                self.epochs.begin_write(needs_room=False)()
        except OSError as error:
            raise self.disk_error(error) from error
        if self.active.was_truncated:
            self.sync_with_next_flush([self.active.path])
        is_unsynced = self.recovery_point < self.end_offset or bool(self.indexes_unsynced)
        return is_changed or is_unsynced or (self.names_unsynced and self.size > 0)

    def close(self) -> None:
        """Finish, make everything durable, and close the files. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        if self.finish():
            self.flush()
        self.close_files()

    def move_to(self, pool: Pool) -> None:
        """Move to this pool; the files are closed, and nothing is loaded."""
        pool.pending_deletions.extend(self.pool.pending_deletions)
        self.pool = pool
        for segment in self._segments:
            segment.move_to(pool)

    def close_files(self) -> None:
        """Close the files; the next use opens them again."""
        for segment in self._segments:
            segment.close()

    def retire(self) -> None:
        """Close the files for good: the directory is renamed, and another log may get its name."""
        self.is_retired = True
        for segment in self._segments:
            segment.retire()
