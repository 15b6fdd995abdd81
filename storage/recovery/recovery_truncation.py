"""Truncation of a log during recovery: removes everything from an offset on, and waits for the disk.

The bytes go first, then all facts about them: the end of the log, leader epochs, the producers' state.
"""

from __future__ import annotations

from collections.abc import Callable

from headgate.storage.log import flushing
from headgate.storage.log.log import Log
from headgate.storage.segment.segment import Segment


def restart_at(log: Log, offset: int, now_ms: int, write_recovery_points: Callable[[], None]) -> None:
    """Remove everything, and continue at `offset`. Raises OSError.

    A segment exists at any time: a log without segments would seem to be lost completely. `write_recovery_points`
    writes the checkpoint of the log's directory: it must not promise removed bytes.
    """
    segments, first = log.segments, log.segments[0]
    flushing.limit_durable_end(log, first.base_offset)
    write_recovery_points()
    drop_behind(log, first, 0)
    if first.base_offset != offset:
        segments.add(Segment.create(log.pool, log.directory, offset, now_ms))
        log.pool.files.sync_directory(log.directory)
        segments.delete_first(log.config.file_delete_delay_ms)
        log.pool.files.sync_directory(log.directory)
    log.emptied(offset)


def drop_behind(log: Log, segment: Segment, position: int) -> None:
    """Remove the bytes from a position on, and all later segments. The caller corrects all other state."""
    log.segments.drop_behind(segment, position)
    # Otherwise a crash could restore the removed bytes after newly appended ones.
    log.pool.files.sync_directory(log.directory)
