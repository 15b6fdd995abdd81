"""The speed of the machine during a measurement: gauge.c times a small piece of work all the time on every CPU.

A virtual CPU has gears: while the other hyperthread of the core works for somebody else, a CPU second of ours does down
to half as much work. CPU time does not show this: two brokers measured in different gears would compare the gears.
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

COMPARABLE_WITHIN = 0.1
"""Legs are comparable if neither the gauge's time nor the CPU share of other processes differs by more than a tenth."""
_LONGEST_FACTOR = 3.0


def mean_microseconds(durations_ns: Sequence[Sequence[int]]) -> float | None:
    """The mean duration of the gauge's work over all CPUs; None if the time was too short for a sample of each CPU.

    A duration counts as at most three times the CPU's shortest: a longer one means a preempted gauge, not a slow CPU.
    """
    if not durations_ns or not all(durations_ns):
        return None
    return fmean(fmean(min(each, _LONGEST_FACTOR * min(cpu)) for each in cpu) for cpu in durations_ns) / 1e3


class Conditions(NamedTuple):
    """The conditions of a leg: the mean time of the gauge, and the CPU share of other processes, 0 to 1."""

    gauge_us: float | None
    others_share: float


Turn = Sequence[Conditions]
"""The conditions of each leg of a turn."""


def difference(turn: Turn) -> float:
    """The largest difference between the legs of a turn, in the gauge or in the share of others; 0: no difference."""
    others = [leg.others_share for leg in turn]
    known = [leg.gauge_us for leg in turn if leg.gauge_us is not None]
    if known and len(known) < len(turn):
        return math.inf
    return max(max(known) / min(known) - 1 if known else 0.0, max(others) - min(others))


def count_comparable(turns: Sequence[Turn]) -> int:
    return sum(difference(turn) <= COMPARABLE_WITHIN for turn in turns)


def select_comparable(turns: Sequence[Turn], wanted: int) -> list[int]:
    """The numbers of the turns that count: all comparable ones, or, if too few, the `wanted` ones that differ least.

    The choice depends on the conditions alone: no turn is chosen for its ratio.
    """
    by_likeness = sorted(range(len(turns)), key=lambda number: difference(turns[number]))
    return sorted(by_likeness[: max(wanted, count_comparable(turns))])


@dataclass(frozen=True, slots=True)
class Gauge:
    """The running gauge program."""

    process: "subprocess.Popen[str]"

    def read(self) -> list[list[int]]:
        """The nanoseconds of each piece of work since the last read, one list for each CPU."""
        assert self.process.stdin and self.process.stdout  # noqa: PT018
        try:
            os.write(self.process.stdin.fileno(), b"\n")
            durations_ns: list[list[int]] = json.loads(self.process.stdout.readline())
        except (OSError, ValueError) as error:
            raise BenchError(f"the gauge ended with {self.process.poll()}: {error}") from error
        return durations_ns


@contextmanager
def running_gauge(build: Path) -> Iterator[Gauge]:
    """A running gauge, which ends when its standard input is closed, and so also with this process."""
    program = compile_program("gauge", build)
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Gauge(process)
