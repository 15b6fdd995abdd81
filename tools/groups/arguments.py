"""Strict parsers for the target of a reset, for lists of topics, and for CSV files of offsets.

earliest latest      the start or the end of each partition
4711                 an offset
2026-11-21T15:00Z    the first record of this time or later; without a zone the time is UTC, as in Kafka's own tool
2h  P1DT12H          the first record after this long ago
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from headgate.protocol.messages.list_offsets import EARLIEST, LATEST
from headgate.tools.groups.cluster import TopicPartition
from headgate.tools.output import UsageError

LARGEST_OFFSET = (1 << 63) - 1
_ENDS = {"earliest": EARLIEST, "latest": LATEST}
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_SHORT = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)", re.ASCII)
_ISO = re.compile(
    r"P(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?", re.ASCII
)
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
    timestamp = _ago(text, now_ms)
    timestamp = _time(text) if timestamp is None else timestamp
    if timestamp < 0:
        raise UsageError(f"{text!r} is before 1970 and so before all records; write earliest for the start")
    if timestamp > now_ms:
        raise UsageError(f"{text!r} is in the future; write latest for the end of the partitions")
    return Time(timestamp)


def parse_offset(text: str) -> int:
    """A whole number from 0 to 2^63 - 1. Raises UsageError."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else -1
    if not 0 <= number <= LARGEST_OFFSET:
        raise UsageError(f"{text!r} is no offset; write a whole number from 0 on")
    return number


def _ago(text: str, now_ms: int) -> int | None:
    """The time in ms of a duration before now; None if the text is no duration."""
    short = _SHORT.fullmatch(text)
    if short:
        return int(now_ms - float(short[1]) * _UNITS_MS[short[2]])
    iso = _ISO.fullmatch(text)
    if not iso or not any(iso.groupdict().values()):
        return None
    return int(now_ms - sum(float(count) * _UNITS_MS[unit] for unit, count in iso.groupdict().items() if count))


def _time(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is no target of a reset; write {_TARGETS}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def parse_topics(texts: Iterable[str]) -> dict[str, list[int] | None]:
    """Sorted partitions by topic from several `topic` or `topic:0,2,4-6`; None: all partitions. Raises UsageError."""
    topics: dict[str, list[int] | None] = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if not topic or (colon and not numbers):
            raise UsageError(f"{text!r} names no topic; write topic, or topic:0,2,4-6 for some of its partitions")
        before = topics.get(topic, [])
        wanted = [number for part in numbers.split(",") for number in _numbers(part, text)] if colon else None
        topics[topic] = None if wanted is None or before is None else sorted({*before, *wanted})
    return topics


def _numbers(part: str, text: str) -> range:
    first, dash, last = part.partition("-")
    ends = [int(one) if one.isascii() and one.isdecimal() and len(one) < 10 else -1 for one in (first, last or first)]
    if min(ends) < 0 or ends[0] > ends[1] or (dash and not last):
        raise UsageError(f"{text!r}: {part!r} is no partition; write topic:0,2,4-6")
    return range(ends[0], ends[1] + 1)


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
            partition = TopicPartition(topic, _numbers(number_text, number_text)[0])
            target = Offset(parse_offset(offset_text))
        except UsageError as error:
            raise UsageError(f"line {number}: {error}") from None
        if partition in wanted:
            raise UsageError(f"line {number}: {partition} stands in the file twice")
        wanted[partition] = target
    if not wanted:
        raise UsageError("the file has no line with topic,partition,offset")
    return wanted
