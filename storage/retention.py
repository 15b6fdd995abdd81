"""Which segments may go, by time, by size, or because the log starts behind them.

A pure decision; `Log.delete_old_segments` performs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class SegmentFacts(NamedTuple):
    """What decides about a segment. `end_offset` is where the next one begins; the last segment's is the log's end.

    `newest_ms` is its highest timestamp, or when its file was last written to if its records have none.
    """

    end_offset: int
    size: int
    newest_ms: int


def expired(
    segments: Sequence[SegmentFacts],
    *,
    now_ms: int,
    retention_ms: int,
    retention_bytes: int,
    start_offset: int,
    up_to: int,
) -> int:
    """How many segments, counted from the oldest, may be deleted. -1 as a limit means none.

    Nothing that reaches behind `up_to`, the high watermark, may go, and only a prefix of the log: a young segment keeps
    all behind it. The last segment goes too if it holds something; the log then goes on in a new one. Source: Apache
    Kafka's `UnifiedLog.deleteOldSegments`, `deletableSegments` and `LogSegment.largestTimestamp`.
    """
    last = len(segments) - 1
    surplus_bytes = sum(segment.size for segment in segments) - retention_bytes if retention_bytes >= 0 else 0
    for count, segment in enumerate(segments):
        is_old = 0 <= retention_ms < now_ms - segment.newest_ms
        is_surplus = retention_bytes >= 0 and surplus_bytes >= segment.size
        is_behind_start = segment.end_offset <= start_offset
        is_begun = count == last and not segment.size  # to be written to next
        if segment.end_offset > up_to or is_begun or not (is_old or is_surplus or is_behind_start):
            return count
        surplus_bytes -= segment.size
    return len(segments)
