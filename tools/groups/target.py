"""Where offsets are to go, and for which partitions: what people write, read strictly.

earliest latest      an end of each partition
4711                 an offset
2026-11-21T15:00Z    the first record of this time or later; without a zone it is UTC, as in Kafka's own tool
2h  P1DT12H          so long ago
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from headgate.protocol.messages.list_offsets import EARLIEST, LATEST
from headgate.tools.groups.cluster import TopicPartition

LARGEST_OFFSET = (1 << 63) - 1
_ENDS = {"earliest": EARLIEST, "latest": LATEST}
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_SHORT = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)", re.ASCII)
_ISO = re.compile(
    r"P(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?", re.ASCII
)
_HOW = "earliest, latest, an offset, a time as 2026-11-21T15:00Z, or how long ago as 90s, 15m, 2h, 7d"


class Badly(ValueError):
    """What was written is not what can be done; the text says what is wrong and how it is right."""


class Offset(NamedTuple):
    """Exactly there."""

    offset: int


class Time(NamedTuple):
    """The first record of this time in ms or later; or LATEST, EARLIEST."""

    timestamp: int


class Shift(NamedTuple):
    """So many offsets on from the committed one, or back."""

    by: int


def parse(text: str, now_ms: int) -> Offset | Time:
    """What `--to` says. Raises Badly."""
    if text in _ENDS:
        return Time(_ENDS[text])
    if text.isascii() and text.isdecimal():
        return Offset(offset(text))
    timestamp = _ago(text, now_ms)
    timestamp = _time(text) if timestamp is None else timestamp
    if timestamp < 0:
        raise Badly(f"{text!r} is before 1970, and before all records")
    if timestamp > now_ms:
        raise Badly(f"{text!r} is in the future; for the end of the partitions write latest")
    return Time(timestamp)


def offset(text: str) -> int:
    """A number from 0 to the largest there can be. Raises Badly."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else -1
    if not 0 <= number <= LARGEST_OFFSET:
        raise Badly(f"{text!r} is no offset: a whole number from 0 on")
    return number


def _ago(text: str, now_ms: int) -> int | None:
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
        raise Badly(f"{text!r} is nowhere to go: write {_HOW}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def parse_topics(texts: Iterable[str]) -> dict[str, list[int] | None]:
    """`topic` or `topic:0,2,4-6`, several times -> partitions by topic, None for all of them. Raises Badly."""
    topics: dict[str, list[int] | None] = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if not topic or (colon and not numbers):
            raise Badly(f"{text!r} names no topic; write topic, or topic:0,2,4-6 for some of its partitions")
        before = topics.get(topic, [])
        wanted = [number for part in numbers.split(",") for number in _numbers(part, text)] if colon else None
        topics[topic] = None if wanted is None or before is None else sorted({*before, *wanted})
    return topics


def _numbers(part: str, text: str) -> range:
    first, dash, last = part.partition("-")
    ends = [int(one) if one.isascii() and one.isdecimal() and len(one) < 10 else -1 for one in (first, last or first)]
    if min(ends) < 0 or ends[0] > ends[1] or (dash and not last):
        raise Badly(f"{text!r}: {part!r} is no partition; write topic:0,2,4-6")
    return range(ends[0], ends[1] + 1)


def parse_csv(lines: Iterable[str], group: str) -> Mapping[TopicPartition, Offset]:
    """Lines of `topic,partition,offset` or `group,topic,partition,offset`, as Kafka's own tool writes. Raises Badly."""
    wanted: dict[TopicPartition, Offset] = {}
    for number, row in enumerate(csv.reader(lines, skipinitialspace=True), 1):
        if not row:
            continue
        if len(row) == 4 and row[0] != group:
            raise Badly(
                f"line {number}: this is for group {row[0]!r}, not for {group!r}; nothing is taken from the file"
            )
        if len(row) not in (3, 4):
            raise Badly(f"line {number}: there are {len(row)} fields; write topic,partition,offset")
        topic, index, place = (field.strip() for field in row[-3:])
        try:
            partition = TopicPartition(topic, _numbers(index, index)[0])
            place_wanted = Offset(offset(place))
        except Badly as error:
            raise Badly(f"line {number}: {error}") from None
        if partition in wanted:
            raise Badly(f"line {number}: {partition} is there a second time")
        wanted[partition] = place_wanted
    if not wanted:
        raise Badly("the file has no line with topic,partition,offset")
    return wanted
