"""`headgate spark lag --watch`: bars on a terminal that follow the readers; JSON lines otherwise.

A bar is a partition: the longest is the largest lag since the watch began, and it shrinks to nothing as the reader
comes to the end. Rates cover the last measurements, so the time left counts new records too.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.positions.lag import ReaderLag, read_lag, seconds_left, summarize, to_row
from headgate.spark.positions.locations import Connect
from headgate.tools.arguments import now_ms
from headgate.tools.groups.actions import check_lag_limits
from headgate.tools.output import CommandResult, printable
from headgate.tools.progress import format_duration

_WIDTH: Final = 24
_MOST_BARS: Final = 24
MEASUREMENTS: Final = 30
"""Rates cover this number of measurements."""


class LagMeasurement(NamedTuple):
    """The lag at one moment: its time in s, the offset of each reader in each partition, the ends of the partitions."""

    at_s: float
    offsets: Mapping[tuple[str, TopicPartition], int]
    ends: Mapping[TopicPartition, int]


def run(
    connect: Connect,
    options: argparse.Namespace,
    clock_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> CommandResult:
    """Show the lag until Ctrl-C. The result has the limits of the last measurement."""
    measured: deque[LagMeasurement] = deque(maxlen=MEASUREMENTS)
    largest: dict[tuple[str, TopicPartition], int] = {}
    rows: Sequence[ReaderLag] = []
    failures: list[str] = []
    drawn = 0
    try:
        while True:
            rows, failures, _ = read_lag(connect, options)
            measured.append(to_measurement(rows, clock_s()))
            rows = with_measured_rates(rows, measured)
            for row in rows:
                key = (row.lag.group, row.lag.partition)
                largest[key] = max(largest.get(key, 0), row.lag.records or 0)
            drawn = _show([*draw(rows, largest), *summarize(rows)], rows, drawn, options)
            sleep(options.watch)
    except KeyboardInterrupt:
        behind, unclear = check_lag_limits([row.lag for row in rows], options.fail_above, options.fail_above_seconds)
        return CommandResult(failures=[*failures, *unclear], notes=behind, is_alarm=bool(behind))


def to_measurement(rows: Sequence[ReaderLag], at_s: float) -> LagMeasurement:
    """The facts of the rows that later measurements need."""
    offsets = {(row.lag.group, row.lag.partition): row.lag.committed.offset for row in rows if row.lag.committed}
    return LagMeasurement(at_s, offsets, {row.lag.partition: row.lag.end for row in rows if row.lag.end is not None})


def with_measured_rates(rows: Sequence[ReaderLag], measured: Sequence[LagMeasurement]) -> list[ReaderLag]:
    """The rows with the rates between the first and the last measurement.

    The rates of the rows stay with one measurement alone, and without progress until all are made: a batch is long.
    """
    first, last = measured[0], measured[-1]
    elapsed_s = last.at_s - first.at_s
    if elapsed_s <= 0:
        return list(rows)
    has_all = len(measured) >= MEASUREMENTS
    arrivals = {
        partition: max(0, end - first.ends.get(partition, end)) / elapsed_s for partition, end in last.ends.items()
    }
    rated = []
    for row in rows:
        key = (row.lag.group, row.lag.partition)
        moved = last.offsets.get(key, 0) - first.offsets.get(key, last.offsets.get(key, 0))
        rate = max(0, moved) / elapsed_s if moved > 0 or has_all else row.rate
        left = seconds_left(row.lag.records, rate, arrivals.get(row.lag.partition, 0.0))
        rated.append(row._replace(rate=rate, seconds_left=left))
    return rated


def draw(rows: Sequence[ReaderLag], largest: Mapping[tuple[str, TopicPartition], int]) -> list[str]:
    """The lines of the bars, the longest lag first; all bars have one scale."""
    ordered = sorted(rows, key=lambda row: (-(row.lag.records or 0), row.lag.group, row.lag.partition))
    scale = max(largest.values(), default=0)
    names = [f"{row.lag.group} {row.lag.partition}" for row in ordered[:_MOST_BARS]]
    width = max(map(len, names), default=0)
    lines = [f"{name.ljust(width)}  {_bar(row, scale)}" for name, row in zip(names, ordered, strict=False)]
    more = len(ordered) - len(lines)
    return [*lines, f"and {more} partitions with less"] if more else lines


def _bar(row: ReaderLag, scale: int) -> str:
    records = row.lag.records
    if records is None:
        return f"[{'?' * _WIDTH}] {row.lag.status}"
    filled = min(_WIDTH, -(-records * _WIDTH // scale)) if scale else 0
    text = f"[{('#' * filled).ljust(_WIDTH, '.')}] {records:>13,} records"
    if row.lag.seconds is not None:
        text += f", {row.lag.seconds:,.1f} s"
    if row.rate is not None:
        text += f", {row.rate:,.0f}/s"
    if row.seconds_left:
        text += f", {format_duration(row.seconds_left)} left"
    return text if row.lag.status == "ok" else f"{text}, {row.lag.status}"


def _show(lines: Sequence[str], rows: Sequence[ReaderLag], drawn: int, options: argparse.Namespace) -> int:
    """Print the lines over the lines before; return their number."""
    if options.json or not (options.table or sys.stdout.isatty()):
        at_ms = now_ms()
        for row in rows:
            print(json.dumps({"at_ms": at_ms, **to_row(row)}))
        sys.stdout.flush()
        return 0
    if drawn:
        sys.stdout.write(f"\x1b[{drawn}A")
    sys.stdout.write("".join(f"\x1b[K{printable(line)}\n" for line in lines) + "\x1b[J")
    sys.stdout.flush()
    return len(lines)
