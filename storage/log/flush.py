"""What of a log has to reach the disk: when that is due, and one flush, so that everything before an offset is safe.

The log makes a flush and takes it back (`Log.begin_flush`, `Log.end_flush`). In between `run` only waits for the disk,
and may do so in another thread while the log goes on appending. One flush may serve all who wait for an offset before
its end.

After a sync that failed the system may have dropped what it could not write, and say at the next one that all is well:
so there is no next one. The log keeps the error, and takes nothing until `storage.recovery.sync_failure_repair` has
made sure.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.storage.disk.layout import PARTITION_METADATA
from headgate.storage.files import NO_DESCRIPTORS, File, Files, parent
from headgate.storage.log import log_lock

if TYPE_CHECKING:
    from headgate.storage.log.log import Log
    from headgate.storage.segment.segment import Segment


MOST_SEGMENTS = 16
"""Whose files one flush holds open: after a start without a recovery checkpoint all are unsynced."""
# A file could not even be opened for its sync: that can be tried again.
_NOT_BEGUN = (*NO_DESCRIPTORS, errno.ENOMEM)


class Flush:
    """The open files, files and directories to sync, in this order. Takes over a reference on each open file."""

    __slots__ = (
        "_directories",
        "_files",
        "_open_files",
        "_write",
        "end_offset",
        "error",
        "indexes",
        "is_done",
        "is_part",
        "paths",
        "stable_offset",
    )

    def __init__(
        self,
        files: Files,
        end_offset: int,
        open_files: Sequence[File],
        paths: Sequence[str] = (),
        directories: Sequence[str] = (),
        indexes: Sequence[str] = (),
        write: Callable[[], None] | None = None,
    ) -> None:
        """`write` writes a file of `paths`, before anything is synced."""
        self._files = files
        self._write = write
        self._open_files = open_files
        self._directories = directories
        self.paths = paths
        self.indexes = indexes
        self.end_offset = end_offset
        self.stable_offset = 0  # that of the log as it was begun
        self.is_done = False
        self.is_part = False
        """Whether there are more segments, for another one."""
        self.error: OSError | None = None
        """Why a sync failed: of what was to be written then, nobody knows what is on the disk."""

    @property
    def held_files(self) -> int:
        """How many files it keeps open."""
        return len(self._open_files)

    def run(self) -> None:
        """Wait until all of it is on the disk. Raises OSError."""
        if self._write is not None:  # a failure takes nothing from what is on the disk already
            self._write()
        try:
            for file in self._open_files:
                file.sync()
            self._sync_each(self._files.sync, (*self.indexes, *self.paths))
            self._sync_each(self._files.sync_directory, self._directories)
        except OSError as error:
            if error.errno not in _NOT_BEGUN:
                self.error = error
            raise
        self.is_done = True

    def _sync_each(self, sync: Callable[[str], None], paths: Iterable[str]) -> None:
        for path in paths:
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                sync(path)

    def release(self) -> None:
        """Give up the open files."""
        for file in self._open_files:
            file.release()
        self._open_files = ()


def is_due(log: Log, now_ms: int) -> bool:
    """Whether a log asks for a flush: by flush.ms, or because of a segment that was rolled."""
    if log.recovery_point >= log.end_offset:
        is_wanted = bool(log.indexes_unsynced)
    else:
        is_wanted = (
            now_ms - log.last_flush_ms >= log.config.flush_ms
            or log.recovery_point < log.active_base_offset
            or log.config.fsync_before_commit
            or bool(log.indexes_unsynced)
        )
    return is_wanted and log_lock.may(log, log_lock.FLUSH)


def make(log: Log, now_ms: int | None) -> None:
    """Flush at once. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
    while _make_one(log, now_ms):
        pass


def _make_one(log: Log, now_ms: int | None) -> bool:
    """Whether there are more segments to be flushed."""
    try:
        made = begin(log)
    except OSError as error:
        raise log.disk_error(error) from error
    try:
        made.run()
    except OSError as error:
        raise log.disk_error(error) from error
    finally:
        end(log, made, now_ms)
    return made.is_part


def begin(log: Log) -> Flush:
    """A flush of everything that is written, or of as many segments as it may hold: then another one is due.

    Raises OSError, and then nothing is changed; KafkaError.
    """
    if log.sync_error is not None:
        raise log.refusal()
    # The system tells of an error once: of two at a time the other would believe that all is well.
    assert log.flushing is None, f"{log!r} is being flushed"
    assert not log.exclusive_locks & log_lock.BY_NAME, f"a thread works with the files of {log!r}"
    # What is begun from here on, by whomever, is for the next flush.
    owed_indexes, owes_names = log.indexes_unsynced, log.names_unsynced
    log.indexes_unsynced, log.names_unsynced = [], False
    try:
        made = _all_of(log, owed_indexes, owes_names)
    except OSError:
        log.indexes_unsynced[:0] = owed_indexes
        log.names_unsynced = log.names_unsynced or owes_names
        raise
    log.epochs.is_synced = True
    log.flushing = made
    return made


def _all_of(log: Log, owed_indexes: Sequence[str], owes_names: bool) -> Flush:
    segments = log.since(log.recovery_point)
    unsynced = segments[:MOST_SEGMENTS]
    # Those of a segment that was sealed without a roll, at a stop, too.
    indexes = dict.fromkeys(path for segment in unsynced for path in segment.sealed_indexes)
    indexes.update(dict.fromkeys(owed_indexes))
    epochs, paths, directories = log.epochs, [], []
    write = None
    if not epochs.is_synced and epochs.latest >= 0:
        write = _unless_deleted(log, epochs.begin_write(needs_room=False)) if epochs.is_stale else None
        paths.append(epochs.path)
    if owes_names or not epochs.is_synced:
        directories = [log.directory, parent(log.directory)]
        if log.topic_id is not None:
            paths.append(f"{log.directory}/{PARTITION_METADATA}")
    unwritten = log.being_written or log.staged
    written = log.end_offset if unwritten is None else unwritten.first_offset
    is_part = len(unsynced) < len(segments)
    if is_part:
        written = segments[MOST_SEGMENTS].base_offset
    made = Flush(log.pool.files, written, _hold(unsynced), paths, directories, list(indexes), write)
    made.is_part = is_part
    if not is_part:
        made.stable_offset = min(log.stable_offset, written)
    return made


def _unless_deleted(log: Log, write: Callable[[], None]) -> Callable[[], None]:
    """What writes by name into the directory of a log, unless that is gone, or another's, when its turn comes."""

    def write_if_there() -> None:
        if not log.is_retired:
            try:
                write()
            except FileNotFoundError:
                if not log.is_retired:  # deleted in this moment
                    raise

    return write_if_there


def end(log: Log, made: Flush, now_ms: int | None) -> None:
    """Take up what a flush did, or what it could not do."""
    made.release()
    log.flushing = None
    if made.error is not None:
        log.fail(made.error)
    if not made.is_done:
        log.epochs.is_synced, log.names_unsynced = False, True
        log.indexes_unsynced[:0] = made.indexes
        return
    log.recovery_point = max(log.recovery_point, min(made.end_offset, log.end_offset))
    log.last_decided_offset = max(log.last_decided_offset, min(made.stable_offset, log.recovery_point))
    if now_ms is not None:
        log.last_flush_ms = now_ms


def finish(log: Log) -> bool:
    """See `Log.finish`."""
    if log.being_written is not None:  # nobody was told of it
        with contextlib.suppress(KafkaError):
            log.end_write(log.being_written, OSError(errno.ECANCELED, "the log was closed"))
    if log.flushing is not None:  # its end has not been taken up, and will not be
        end(log, log.flushing, None)
    log.exclusive_locks = 0  # nor was what a thread was to do there, if it had not begun
    if log.sync_error is not None:
        raise log.refusal()
    try:
        is_changed = log.seal()
        if not log.epochs.is_synced and log.epochs.is_stale:
            log.epochs.begin_write(needs_room=False)()
    except OSError as error:
        raise log.disk_error(error) from error
    if log.active.was_truncated and log.active.path not in log.indexes_unsynced:
        log.indexes_unsynced.append(log.active.path)
    is_unsynced = log.recovery_point < log.end_offset or bool(log.indexes_unsynced)
    return is_changed or is_unsynced or (log.names_unsynced and log.size > 0)


def fail(log: Log, error: OSError) -> None:
    """Have a log take nothing more, as a sync of its files failed: see `storage.recovery.sync_failure_repair`."""
    if log.sync_error is None and error.errno not in _NOT_BEGUN:
        message = (
            f"a sync of {log.topic}-{log.partition} failed ({error}): it takes no records until all behind offset"
            f" {log.recovery_point} was read, checked and written once more, which is tried by itself"
        )
        log.sync_error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message)
        log.pool.needs_repair.append(log)


def _hold(segments: Iterable[Segment]) -> list[File]:
    """The open files of these segments, held all or none. Raises OSError."""
    files: list[File] = []
    try:
        files.extend(segment.hold() for segment in segments)
    except OSError:
        for file in files:
            file.release()
        raise
    return files
