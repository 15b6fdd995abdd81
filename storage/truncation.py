"""Cutting a log: what was promised of what goes is taken back first, on the disk too.

`Log.truncate_to` and `Log.restart_at` are the ways in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage.log import Log


def truncate(log: Log, offset: int) -> None:
    """Forget everything at and behind `offset`, with the whole batch that holds it. Raises OSError."""
    if offset >= log.end_offset:
        return
    if offset < log.start_offset:
        raise ValueError(f"{log!r} cannot be cut at {offset}, before its start")
    promise_less(log, offset)
    segment = log.since(offset)[0]
    log.cut(segment, segment.locate(offset), offset)


def promise_less(log: Log, offset: int) -> None:
    """Neither the recovery point, in memory and on the disk, nor a flush that is under way speaks of more."""
    if log.flushing is not None:  # of what is appended from now on it knows nothing
        log.flushing.end_offset = min(log.flushing.end_offset, offset)
    if offset < log.recovery_point:
        log.recovery_point = offset
        log.pool.write_recovery_points()
