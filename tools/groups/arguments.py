"""Strict parsers for the target of a reset, and for CSV files of offsets.

earliest latest      the start or the end of each partition
4711                 an offset
2026-11-21T15:00Z    the first record of this time or later; without a zone the time is UTC, as in Kafka's own tool
2h  P1DT12H          the first record after this long ago
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from headgate.protocol.messages.list_offsets import EARLIEST, LATEST
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.arguments import parse_duration_ms, parse_offset, parse_partitions
from headgate.tools.output import UsageError

_ENDS = {"earliest": EARLIEST, "latest": LATEST}
_TARGETS = "earliest, latest, an offset, a time as 2026-11-21T15:00Z, or how long ago as 90s, 15m, 2h, 7d"


class Offset(NamedTuple):
    """Move to exactly this offset."""

    offset: int


class Time(NamedTuple):
    """Move to the first record of this time or later, in ms since 1970; or LATEST or EARLIEST of ListOffsets."""

    timestamp: int


class Shift(NamedTuple):
    """Move by this number of offsets from the committed one; a negative number moves back."""

    by: int


def parse_target(text: str, now_ms: int) -> Offset | Time:
    """The target of `--to`; `now_ms` is the reference for durations. Raises UsageError."""
    if text in _ENDS:
        return Time(_ENDS[text])
    if text.isascii() and text.isdecimal():
        return Offset(parse_offset(text))
    age_ms = parse_duration_ms(text)
    timestamp = _time(text) if age_ms is None else int(now_ms - age_ms)
    if timestamp < 0:
        raise UsageError(f"{text!r} is before 1970 and so before all records; write earliest for the start")
    if timestamp > now_ms:
        raise UsageError(f"{text!r} is in the future; write latest for the end of the partitions")
    return Time(timestamp)


def _time(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is no target of a reset; write {_TARGETS}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def parse_csv(lines: Iterable[str], group: str) -> Mapping[TopicPartition, Offset]:
    """Offsets by partition from lines of `topic,partition,offset` or `group,topic,partition,offset`.

    Kafka's own tool exports these lines. Raises UsageError.
    """
    wanted: dict[TopicPartition, Offset] = {}
    for number, row in enumerate(csv.reader(lines, skipinitialspace=True), 1):
        if not row:
            continue
        if len(row) == 4 and row[0] != group:
            raise UsageError(
                f"line {number}: this is for group {row[0]!r}, not for {group!r}; nothing is taken from the file"
            )
        if len(row) not in (3, 4):
            raise UsageError(f"line {number}: there are {len(row)} fields; write topic,partition,offset")
        topic, number_text, offset_text = (field.strip() for field in row[-3:])
        try:
            partition = TopicPartition(topic, parse_partitions(number_text, number_text)[0])
            target = Offset(parse_offset(offset_text))
        except UsageError as error:
            raise UsageError(f"line {number}: {error}") from None
        if partition in wanted:
            raise UsageError(f"line {number}: {partition} stands in the file twice")
        wanted[partition] = target
    if not wanted:
        raise UsageError("the file has no line with topic,partition,offset")
    return wanted
