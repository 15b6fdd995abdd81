"""From samples to figures: the figures of a repetition, ratios between two brokers, changes since an earlier run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from statistics import median
from typing import NamedTuple

REGRESSION = 0.1  # a ratio worse by more than a tenth is reported


@dataclass(frozen=True, slots=True)
class Sample:
    """One repetition of one row on one broker. Latencies in microseconds, times in seconds."""

    requests: int
    record_bytes: int
    seconds: float
    server_cpu_seconds: float
    client_cpu_seconds: float
    others_share: float
    p50_us: float
    p99_us: float
    mean_us: float = 0.0
    max_us: float = 0.0
    gauge_us: float | None = None
    """The mean time of the gauge's work during the repetition: the gear of the machine (gauge.py)."""
    alone_p50_us: float = 0.0
    alone_p99_us: float = 0.0
    """The latencies of a bystander (bystander.py) just before, without the load."""
    loads_per_second: float = 0.0
    """The answered requests of the load beside a bystander."""
    transaction_p50_us: float = 0.0
    transaction_p99_us: float = 0.0
    """The latencies of whole transactions; `p50_us` and `p99_us` are those of their commits."""
    zookeeper_cpu_seconds: float = 0.0
    """The CPU time of a ZooKeeper that serves the measured cluster alone, not part of the servers'."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number computed from a sample, and the promise for the number.

    `mark` promises a ratio to the second leg, `limit` a value of the number itself. With both, one of them suffices.
    """

    name: str
    of: Callable[[Sample], float]
    more_is_better: bool = False
    mark: float | None = None
    limit: float | None = None
    unit: str = ""

    def mark_text(self) -> str:
        if self.limit is not None:
            limit = f"<= {self.limit:g} {self.unit}"
            return limit if self.mark is None else f"{limit} or <= {self.mark:g}"
        return "" if self.mark is None else f"{'>=' if self.more_is_better else '<='} {self.mark:g}"

    def is_reached(self, value: float, ratio: float | None) -> bool | None:
        """True if the promise is kept; None without a promise, or for a mark without a second leg."""
        if self.limit is not None and (self.mark is None or ratio is None or value <= self.limit):
            return value <= self.limit
        if self.mark is None or ratio is None:
            return None
        return ratio >= self.mark if self.more_is_better else ratio <= self.mark


class Comparison(NamedTuple):
    """The median of the ratios of the turns, and the interval that holds the true median with 94 percent."""

    ratio: float
    lowest: float
    highest: float


def cpu_seconds_per_gigabyte(sample: Sample) -> float:
    return sample.server_cpu_seconds / (sample.record_bytes / 1e9)


def megabytes_per_second(sample: Sample) -> float:
    return sample.record_bytes / 1e6 / sample.seconds


def cpu_microseconds_per_request(sample: Sample) -> float:
    return sample.server_cpu_seconds * 1e6 / sample.requests


def requests_per_cpu_second(sample: Sample) -> float:
    return sample.requests / sample.server_cpu_seconds


def requests_per_second(sample: Sample) -> float:
    return sample.requests / sample.seconds


def compare(headgate: Sequence[float], other: Sequence[float]) -> Comparison | None:
    """Compare turn by turn: the legs of a turn ran one after the other, under the same load by other processes.

    None if all values of `other` are 0, as a tool may print that counts whole milliseconds.
    """
    ratios = [ours / theirs for ours, theirs in zip(headgate, other, strict=True) if theirs]
    return Comparison(median(ratios), *interval(ratios)) if ratios else None


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The interval that holds the distribution's median with probability 15/16; of five values, smallest to largest.

    This is true for any distribution: each value lies below the median with probability 1/2, so binomial coefficients
    tell how many values can be left out at each end. From fewer than five values none is left out.
    """
    ordered, count, left_out = sorted(values), len(values), 0
    while sum(comb(count, below) for below in range(left_out + 2)) <= 2**count / 32:
        left_out += 1
    return ordered[left_out], ordered[-1 - left_out]


def has_regressed(now: float, base: float, *, more_is_better: bool) -> bool:
    return now < base * (1 - REGRESSION) if more_is_better else now > base * (1 + REGRESSION)
