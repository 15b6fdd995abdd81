"""Which segments may go, by time, by size, or because the log starts behind them.

A pure decision; `expiry` performs it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple


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
