"""How fast the machine is meanwhile: a small piece of work, timed all the time on every CPU (gauge.c).

A virtual CPU has gears: while the other hyperthread of its core works for somebody else, a CPU second of ours gets up
to half as much done. CPU time cannot tell, so that two brokers measured in different gears compare the gears.
"""

import json
import math
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from tools.bench.client import BenchError
from tools.bench.generator import compile_program

LIKE = 1.1
"""The legs of a turn are alike if the gauge took at most so many times as long in the slower one."""
_AWAY = 3.0


def mean_microseconds(durations_ns: Sequence[Sequence[int]]) -> float | None:
    """Of the gauge's work, over the CPUs; None where one of them has no sample, as the time was too short.

    A duration counts as three times the CPU's shortest at most: beyond that the CPU was not slow, but away.
    """
    if not durations_ns or not all(durations_ns):
        return None
    return fmean(fmean(min(each, _AWAY * min(cpu)) for each in cpu) for cpu in durations_ns) / 1e3


def unlikeness(legs_us: Sequence[float | None]) -> float:
    """How many times as long the gauge took in the slowest leg of a turn as in the fastest; 1 without a gauge."""
    known = [gauge_us for gauge_us in legs_us if gauge_us is not None]
    if not known:
        return 1.0
    return max(known) / min(known) if len(known) == len(legs_us) else math.inf


def count_alike(turns: Sequence[Sequence[float | None]]) -> int:
    return sum(unlikeness(turn) <= LIKE for turn in turns)


def most_alike(turns: Sequence[Sequence[float | None]], wanted: int) -> list[int]:
    """Numbers of the turns that count: all whose legs are alike, and where these are too few the `wanted` likest.

    It looks at the gauge and at nothing else: no turn is chosen for its ratio.
    """
    by_likeness = sorted(range(len(turns)), key=lambda number: unlikeness(turns[number]))
    return sorted(by_likeness[: max(wanted, count_alike(turns))])


@dataclass(frozen=True, slots=True)
class Gauge:
    """The running program."""

    process: "subprocess.Popen[str]"

    def read(self) -> list[list[int]]:
        """Nanoseconds of each piece of work since it was last read, a list for each CPU."""
        assert self.process.stdin and self.process.stdout  # noqa: PT018
        try:
            os.write(self.process.stdin.fileno(), b"\n")
            durations_ns: list[list[int]] = json.loads(self.process.stdout.readline())
        except (OSError, ValueError) as error:
            raise BenchError(f"the gauge ended with {self.process.poll()}: {error}") from error
        return durations_ns


@contextmanager
def running_gauge(build: Path) -> Iterator[Gauge]:
    """It ends when its standard input is closed, and so also with this process."""
    program = compile_program("gauge", build)
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Gauge(process)
