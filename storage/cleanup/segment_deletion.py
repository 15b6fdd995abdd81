"""Deleting what retention no longer keeps: decided on the loop, where the log forgets it; the files are a thread's.

    Log.begin_expiry    which segments go (`retention`); from here on the log starts behind them
    Expired.run         gives their files names that tell of it, in any thread
    Log.end_expiry      those of which that failed are the log's again, to be tried again; it starts behind all the same

The files are removed after file.delete.delay.ms (`doomed`). The segment that is written to does not go: for that a log
of which nothing is kept (`Log.all_expired`) begins another one before (`Log.leave`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from headgate.storage.cleanup import retention
from headgate.storage.log import log_lock
from headgate.storage.segment import offset_lookup

if TYPE_CHECKING:
    from headgate.storage.cleanup.replacement import Replacement
    from headgate.storage.log.log import Log
    from headgate.storage.log.segments import Segments
    from headgate.storage.segment.segment import Segment


class SegmentDeletion:
    """Segments that are the log's no longer. `run` may be called in any thread; then `left` are not renamed yet."""

    __slots__ = ("_delay_ms", "_replacement", "left")

    def __init__(self, segments: Sequence[Segment], delay_ms: float, replacement: Replacement | None) -> None:
        """`replacement`: what compaction has done last, of which not all names may be what they are to be.

        What it has replaced would be there in the next start if its new segment went first.
        """
        self._delay_ms = delay_ms
        self._replacement = replacement
        self.left = list(segments)

    def run(self) -> None:
        """Rename the files of each, the oldest first. Raises OSError."""
        if self._replacement is not None:
            self._replacement.settle()
        while self.left:
            self.left[0].delete(self._delay_ms)
            del self.left[0]


def begin(log: Log, segments: Segments, now_ms: int, up_to: int, most: int | None) -> SegmentDeletion | None:
    """See `Log.begin_segment_deletion`."""
    if not log_lock.may(log, log_lock.DELETE_SEGMENTS):
        return None
    count = min(expired(log, segments, now_ms, up_to, most), len(segments) - 1)
    if not count:
        return None
    if log.config.is_deleted and log.config.retention_ms >= 0:
        for segment, behind in pairwise(segments.first(count + 1)):
            if behind.base_offset > log.start_offset:  # else it goes however old it is, or has gone in part
                offset_lookup.check_newest(segment)
    count = segments.deletable(count)
    if not count:
        return None
    log.advance_start(segments[count].base_offset)
    log.names_unsynced = True
    log_lock.acquire(log, log_lock.EXPIRING)
    replacement = segments.compacted.unfinished if segments.were_compacted else None
    return SegmentDeletion(segments.forget_first(count), log.config.file_delete_delay_ms, replacement)


def end(log: Log, segments: Segments, made: SegmentDeletion) -> None:
    """See `Log.end_segment_deletion`."""
    log_lock.release(log, log_lock.EXPIRING)
    if not log.is_retired:  # of one without its `.log` the next start removes what else there is
        segments.put_back([segment for segment in made.left if not segment.is_deleted])


def expired(log: Log, segments: Segments, now_ms: int, up_to: int, most: int | None = None) -> int:
    """How many segments, counted from the oldest, are kept no longer. Raises OSError, WouldBlock."""
    config = log.config
    retention_ms = config.retention_ms if config.is_deleted else -1
    return retention.expired(
        segments.facts(log.start_offset, log.end_offset, reads_times=retention_ms >= 0),
        total_bytes=segments.size,
        last=len(segments) - 1,
        now_ms=now_ms,
        retention_ms=retention_ms,
        retention_bytes=config.retention_bytes if config.is_deleted else -1,
        start_offset=log.start_offset,
        up_to=up_to,
        most=most,
    )
