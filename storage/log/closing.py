"""The close of a log: everything reaches the disk, with the files that spare the next start a scan."""

from __future__ import annotations

import errno
from contextlib import suppress

from headgate.protocol.errors import KafkaError
from headgate.storage.log import appending, flushing, rolling
from headgate.storage.log.log import Log
from headgate.storage.log.log_lock import EXCLUSIVE


def close(log: Log) -> None:
    """Finish, make everything durable, and close the files. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
    if finish(log):
        flushing.flush(log)
    log.close_files()


def finish(log: Log) -> bool:
    """Write the files that spare the next start a scan; true if a flush is needed then.

    Raises KafkaError(KAFKA_STORAGE_ERROR).
    """
    if log.being_written is not None:  # no producer has learned of the write
        with suppress(KafkaError):
            appending.end_write(log, log.being_written, OSError(errno.ECANCELED, "the log was closed"))
    if log.flushing is not None:  # nothing will end it
        flushing.end(log, log.flushing)
    log.lock.release(EXCLUSIVE)  # nor an operation that no thread has begun
    if log.sync_error is not None:
        raise flushing.refusal(log)
    try:
        is_changed = rolling.seal(log)
        if not log.epochs.is_synced and log.epochs.is_stale:
            log.epochs.begin_write(needs_room=False)()
    except OSError as error:
        raise log.disk_error(error) from error
    active = log.segments.active
    if active.was_truncated:
        flushing.sync_with_next_flush(log, [active.path])
    is_unsynced = log.recovery_point < log.end_offset or bool(log.indexes_unsynced)
    return is_changed or is_unsynced or (log.names_unsynced and log.segments.size > 0)
