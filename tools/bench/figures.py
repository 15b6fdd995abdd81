"""From samples to figures: what one repetition says, ratios between two brokers, what changed since an earlier run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
    generator_cpu_seconds: float
    others_share: float
    p50_us: float
    p99_us: float


@dataclass(frozen=True, slots=True)
class Figure:
    """A number made of a sample. `mark` is the ratio to Kafka that promised for it, `mark_note` another promise."""

    name: str
    of: Callable[[Sample], float]
    more_is_better: bool = False
    mark: float | None = None
    mark_note: str = ""

    def mark_text(self) -> str:
        return self.mark_note if self.mark is None else f"{'>=' if self.more_is_better else '<='} {self.mark:g}"


class Comparison(NamedTuple):
    """Medians of both brokers, and of the ratios within each repetition with the smallest and the largest of them."""

    headgate: float
    kafka: float
    ratio: float
    lowest: float
    highest: float


def cpu_seconds_per_gigabyte(sample: Sample) -> float:
    return sample.server_cpu_seconds / (sample.record_bytes / 1e9)


def megabytes_per_second(sample: Sample) -> float:
    return sample.record_bytes / 1e6 / sample.seconds


def cpu_microseconds_per_request(sample: Sample) -> float:
    return sample.server_cpu_seconds * 1e6 / sample.requests


def requests_per_second(sample: Sample) -> float:
    return sample.requests / sample.seconds


def compare(headgate: Sequence[float], kafka: Sequence[float]) -> Comparison:
    """Repetition n of one beside repetition n of the other: one ran after the other, under the same load of others."""
    ratios = [ours / theirs for ours, theirs in zip(headgate, kafka, strict=True)]
    return Comparison(median(headgate), median(kafka), median(ratios), min(ratios), max(ratios))


def has_fallen(now: float, base: float, *, more_is_better: bool) -> bool:
    return now < base * (1 - FALLEN) if more_is_better else now > base * (1 + FALLEN)
