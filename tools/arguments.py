"""Strict parsers for what several commands take: offsets, partitions of topics, durations, names."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterable

from headgate.tools.output import UsageError

LARGEST_OFFSET = (1 << 63) - 1
MOST_PARTITIONS = 200_000
"""That one command names by their numbers."""
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_SHORT = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)", re.ASCII)
_ISO = re.compile(
    r"P(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?", re.ASCII
)


def now_ms() -> int:
    """The clock of this machine in ms since 1970; ages and durations are measured by this clock."""
    return time.time_ns() // 1_000_000


def parse_offset(text: str) -> int:
    """A whole number from 0 to 2^63 - 1. Raises UsageError."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else -1
    if not 0 <= number <= LARGEST_OFFSET:
        raise UsageError(f"{text!r} is no offset; write a whole number from 0 on")
    return number


def parse_duration_ms(text: str) -> float | None:
    """The length in ms of `90s`, `15m`, `2h`, `7d` or `PT1H30M`; None for any other text."""
    short = _SHORT.fullmatch(text)
    if short:
        return float(short[1]) * _UNITS_MS[short[2]]
    iso = _ISO.fullmatch(text)
    if not iso or not any(iso.groupdict().values()):
        return None
    return sum(float(count) * _UNITS_MS[unit] for unit, count in iso.groupdict().items() if count)


def parse_topics(texts: Iterable[str]) -> dict[str, list[int] | None]:
    """Sorted partitions by topic from several `topic` or `topic:0,2,4-6`; None: all partitions. Raises UsageError."""
    topics: dict[str, list[int] | None] = {}
    count = 0
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if not topic or (colon and not numbers):
            raise UsageError(f"{text!r} names no topic; write topic, or topic:0,2,4-6 for some of its partitions")
        before = topics.get(topic, [])
        ranges = [parse_partitions(part, text) for part in numbers.split(",")] if colon else []
        count += sum(map(len, ranges))
        if count > MOST_PARTITIONS:
            raise UsageError(f"{text[:80]!r}: more than {MOST_PARTITIONS} partitions are named; no cluster has as many")
        wanted = [number for numbers in ranges for number in numbers] if colon else None
        topics[topic] = None if wanted is None or before is None else sorted({*before, *wanted})
    return topics


def parse_partitions(part: str, text: str) -> range:
    """The partition numbers of `4` or `4-6`, which is a part of `text`. Raises UsageError."""
    first, dash, last = part.partition("-")
    ends = [int(one) if one.isascii() and one.isdecimal() and len(one) < 10 else -1 for one in (first, last or first)]
    if min(ends) < 0 or ends[0] > ends[1] or (dash and not last):
        raise UsageError(f"{text!r}: {part!r} is no partition; write topic:0,2,4-6")
    return range(ends[0], ends[1] + 1)


# ------------------------------------------------------------------------------------------------ values of an option


def offset(text: str) -> int:
    """`type=` of an option: a whole number from 0 on."""
    try:
        return parse_offset(text)
    except UsageError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0 on") from None


def duration_ms(text: str) -> int:
    """`type=` of an option: a duration in ms."""
    length_ms = parse_duration_ms(text)
    if length_ms is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration; write 90s, 15m, 2h, 7d or PT1H30M")
    return int(length_ms)


class WordsAction(argparse.Action):
    """Collects `--state stable,empty --state dead` as a list of words in lower case."""

    def __call__(self, parser: object, options: argparse.Namespace, value: object, name: str | None = None) -> None:
        words = [word.strip().lower() for word in str(value).split(",")]
        setattr(options, self.dest, [*getattr(options, self.dest), *words])


class TopicsAction(argparse.Action):
    """Collects `--topic orders:0,1 --topic payments` as partitions by topic; None stands for all partitions."""

    def __call__(
        self, parser: argparse.ArgumentParser, options: argparse.Namespace, value: object, name: str | None = None
    ) -> None:
        options.topic_texts = [*getattr(options, "topic_texts", []), str(value)]
        try:
            setattr(options, self.dest, parse_topics(options.topic_texts))
        except UsageError as error:
            parser.error(str(error))
