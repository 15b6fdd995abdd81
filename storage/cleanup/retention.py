"""Retention: deletes old segments by time, by size, or because the log starts behind them.

The decision is pure; the log deletes (`segment_deletion.begin`). The active segment stays: if all segments have
expired (`all_expired`), the log rolls first (`rolling.roll_for_retention`).

A topic may hold what some groups have not read (`Hold`): such segments stay though they have expired, within limits.
Records below the log's start are never held, as they are deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise, zip_longest
from typing import NamedTuple

from headgate.protocol.records.batch import NO_TIMESTAMP
from headgate.storage.log import segment_deletion
from headgate.storage.log.log import Log
from headgate.storage.log.log_lock import DELETE_SEGMENTS
from headgate.storage.log.segment_deletion import SegmentDeletion
from headgate.storage.segment.segment import Segment


class Expirable(NamedTuple):
    """The facts of a segment that decide about its deletion.

    `end_offset` is the base offset of the next segment, or the end offset of the log. `size` in bytes. `newest_ms` is
    the highest timestamp, or the modification time of the file if the records have none.
    """

    end_offset: int
    size: int
    newest_ms: int


class Hold(NamedTuple):
    """Records from the offset `first_unread` on are held. -1 as a limit means none.

    A segment is held up to the age `max_ms`, and while the log has less than `max_bytes` in all.
    """

    first_unread: int
    max_ms: int = -1
    max_bytes: int = -1


def expired(
    segments: Iterable[Expirable],
    *,
    total_bytes: int,
    last: int,
    now_ms: int,
    retention_ms: int,
    retention_bytes: int,
    start_offset: int,
    up_to: int,
    most: int | None = None,
    hold: Hold | None = None,
) -> int:
    """The number of segments to delete, counted from the oldest, `most` at most. Pure. -1 as a limit means none.

    The log has `total_bytes` in all; `last` is the index of its last segment. The function reads the facts of the
    deleted segments and of one more: the facts of an unused segment come from the disk.

    Only a prefix of the log expires, as a young segment keeps all segments behind it, and only up to `up_to`, the high
    watermark. The last segment expires too unless it is empty; the log then rolls first. Source: Apache Kafka's
    `UnifiedLog.deleteOldSegments`, `deletableSegments` and `LogSegment.largestTimestamp`.
    """
    left_bytes = total_bytes
    count = 0
    for count, segment in enumerate(islice(segments, most), start=1):
        is_old = 0 <= retention_ms < now_ms - segment.newest_ms
        is_surplus = 0 <= retention_bytes <= left_bytes - segment.size
        is_before_start = segment.end_offset <= start_offset
        is_unused = count > last and not segment.size  # the next append goes there
        is_due = is_before_start or ((is_old or is_surplus) and not _is_held(segment, hold, now_ms, left_bytes))
        if segment.end_offset > up_to or is_unused or not is_due:
            return count - 1
        left_bytes -= segment.size
    return count


def _is_held(segment: Expirable, hold: Hold | None, now_ms: int, log_bytes: int) -> bool:
    """Whether a segment stays because it has unread records."""
    if hold is None or segment.end_offset <= hold.first_unread:
        return False
    is_too_old = 0 <= hold.max_ms < now_ms - segment.newest_ms
    return not is_too_old and not 0 <= hold.max_bytes <= log_bytes - segment.size


def begin_segment_deletion(
    log: Log,
    now_ms: int,
    up_to: int,
    most: int | None = None,
    *,
    blocking: bool = True,
    first_unread: int | None = None,
) -> SegmentDeletion | None:
    """Begin to delete the oldest segments, `most` at most, below the high watermark `up_to`.

    `first_unread`: the first offset to be held for the groups of the topic; None to hold nothing.

    Any thread may run the result; `segment_deletion.end` ends it. Returns None if no segment has expired, or while
    another operation excludes deletion (`log_lock`). Raises OSError; its subclass WrongIndex asks for
    `SyncFailureRepair.rebuild_index_steps`; WouldBlock if not `blocking`.
    """
    if not log.lock.may(DELETE_SEGMENTS):
        return None
    segments = log.segments
    hold = _hold(log, first_unread)
    count = min(_count_expired(log, now_ms, up_to, most, blocking, hold), len(segments) - 1)
    if _reads_times(log, hold):
        for segment, following in pairwise(segments[: count + 1]):
            if following.base_offset > log.start_offset:  # otherwise all its records are deleted already, at any age
                segment.check_newest(blocking)
    return segment_deletion.begin(log, count)


def all_expired(log: Log, now_ms: int, up_to: int, *, blocking: bool = True, first_unread: int | None = None) -> bool:
    """Whether the only segment of the log has expired.

    Raises OSError; WouldBlock if not `blocking`.
    """
    if len(log.segments) > 1 or not log.segments.active.size:
        return False
    return _count_expired(log, now_ms, up_to, None, blocking, _hold(log, first_unread)) > 0


def is_holding(log: Log, now_ms: int, up_to: int, first_unread: int, *, blocking: bool = True) -> bool:
    """Whether the oldest segment has expired, and stays because it has unread records.

    Raises OSError; WouldBlock if not `blocking`.
    """
    hold = _hold(log, first_unread)
    return (
        _count_expired(log, now_ms, up_to, 1, blocking, None) > 0
        and _count_expired(log, now_ms, up_to, 1, blocking, hold) == 0
    )


def _hold(log: Log, first_unread: int | None) -> Hold | None:
    config = log.config
    if first_unread is None:
        return None
    return Hold(first_unread, config.headgate_retention_hold_ms, config.headgate_retention_hold_bytes)


def _reads_times(log: Log, hold: Hold | None) -> bool:
    """Whether the decision depends on times: of retention, or of a hold that ends at an age."""
    return log.config.is_deleted and (log.config.retention_ms >= 0 or (hold is not None and hold.max_ms >= 0))


def _count_expired(log: Log, now_ms: int, up_to: int, most: int | None, blocking: bool, hold: Hold | None) -> int:
    config, segments = log.config, log.segments[:]
    return expired(
        _facts(segments, log.start_offset, log.end_offset, reads_times=_reads_times(log, hold), blocking=blocking),
        total_bytes=log.segments.size,
        last=len(segments) - 1,
        now_ms=now_ms,
        retention_ms=config.retention_ms if config.is_deleted else -1,
        retention_bytes=config.retention_bytes if config.is_deleted else -1,
        start_offset=log.start_offset,
        up_to=up_to,
        most=most,
        hold=hold,
    )


def _facts(
    segments: Sequence[Segment], start_offset: int, end_offset: int, *, reads_times: bool, blocking: bool
) -> Iterator[Expirable]:
    """The facts of each segment, the oldest first, read on demand.

    Timestamps are not read if the decision needs none, or if the segment ends before the log's start.
    """
    for segment, following in zip_longest(segments, segments[1:]):
        end = end_offset if following is None else following.base_offset
        is_wanted = reads_times and end > start_offset
        yield Expirable(end, segment.size, segment.read_newest_ms(blocking) if is_wanted else NO_TIMESTAMP)
