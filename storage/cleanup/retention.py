"""Which segments may go, by time, by size, or because the log starts behind them.

The decision is pure; the log deletes (`Log.begin_segment_deletion`). The active segment stays: a log of which nothing
is kept (`all_expired`) begins another segment first (`Log.roll_for_retention`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise, zip_longest
from typing import NamedTuple

from headgate.protocol.records.batch import NO_TIMESTAMP
from headgate.storage.log.log import Log
from headgate.storage.log.log_lock import DELETE_SEGMENTS
from headgate.storage.log.segment_deletion import SegmentDeletion
from headgate.storage.segment.offset_lookup import check_newest
from headgate.storage.segment.segment import Segment


class Expirable(NamedTuple):
    """What decides about a segment. `end_offset` is where the next one begins; the last segment's is the log's end.

    `newest_ms` is its highest timestamp, or when its file was last written to if its records have none.
    """

    end_offset: int
    size: int
    newest_ms: int


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
) -> int:
    """How many segments, counted from the oldest, may be deleted, `most` at most. -1 as a limit means none.

    The log has `total_bytes` in all, and `last` is the number of its last segment, counted from 0. No more segments
    are looked at than may go, and one: what there is to know of one that was not used yet is read from the disk.

    Nothing that reaches behind `up_to`, the high watermark, may go, and only a prefix of the log: a young segment keeps
    all behind it. The last segment goes too if it holds something; the log then goes on in a new one. Source: Apache
    Kafka's `UnifiedLog.deleteOldSegments`, `deletableSegments` and `LogSegment.largestTimestamp`.
    """
    surplus_bytes = total_bytes - retention_bytes if retention_bytes >= 0 else 0
    found = 0
    for found, segment in enumerate(islice(segments, most), start=1):
        is_old = 0 <= retention_ms < now_ms - segment.newest_ms
        is_surplus = retention_bytes >= 0 and surplus_bytes >= segment.size
        is_behind_start = segment.end_offset <= start_offset
        is_begun = found > last and not segment.size  # to be written to next
        if segment.end_offset > up_to or is_begun or not (is_old or is_surplus or is_behind_start):
            return found - 1
        surplus_bytes -= segment.size
    return found


def begin_segment_deletion(
    log: Log, now_ms: int, up_to: int, most: int | None = None, *, blocking: bool = True
) -> SegmentDeletion | None:
    """Have a log give up its oldest segments that are kept no longer, `most` at most, below the high watermark `up_to`.

    A thread may run the result, and the log gets it back (`Log.end_segment_deletion`). None if all segments are kept,
    and while another operation excludes deletion (`log_lock`). Raises OSError, of these WrongIndex for
    `SyncFailureRepair.remake_steps`; WouldBlock if not `blocking`.
    """
    if not log.may(DELETE_SEGMENTS):
        return None
    segments = log.segments
    count = min(_count_expired(log, segments, now_ms, up_to, most, blocking), len(segments) - 1)
    if log.config.is_deleted and log.config.retention_ms >= 0:
        for segment, behind in pairwise(segments[: count + 1]):
            if behind.base_offset > log.start_offset:  # else its age does not matter: records of it are deleted already
                check_newest(segment, blocking)
    return log.begin_segment_deletion(count)


def all_expired(log: Log, now_ms: int, up_to: int, *, blocking: bool = True) -> bool:
    """Whether nothing in the log is kept, so that its only segment may go too.

    Raises OSError; WouldBlock if not `blocking`.
    """
    segments = log.segments
    if len(segments) > 1 or not log.active.size:
        return False
    return _count_expired(log, segments, now_ms, up_to, None, blocking) > 0


def _count_expired(
    log: Log, segments: Sequence[Segment], now_ms: int, up_to: int, most: int | None, blocking: bool
) -> int:
    config = log.config
    retention_ms = config.retention_ms if config.is_deleted else -1
    return expired(
        _facts(segments, log.start_offset, log.end_offset, reads_times=retention_ms >= 0, blocking=blocking),
        total_bytes=log.size,
        last=len(segments) - 1,
        now_ms=now_ms,
        retention_ms=retention_ms,
        retention_bytes=config.retention_bytes if config.is_deleted else -1,
        start_offset=log.start_offset,
        up_to=up_to,
        most=most,
    )


def _facts(
    segments: Sequence[Segment], start_offset: int, end_offset: int, *, reads_times: bool, blocking: bool
) -> Iterator[Expirable]:
    """The facts of each segment, the oldest first, read when they are asked for.

    Times are not read where the decision needs none, nor of a segment before the log's start.
    """
    for segment, behind in zip_longest(segments, segments[1:]):
        end = end_offset if behind is None else behind.base_offset
        is_wanted = reads_times and end > start_offset
        yield Expirable(end, segment.size, _newest_ms(segment, blocking) if is_wanted else NO_TIMESTAMP)


def _newest_ms(segment: Segment, blocking: bool) -> int:
    timestamp = segment.read_max_timestamp(blocking)
    # Records have no time before Kafka 0.10.
    return timestamp if timestamp >= 0 or not segment.size else segment.modified_ms
