"""`headgate spark lag --plot`: lag, throughput and batch times as a picture.

With a history, from its batches; otherwise from the offset log of the first checkpoint, which has the last hundred
batches with their starts, and the lag by partition as it is now.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from headgate.protocol.spark.checkpoint import CheckpointBatch
from headgate.spark.positions.checkpoint import ALL_BATCHES, read_checkpoint
from headgate.spark.positions.history import BatchRecord, parse_lines
from headgate.spark.positions.lag import ReaderLag
from headgate.spark.positions.locations import CHECKPOINT
from headgate.tools.output import UsageError

_MOST_BARS = 40


class Series(NamedTuple):
    """Points over time. `seconds`, `rates`, `lags`: one for each time; `lags` may be empty."""

    times_ms: Sequence[int]
    rates: Sequence[float]
    seconds: Sequence[float]
    lags: Sequence[int | None] = ()


def run(options: argparse.Namespace, rows: Sequence[ReaderLag]) -> str:
    """Draw the picture of the options; return a sentence about it. Raises UsageError."""
    if options.history:
        series = of_history(_read_history(options.history))
    else:
        location = next((location for location in options.places if location.kind == CHECKPOINT), None)
        series = of_batches(read_checkpoint(location.name, ALL_BATCHES).batches if location else ())
    draw(options.plot, series, rows)
    return f"{len(series.times_ms)} batches and the lag of {len(rows)} partitions are in {options.plot}"


def _read_history(path: str) -> list[BatchRecord]:
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            return list(parse_lines(file))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None


def of_history(records: Sequence[BatchRecord]) -> Series:
    """The series of a history, by the batches' own durations."""
    timed = [record for record in records if record.at_ms > 0 and record.duration_ms > 0]
    return Series(
        [record.at_ms for record in timed],
        [record.rows * 1000 / record.duration_ms for record in timed],
        [record.duration_ms / 1000 for record in timed],
        [record.lag for record in timed],
    )


def of_batches(batches: Sequence[CheckpointBatch]) -> Series:
    """The series of an offset log: a batch took the time until the next one started, idle time included."""
    times, rates, seconds = [], [], []
    for before, batch, after in zip(batches, batches[1:], batches[2:], strict=False):
        elapsed_s = (after.planned_ms - batch.planned_ms) / 1000
        if batch.planned_ms <= 0 or elapsed_s <= 0:
            continue
        count = sum(max(0, end - before.offsets.get(partition, end)) for partition, end in batch.offsets.items())
        times.append(batch.planned_ms)
        rates.append(count / elapsed_s)
        seconds.append(elapsed_s)
    return Series(times, rates, seconds)


def draw(path: str, series: Series, rows: Sequence[ReaderLag]) -> None:
    """Write the picture, in the format that the name ends with: .svg, .png, .pdf. Raises UsageError."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError("--plot needs matplotlib: pip install 'headgate[plot]'") from None
    figure = Figure(figsize=(10, 9), layout="constrained")
    lag, throughput, batches = figure.subplots(3, 1)
    _draw_lag(lag, series, rows)
    times = [datetime.fromtimestamp(time_ms / 1000, UTC) for time_ms in series.times_ms]
    _draw_line(throughput, times, series.rates, "throughput of each batch", "records a second")
    _draw_line(batches, times, series.seconds, "time of each batch", "seconds")
    batches.set_xlabel("UTC")
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot write {path}: {error}") from None


def _draw_lag(axes: Any, series: Series, rows: Sequence[ReaderLag]) -> None:
    """The lag over time if a history has it, else the lag of each partition now."""
    axes.set_ylabel("records")
    known = [(at, lag) for at, lag in zip(series.times_ms, series.lags, strict=False) if lag is not None]
    if known:
        times = [datetime.fromtimestamp(at / 1000, UTC) for at, _ in known]
        _draw_line(axes, times, [lag for _, lag in known], "lag behind the ends that each batch saw", "records")
        return
    ordered = sorted(rows, key=lambda row: -(row.lag.records or 0))[:_MOST_BARS]
    axes.bar(range(len(ordered)), [row.lag.records or 0 for row in ordered], color="tab:orange")
    labels = [str(row.lag.partition) for row in ordered]
    axes.set_xticks(range(len(ordered)), labels, rotation=0 if len(labels) < 8 else 90)
    more = f", the {_MOST_BARS} largest of {len(rows)}" if len(rows) > _MOST_BARS else ""
    axes.set_title(f"lag of each partition now{more}")
    axes.set_ylim(bottom=0)


def _draw_line(axes: Any, times: Sequence[datetime], values: Sequence[float], title: str, unit: str) -> None:
    axes.set_title(title)
    axes.set_ylabel(unit)
    if not times:
        axes.text(0.5, 0.5, "no batch with a time is known", ha="center", va="center", transform=axes.transAxes)
        axes.set_xticks([])
        axes.set_yticks([])
        return
    axes.plot(times, values, marker="o", markersize=3, linewidth=1)
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, alpha=0.3)
