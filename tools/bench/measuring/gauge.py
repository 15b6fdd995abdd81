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
from typing import NamedTuple

from headgate.tools.bench.measuring.generator import compile_program
from headgate.tools.bench.requests.client import BenchError

LIKE = 0.1
"""Legs are alike if the gauge took a tenth longer in one at most, and the others used a tenth of the machine more."""
_AWAY = 3.0


def mean_microseconds(durations_ns: Sequence[Sequence[int]]) -> float | None:
    """Of the gauge's work, over the CPUs; None where one of them has no sample, as the time was too short.

    A duration counts as three times the CPU's shortest at most: beyond that the CPU was not slow, but away.
    """
    if not durations_ns or not all(durations_ns):
        return None
    return fmean(fmean(min(each, _AWAY * min(cpu)) for each in cpu) for cpu in durations_ns) / 1e3


class Conditions(NamedTuple):
    """What a leg met: how long the gauge took, and the part of the machine's CPU that the others used."""

    gauge_us: float | None
    others_share: float


Turn = Sequence[Conditions]
"""What its legs met."""


def unlikeness(turn: Turn) -> float:
    """0 where all legs met the same; otherwise how far they differ in the gauge or, if that is more, in others."""
    others = [leg.others_share for leg in turn]
    known = [leg.gauge_us for leg in turn if leg.gauge_us is not None]
    if known and len(known) < len(turn):
        return math.inf
    return max(max(known) / min(known) - 1 if known else 0.0, max(others) - min(others))


def count_alike(turns: Sequence[Turn]) -> int:
    return sum(unlikeness(turn) <= LIKE for turn in turns)


def most_alike(turns: Sequence[Turn], wanted: int) -> list[int]:
    """Numbers of the turns that count: all whose legs are alike, and where these are too few the `wanted` likest.

    It looks at what the legs met and at nothing else: no turn is chosen for its ratio.
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
