"""Flushes of a log: what the next one has to sync, its begin and end, and the refusal of records after a failed sync.

A flush makes everything before an offset durable, and moves `Log.recovery_point` there; `flush.py` has its run. Changes
of names and of indexes, which no offset counts, are noted in the log until the next flush.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.storage.disk.layout import PARTITION_METADATA
from headgate.storage.files import parent
from headgate.storage.log.flush import MAX_SEGMENTS, NOT_BEGUN, Flush, hold
from headgate.storage.log.log import Log
from headgate.storage.log.log_lock import BY_NAME, FAILED, FLUSH, FLUSHING
from headgate.storage.segment.segment_file import SOUND


def is_due(log: Log, now_ms: int) -> bool:
    """Whether a flush is due: by flush.ms, or after a roll."""
    is_wanted = bool(log.indexes_unsynced)
    if log.recovery_point < log.end_offset:
        is_wanted = (
            is_wanted
            or now_ms - log.last_flush_ms >= log.config.flush_ms
            or log.recovery_point < log.segments.active.base_offset
            or log.config.fsync_before_commit
        )
    return is_wanted and log.lock.may(FLUSH)


def flush(log: Log, now_ms: int | None = None) -> None:
    """Make everything appended so far durable. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
    is_part = True
    while is_part:
        try:
            begun = begin(log)
            try:
                begun.run()
            finally:
                end(log, begun, now_ms)
        except OSError as error:
            raise log.disk_error(error) from error
        is_part = begun.is_part


def begin(log: Log) -> Flush:
    """A flush of everything written, or of the segments that one flush may hold: then another flush is due.

    A thread may run the flush; then call `end`. Raises OSError, and then nothing has changed;
    KafkaError(KAFKA_STORAGE_ERROR) after a failed sync.
    """
    if log.sync_error is not None:
        raise refusal(log)
    # The system reports an error once: of two simultaneous flushes the other would seem successful.
    assert log.flushing is None, f"{log!r} is being flushed"
    assert not log.lock.operations & BY_NAME, f"a thread works with the files of {log!r}"
    # All later changes are for the next flush.
    unsynced_indexes, syncs_names = log.indexes_unsynced, log.names_unsynced
    log.indexes_unsynced, log.names_unsynced = [], False
    try:
        log.flushing = flush = _flush_of(log, unsynced_indexes, syncs_names)
    except OSError:
        log.indexes_unsynced[:0] = unsynced_indexes
        log.names_unsynced = log.names_unsynced or syncs_names
        raise
    log.lock.operations |= FLUSHING
    log.epochs.note_synced()
    return flush


def _flush_of(log: Log, unsynced_indexes: Iterable[str], syncs_names: bool) -> Flush:
    segments = log.segments.since(log.recovery_point)
    unsynced = segments[:MAX_SEGMENTS]
    # Also the indexes of a segment that a stop sealed without a roll.
    indexes = dict.fromkeys(path for segment in unsynced for path in segment.sealed_indexes)
    indexes.update(dict.fromkeys(unsynced_indexes))
    epochs, paths, directories = log.epochs, list[str](), list[str]()
    write = None
    if not epochs.is_synced and epochs.latest >= 0:
        write = _unless_retired(log, epochs.begin_write(needs_room=False)) if epochs.is_stale else None
        paths.append(epochs.path)
    if syncs_names or not epochs.is_synced:
        directories = [log.directory, parent(log.directory)]
        if log.topic_id is not None:
            paths.append(f"{log.directory}/{PARTITION_METADATA}")
    is_part = len(unsynced) < len(segments)
    written = segments[MAX_SEGMENTS].base_offset if is_part else log.written_end
    stable_offset = 0 if is_part else min(log.stable_offset, written)
    held = hold(unsynced)
    return Flush(
        log.pool.files, written, held, paths, directories, list(indexes), write, stable_offset, is_part=is_part
    )


def _unless_retired(log: Log, write: Callable[[], None]) -> Callable[[], None]:
    """`write`, skipped once the log is deleted: its directory is gone then, or belongs to another log."""

    def write_if_there() -> None:
        if not log.is_retired:
            try:
                write()
            except FileNotFoundError:
                if not log.is_retired:  # deleted at this moment
                    raise

    return write_if_there


def end(log: Log, flush: Flush, now_ms: int | None = None) -> None:
    """End a flush after its run: the log is durable up to its end, or `sync_error` is set; the rest is due."""
    flush.release()
    log.flushing = None
    log.lock.release(FLUSHING)
    if flush.is_done:
        log.recovery_point = max(log.recovery_point, min(flush.end_offset, log.end_offset))
        log.last_decided_offset = max(log.last_decided_offset, min(flush.stable_offset, log.recovery_point))
        if now_ms is not None:
            log.last_flush_ms = now_ms
    else:
        log.epochs.is_synced = False
        log.names_unsynced = True
        log.indexes_unsynced[:0] = flush.indexes
    if flush.error is not None:
        refuse_after_failed_sync(log, flush.error)


def sync_with_next_flush(log: Log, paths: Iterable[str]) -> None:
    """Have the next flush sync these files."""
    log.indexes_unsynced += [path for path in paths if path not in log.indexes_unsynced]


def limit_durable_end(log: Log, offset: int) -> None:
    """Exclude `offset` and later ones from the recovery point and from a flush under way."""
    if log.flushing is not None:  # the flush does not cover later appends
        log.flushing.end_offset = min(log.flushing.end_offset, offset)
        log.flushing.stable_offset = 0
    log.recovery_point, log.last_decided_offset = min(log.recovery_point, offset), 0


def note_all_synced(log: Log) -> None:
    """Note that everything appended so far is on the disk: the whole file system was synced."""
    log.recovery_point = log.end_offset
    log.epochs.is_synced, log.names_unsynced = not log.epochs.is_stale, False
    log.indexes_unsynced.clear()


def write_epochs(log: Log) -> None:
    """Write the leader epochs to their file, in any thread; a flush does that too. Raises OSError."""
    if log.epochs.is_stale and not log.is_retired:
        with suppress(FileNotFoundError):  # deleted at this moment
            log.epochs.begin_write()()


def refuse(log: Log, error: KafkaError) -> None:
    """Accept no records, and make no flush, for this reason."""
    log.sync_error = error
    log.lock.operations |= FAILED


def accept(log: Log) -> None:
    """Accept records again: everything in the log was checked, and is on the disk."""
    resume(log)
    note_all_synced(log)


def resume(log: Log) -> None:
    """Accept records again: the files are as the log in memory."""
    log.segments.active.state = SOUND
    log.sync_error, log.is_ahead = None, False
    log.lock.release(FAILED)


def refusal(log: Log) -> KafkaError:
    """`sync_error` to be raised: a new exception each time, as an exception keeps its traceback."""
    assert log.sync_error is not None
    return KafkaError(log.sync_error.code, log.sync_error.message)


def refuse_after_failed_sync(log: Log, error: OSError) -> None:
    """Refuse appends and flushes after a failed sync, until `storage.recovery.sync_failure_repair` is done.

    Without effect if the log refuses them already, or if the sync never began.
    """
    if log.sync_error is not None or error.errno in NOT_BEGUN:
        return
    message = (
        f"a sync of {log.name} failed ({error}): the log takes no records until everything"
        f" behind offset {log.recovery_point} was read, checked and written once more; the broker does that"
    )
    refuse(log, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message))
    log.pool.needs_repair.append(log)
