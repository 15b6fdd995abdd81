"""Truncation of a log to any offset, at once: by the loop alone, or as threads do it in a broker."""

from __future__ import annotations

from collections.abc import Callable

from headgate.protocol.steps import finish
from headgate.storage.log import flushing
from headgate.storage.log.log import Log
from headgate.storage.recovery import log_truncation, recovery_truncation
from headgate.storage.recovery.log_truncation import BeginRecoveryPoints, LogTruncation


def truncate_to(log: Log, offset: int, write_recovery_points: Callable[[], None]) -> None:
    """Remove everything from `offset` on, with the whole batch that contains it. Raises OSError.

    `write_recovery_points` writes the checkpoint of the log's directory: it must not promise removed bytes.
    """
    if offset >= log.end_offset:
        return
    if offset < log.start_offset:
        raise ValueError(f"{log!r} cannot be truncated to {offset}, before its start")
    if offset == log.start_offset:  # may be in the middle of a batch, where no bytes end
        recovery_truncation.restart_at(log, offset, log.segments.active.created_ms, write_recovery_points)
        return
    flushing.limit_durable_end(log, offset)
    write_recovery_points()  # the file may promise more than the log: a failed write lowers the recovery point too
    segment = log.segments.owner(offset)
    recovery_truncation.drop_behind(log, segment, segment.locate(offset))
    log.end_offset = offset
    log.epochs.truncate_to(offset)
    log.reload_producers()


def cut(log: Log, offset: int, begin_recovery_points: BeginRecoveryPoints) -> None:
    """Truncate a log in use. Raises the error of a step."""
    finish_truncation(log, log_truncation.begin(log, offset), begin_recovery_points)


def finish_truncation(log: Log, work: LogTruncation | None, begin_recovery_points: BeginRecoveryPoints) -> None:
    """Run what a thread runs, at once."""
    assert work is not None
    finish(work.steps())
    if log_truncation.apply(log, work, begin_recovery_points):
        finish(work.write_steps())
    log_truncation.end(log, work)
    if work.error is not None:
        raise work.error
