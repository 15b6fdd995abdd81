"""What a run leaves behind: a table for a person, JSON lines for a later run to be compared with."""

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TextIO

from headgate.tools.bench.measuring.brokers import HEADGATE, KAFKA
from headgate.tools.bench.measuring.figures import Comparison, Figure, Sample, compare, has_fallen
from headgate.tools.bench.requests.client import BenchError

OTHERS_TOLERATED = 0.1
_MORE, _LESS = "more", "less"


class Turns(NamedTuple):
    """How many were made, in how many of them both legs met the same, the numbers of those that are counted."""

    made: int
    alike: int
    counted: Sequence[int]


@dataclass(frozen=True, slots=True)
class Line:
    """One figure of one row: medians, the first against the second where there are two, the largest share of others."""

    row: str
    figure: Figure
    medians: Mapping[str, float]
    comparison: Comparison | None
    others_share: float
    turns: Turns | None = None
    """Of a row that is loaded."""

    @classmethod
    def of(
        cls,
        row: str,
        figure: Figure,
        values: Mapping[str, list[float]],
        others_share: float,
        turns: Turns | None = None,
    ) -> "Line":
        both = compare(*values.values()) if len(values) == 2 else None
        return cls(row, figure, {name: median(series) for name, series in values.items()}, both, others_share, turns)

    @property
    def beside(self) -> str | None:
        """What the ratio is to."""
        return list(self.medians)[1] if len(self.medians) == 2 else None

    @property
    def is_reached(self) -> bool | None:
        """A limit is a promise of ours, not of Kafka's."""
        name = next(iter(self.medians))
        ratio = self.comparison.ratio if self.comparison else None
        return None if name == KAFKA else self.figure.is_reached(self.medians[name], ratio)

    def as_json(self) -> dict[str, Any]:
        better = _MORE if self.figure.more_is_better else _LESS
        known: dict[str, Any] = {"kind": "figure", "row": self.row, "figure": self.figure.name, "better": better}
        known |= {"mark": self.figure.mark, "limit": self.figure.limit, "reached": self.is_reached}
        known |= {"beside": self.beside, **self.medians, "others_share": round(self.others_share, 4)}
        if self.turns:
            known |= {"turns": self.turns.made, "alike": self.turns.alike, "counted": list(self.turns.counted)}
        if self.comparison:
            known |= {
                "ratio": self.comparison.ratio,
                "lowest": self.comparison.lowest,
                "highest": self.comparison.highest,
            }
        return known

    def cells(self) -> list[str]:
        ratio = spread = ""
        if self.comparison:
            ratio, spread = (
                f"{self.comparison.ratio:.3f}",
                f"{self.comparison.lowest:.3f}-{self.comparison.highest:.3f}",
            )
        return [
            self.row,
            self.figure.name,
            *self._figures(),
            ratio,
            spread,
            self.figure.mark_text(),
            _VERDICTS[self.is_reached],
            f"{self.others_share:.0%}",
            f"{len(self.turns.counted)} of {self.turns.made}" if self.turns else "",
        ]

    def _figures(self) -> list[str]:
        """Headgate's and Kafka's; what is neither says its name, in the second column."""
        shown = {name: _number(value) for name, value in self.medians.items()}
        known = [shown.pop(HEADGATE, ""), shown.pop(KAFKA, "")]
        for name, number in shown.items():
            known[1] = f"{number} {name}"
        return known


_VERDICTS = {True: "at the mark", False: "short of it", None: ""}
_HEADINGS = ["row", "figure", "Headgate", "Kafka", "ratio", "spread", "mark", "verdict", "others", "turns"]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def table(lines: Iterable[Line]) -> str:
    """Aligned columns; a row's name stands once."""
    rows = [_HEADINGS]
    last_name = None
    for line in lines:
        name, *rest = line.cells()
        rows.append(["" if name == last_name else name, *rest])
        last_name = name
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


@dataclass(slots=True)
class Journal:
    """The JSON lines of one run: first what ran, then every repetition as it ends, then the figures."""

    path: Path
    lines: list[Line] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    gauges_us: list[float] = field(default_factory=list)

    def open_with(self, **facts: object) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._write({"kind": "run", **facts})

    def row(self, name: str, version: int, connections: int) -> None:
        """`version` is the one that is really used, also where the newest was asked for."""
        self._write({"kind": "row", "row": name, "version": version, "connections": connections})

    def repetition(self, row: str, broker: str, number: int, sample: Sample) -> None:
        gear = None
        if sample.gauge_us is not None:
            self.gauges_us.append(sample.gauge_us)
            gear = round(sample.gauge_us / min(self.gauges_us), 3)
        known = {"kind": "repetition", "row": row, "broker": broker, "number": number, "gear": gear}
        self._write(known | asdict(sample))

    def figure(self, line: Line) -> None:
        self.lines.append(line)
        self._write(line.as_json())

    def failure(self, row: str, reason: str) -> None:
        self.failures.append(f"{row} has no figure: {reason}")
        self._write({"kind": "failure", "row": row, "reason": reason})

    def _write(self, entry: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(entry) + "\n")


def busiest(lines: Sequence[Line]) -> str | None:
    """A warning where other processes had so much of the machine that only ratios of CPU are worth reading."""
    share = max((line.others_share for line in lines), default=0.0)
    if share <= OTHERS_TOLERATED:
        return None
    return f"other processes used up to {share:.0%} of the CPU: rates, latencies and start times mean nothing here"


def gears(gauges_us: Sequence[float]) -> str | None:
    """How far the legs of a run were from its fastest: half of them, and the worst."""
    if not gauges_us:
        return None
    slowest, middle = max(gauges_us) / min(gauges_us), median(gauges_us) / min(gauges_us)
    return f"gears: the gauge took {middle:.2f} times as long as in the fastest leg, {slowest:.2f} in the slowest"


def unlike(lines: Iterable[Line]) -> str | None:
    """Names the rows in too few of whose turns both legs met the same, so that others had to be counted."""
    short = {line.row: line.turns for line in lines if line.turns and line.turns.alike < len(line.turns.counted)}
    if not short:
        return None
    named = (f"{row} ({turns.alike} of {len(turns.counted)})" for row, turns in short.items())
    return f"too few turns in which both brokers met the same machine, the likest were counted: {', '.join(named)}"


def read_ratios(path: Path) -> dict[tuple[str, str], float]:
    """(row, figure) to ratio, of an earlier run's file. Raises BenchError if it is none."""
    try:
        entries = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
        return {(e["row"], e["figure"]): e["ratio"] for e in entries if e["kind"] == "figure" and e.get("ratio")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BenchError(f"{path} is no file of an earlier run, as they are in build/bench: {error}") from error


def verdict(lines: Iterable[Line]) -> str:
    """How many marks are reached, and those that are not."""
    promised = [line for line in lines if line.is_reached is not None]
    short = [f"{line.row} ({line.figure.name})" for line in promised if not line.is_reached]
    counted = f"{len(promised) - len(short)} of {len(promised)} marks reached"
    return f"{counted}; short of it: {', '.join(short)}" if short else counted


def not_compared(lines: Sequence[Line], base: Mapping[tuple[str, str], float]) -> list[str]:
    """A sentence for what only one of the two runs has: no row falls out of sight."""
    now = {(line.row, line.figure.name): line.comparison.ratio for line in lines if line.comparison is not None}
    sides = [("the base", base, now), ("this run", now, base)]
    return [
        f"not compared, only in {where}: {', '.join(names)}"
        for where, one, other in sides
        if (names := _only(one, other))
    ]


def _only(one: Iterable[tuple[str, str]], other: Iterable[tuple[str, str]]) -> list[str]:
    """Rows that are not in the other, and figures of rows that are."""
    known, rows = set(other), {row for row, _ in other}
    names = (f"{row} ({figure})" if row in rows else row for row, figure in one if (row, figure) not in known)
    return list(dict.fromkeys(names))


def fallen(lines: Iterable[Line], base: Mapping[tuple[str, str], float]) -> list[str]:
    """A sentence for each figure whose ratio is worse than in the base by more than a tenth.

    Ratios, not figures: the base may come from another machine or another hour.
    """
    sentences = []
    for line in lines:
        before = base.get((line.row, line.figure.name))
        if before is None or line.comparison is None:
            continue
        now, lowest, highest = line.comparison
        if has_fallen(now, before, more_is_better=line.figure.more_is_better):
            spread = f"{lowest:.3f}-{highest:.3f}"
            sentences.append(
                f"{line.row}: {line.figure.name} is {now:.3f} ({spread}) of {_whose(line)}, was {before:.3f}"
            )
    return sentences


def _whose(line: Line) -> str:
    return "Kafka's" if line.beside == KAFKA else f"{line.beside}'s"


class Progress:
    """One line per measurement with the time left, on stderr: overwritten on a terminal, JSON otherwise."""

    def __init__(self, steps: int, stream: TextIO = sys.stderr) -> None:
        self.steps = steps
        self.done = 0
        self.started = time.monotonic()
        self.stream = stream
        self.is_terminal = stream.isatty()

    def step(self, what: str) -> None:
        """`what` has ended."""
        self.done += 1
        elapsed = time.monotonic() - self.started
        left = elapsed / self.done * max(0, self.steps - self.done)
        if self.is_terminal:
            filled = 24 * min(self.done, self.steps) // max(1, self.steps)
            bar = "#" * filled + "." * (24 - filled)
            self.stream.write(f"\r\x1b[K[{bar}] {self.done}/{self.steps}, {left:.0f} s left; {what}")
        else:
            entry = {"done": self.done, "of": self.steps, "seconds_left": round(left), "what": what}
            self.stream.write(json.dumps(entry) + "\n")
        self.stream.flush()

    def end(self) -> None:
        if self.is_terminal:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
