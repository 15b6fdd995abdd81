"""The rows of one survey: lag and verdicts by the definitions in `protocol/lag`, in steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from headgate.gateway.lag.commit_windows import CommitWindows
from headgate.gateway.lag.partition_ends import SurveyedEnds
from headgate.gateway.lag.readers import (
    NO_SUCH_PARTITION,
    UNKNOWN,
    Committed,
    GroupLag,
    GroupPartitionLag,
    GroupReading,
    OwningMember,
)
from headgate.gateway.lag.unread_times import UnreadPosition, UnreadTimes
from headgate.protocol.lag.measurement import UNKNOWN_TIMESTAMP, first_unread, measure
from headgate.protocol.lag.verdicts import worst
from headgate.protocol.steps import Steps

ROWS_AT_ONCE: Final = 64
"""The rows of one step: some 0.5 ms."""


class SurveyFacts(NamedTuple):
    """What a survey has found. `read_by_end`: positions without a record before the end."""

    ends: SurveyedEnds
    times: UnreadTimes
    windows: CommitWindows
    read_by_end: Mapping[UnreadPosition, int | None]
    now_ms: int
    quiet_ms: float


def find_ends(readings: Iterable[GroupReading], ends: SurveyedEnds) -> Steps[None]:
    """Look at the ends of all partitions of all groups."""
    count = 0
    for reading in readings:
        for topic, index, _ in reading.partitions():
            ends.find(topic, index)
            count += 1
            if count % ROWS_AT_ONCE == 0:
                yield


def note_windows(
    readings: Iterable[GroupReading], ends: SurveyedEnds, windows: CommitWindows, now_ms: int
) -> Steps[None]:
    """Note the commits and the ends of this survey."""
    windows.begin()
    count = 0
    for reading in readings:
        for topic, index, committed in reading.partitions():
            found = ends.find(topic, index)
            if found is not None:
                windows.note_end(topic, index, found.stable_end)
            if committed is not None:
                windows.note(reading.name, topic, index, committed, now_ms)
            count += 1
            if count % ROWS_AT_ONCE == 0:
                yield


def unread_positions(readings: Iterable[GroupReading], ends: SurveyedEnds) -> Steps[dict[UnreadPosition, int]]:
    """The first unread offset of each partition that a group has not read, with its end."""
    wanted: dict[UnreadPosition, int] = {}
    count = 0
    for reading in readings:
        for topic, index, committed in reading.partitions():
            found = ends.find(topic, index)
            if found is not None and committed is not None:
                unread = first_unread(committed.offset, found.start, found.end)
                if unread is not None:
                    wanted[UnreadPosition(topic, index, unread)] = found.end
            count += 1
            if count % ROWS_AT_ONCE == 0:
                yield
    return wanted


def measure_groups(readings: Iterable[GroupReading], facts: SurveyFacts) -> Steps[list[GroupLag]]:
    """The lag of all groups, sorted by name."""
    groups: list[GroupLag] = []
    count = 0
    for reading in sorted(readings, key=lambda reading: (reading.name, reading.kind)):
        rows: list[GroupPartitionLag] = []
        for topic, index, committed in reading.partitions():
            rows.append(_measure(reading.name, topic, index, committed, reading.owners.get((topic, index)), facts))
            count += 1
            if count % ROWS_AT_ONCE == 0:
                yield
        rows.sort(key=lambda row: row[:2])
        groups.append(_summarize(reading, rows))
    return groups


def _summarize(reading: GroupReading, rows: list[GroupPartitionLag]) -> GroupLag:
    records = [row.records for row in rows if row.records is not None]
    seconds = [row.seconds for row in rows if row.seconds is not None]
    verdicts = [row.verdict for row in rows if row.verdict is not None]
    return GroupLag(
        reading.name,
        reading.kind,
        reading.state,
        reading.members,
        sum(records) if records else None,
        max(seconds, default=None),
        worst(verdicts) if verdicts else None,
        reading.error,
        rows,
    )


def _measure(
    group: str, topic: str, index: int, committed: Committed | None, owner: OwningMember | None, facts: SurveyFacts
) -> GroupPartitionLag:
    found = facts.ends.find(topic, index)
    if found is None:
        status = UNKNOWN if facts.ends.exists(topic, index) else NO_SUCH_PARTITION
        return GroupPartitionLag(topic, index, committed, None, None, None, None, status, None, None, owner)
    start, end, stable_end, leader = found
    offset = None if committed is None else committed.offset
    unread = first_unread(offset, start, end)
    oldest_ms = None if unread is None else _time(UnreadPosition(topic, index, unread), facts)
    lag = measure(offset, start, end, oldest_ms, facts.now_ms)
    verdict = None
    if lag.records is not None:
        # A group that has read up to an open transaction may be one that can read no further
        left = lag.records - (end - stable_end)
        verdict = facts.windows.judge(group, topic, index, left, facts.now_ms, facts.quiet_ms)
    return GroupPartitionLag(
        topic,
        index,
        committed,
        start,
        end,
        lag.records,
        lag.seconds,
        lag.status.value,
        verdict,
        leader,
        owner,
        stable_end,
    )


def _time(position: UnreadPosition, facts: SurveyFacts) -> int | None:
    if position in facts.read_by_end:
        return None
    time_ms = facts.times.find(position)
    return UNKNOWN_TIMESTAMP if time_ms is None else time_ms
