"""From samples to figures: what one repetition says, ratios between two brokers, what changed since an earlier run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from statistics import median
from typing import NamedTuple

FALLEN = 0.1  # a ratio worse by more than a tenth is named


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
    """How long the gauge took for its work meanwhile: the gear of the machine (gauge.py)."""
    alone_p50_us: float = 0.0
    alone_p99_us: float = 0.0
    """Of a bystander (bystander.py): its latency just before, without the load."""
    loads_per_second: float = 0.0
    """Requests of the load beside a bystander that were answered."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number made of a sample.

    Promised for it: `mark`, a ratio to what it is measured beside, or `limit`, itself. With both, either suffices.
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
        """None where nothing is promised, or where there is nothing beside it."""
        if self.limit is not None and (self.mark is None or ratio is None or value <= self.limit):
            return value <= self.limit
        if self.mark is None or ratio is None:
            return None
        return ratio >= self.mark if self.more_is_better else ratio <= self.mark


class Comparison(NamedTuple):
    """Median of the ratios within each turn, and the interval that holds the true one with 94 percent."""

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
    """Turn n of one beside turn n of the other: one ran after the other, under the same load of others.

    None where the other is always 0, as may be what a tool prints in whole milliseconds.
    """
    ratios = [ours / theirs for ours, theirs in zip(headgate, other, strict=True) if theirs]
    return Comparison(median(ratios), *interval(ratios)) if ratios else None


def interval(values: Sequence[float]) -> tuple[float, float]:
    """In which the median lies of what these were drawn from, with 15/16: the smallest and the largest of five.

    Of whatever distribution: each value lies below it with a half, so that binomial coefficients tell how many at each
    end can be left out. Fewer than five values know less: then none is.
    """
    ordered, count, left_out = sorted(values), len(values), 0
    while sum(comb(count, below) for below in range(left_out + 2)) <= 2**count / 32:
        left_out += 1
    return ordered[left_out], ordered[-1 - left_out]


def has_fallen(now: float, base: float, *, more_is_better: bool) -> bool:
    return now < base * (1 - FALLEN) if more_is_better else now > base * (1 + FALLEN)
