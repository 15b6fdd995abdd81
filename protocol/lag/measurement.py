"""Lag: how far a group is behind, in records and in seconds. One definition for all commands.

Records: the offsets from the committed one to the end of the partition (its high watermark), as Kafka's own tool
counts. Offsets without records, after compaction or for transaction markers, count too.

Seconds: the age of the oldest unread record, the first one at or after the committed offset: now minus its timestamp.
A reader that starts now is late by that much. This lag needs no history of commits, and is 0 for a group that has read
everything, however old the last record is.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

UNKNOWN_TIMESTAMP = -1
"""The oldest unread record has no timestamp, or could not be read."""


class OffsetStatus(Enum):
    """Where a committed offset stands; out of range, the consumer's auto.offset.reset decides what it reads next."""

    OK = "ok"
    NO_OFFSET = "no offset"
    BELOW_START = "below the start"
    BEYOND_END = "beyond the end"

    @property
    def is_out_of_range(self) -> bool:
        return self in (OffsetStatus.BELOW_START, OffsetStatus.BEYOND_END)


class Lag(NamedTuple):
    """`records` is None where nothing is committed, `seconds` also where no time is known."""

    records: int | None
    seconds: float | None
    status: OffsetStatus


def offset_status(committed: int | None, start: int, end: int) -> OffsetStatus:
    """Where an offset stands in a partition that has the offsets from `start` to before `end`."""
    if committed is None or committed < 0:
        return OffsetStatus.NO_OFFSET
    if committed < start:
        return OffsetStatus.BELOW_START
    return OffsetStatus.BEYOND_END if committed > end else OffsetStatus.OK


def first_unread(committed: int | None, start: int, end: int) -> int | None:
    """The offset at which the search for the oldest unread record begins; None if there is nothing to read."""
    if committed is None or committed < 0 or max(committed, start) >= end:
        return None
    return max(committed, start)


def measure(committed: int | None, start: int, end: int, oldest_unread_ms: int | None, now_ms: int) -> Lag:
    """The lag of a group in a partition.

    `oldest_unread_ms` is the timestamp of the first record from `first_unread` on: None if there is none (what is left
    are gaps and markers), UNKNOWN_TIMESTAMP if it is not known. A timestamp in the future, of a producer whose clock is
    wrong, counts as now. Records that were deleted unread count in `records`, as in Kafka's tool, but have no age.
    """
    where = offset_status(committed, start, end)
    if committed is None or where is OffsetStatus.NO_OFFSET:
        return Lag(None, None, where)
    records = max(0, end - committed)
    if records == 0 or oldest_unread_ms is None:
        return Lag(records, 0.0, where)
    if oldest_unread_ms < 0:
        return Lag(records, None, where)
    return Lag(records, max(0, now_ms - oldest_unread_ms) / 1000, where)
