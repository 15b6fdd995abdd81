"""Cutting a log: what was promised of what goes is taken back first, on the disk too.

`Log.truncate_to` and `Log.restart_at` are the ways in, and wait for the disk. `Log.forget_behind` and `Log.forget_all`
cut it in memory alone: what is not yet known to be on the disk, so that nothing was promised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.storage.log.segments import Segments
from headgate.storage.segment.segment import Segment

if TYPE_CHECKING:
    from headgate.storage.log.log import Log


def truncate(log: Log, offset: int) -> None:
    """Forget everything at and behind `offset`, with the whole batch that holds it. Raises OSError."""
    if offset >= log.end_offset:
        return
    if offset < log.start_offset:
        raise ValueError(f"{log!r} cannot be cut at {offset}, before its start")
    if offset == log.start_offset:  # which may be in the middle of a batch: no end of bytes would be there
        log.restart_at(offset, log.since(log.end_offset)[-1].created_ms)
        return
    promise_less(log, offset)
    segment = log.since(offset)[0]
    log.cut(segment, segment.locate(offset), offset)


def restart(log: Log, segments: Segments, offset: int, now_ms: int) -> None:
    """Forget everything, and go on at `offset`. Raises OSError.

    There is a segment at any time: of a log without any, all would seem to be lost.
    """
    first = segments[0]
    promise_less(log, first.base_offset)
    log.drop_behind(first, 0)
    if first.base_offset != offset:
        segments.add(Segment.create(log.pool, log.directory, offset, now_ms))
        log.pool.files.sync_directory(log.directory)
        segments.delete_first(log.config.file_delete_delay_ms)
        log.pool.files.sync_directory(log.directory)
    log.start_offset = log.end_offset = log.recovery_point = offset
    log.names_unsynced, log.has_transactions = True, False
    log.epochs.truncate_to(0)
    log.reload_producers()


def promise_less(log: Log, offset: int) -> None:
    """Neither the recovery point, in memory and on the disk, nor a flush that is under way speaks of more."""
    if log.flushing is not None:  # of what is appended from now on it knows nothing
        log.flushing.end_offset = min(log.flushing.end_offset, offset)
        log.flushing.stable_offset = 0
    log.recovery_point, log.last_decided_offset = min(log.recovery_point, offset), 0
    log.pool.write_recovery_points()  # which may say more than is known here: see `appending.take_back`


def forget_behind(log: Log, segments: Segments, base_offset: int, position: int, offset: int) -> None:
    """Forget everything from a position of a segment on, where `offset` would be; the files are another's."""
    segments.forget_behind(base_offset, position)
    log.end_offset = offset
    log.epochs.forget_behind(offset)
    log.is_ahead = True


def forget_all(log: Log, segments: Segments) -> None:
    """Go on at the start of the log, with nothing in it; the files are another's."""
    now_ms = segments.active.created_ms
    segments.begin_anew(Segment(log.pool, log.directory, log.start_offset, created_ms=now_ms))
    segments.active.may_be_longer = True
    log.end_offset = log.start_offset
    log.has_transactions = False
    log.epochs.forget_behind(0)
    log.is_ahead = True
