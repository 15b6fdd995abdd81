"""Counters, gauges and histograms of a broker.

A counter is incremented at the event, which costs one addition; a gauge is a function that is called at each reading of
the metrics. Names are words with dots, as in `compaction.runs`; `gateway.metrics` has the exposed names and their
meanings.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from headgate.protocol.steps import Steps, finish

LATENCY_BOUNDS_S = (0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)
"""The upper bounds of a histogram's buckets; the last bucket has none."""


class Counter:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def add(self, amount: int = 1) -> None:
        self.value += amount


class Histogram:
    """The number of durations, in seconds, in each bucket, and their sum."""

    __slots__ = ("buckets", "sum_s")

    def __init__(self) -> None:
        self.buckets = [0] * (len(LATENCY_BOUNDS_S) + 1)
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        """Record one duration."""
        self.buckets[bisect_left(LATENCY_BOUNDS_S, seconds)] += 1
        self.sum_s += seconds

    @property
    def count(self) -> int:
        return sum(self.buckets)


LabelledValue: TypeAlias = tuple[tuple[str, ...], int | float | Histogram]
"""A number or a histogram, with its label values."""
Values: TypeAlias = Iterable[LabelledValue]


class Labelled(NamedTuple):
    """A metric with labels; `read` is called at each reading of the metrics."""

    labels: tuple[str, ...]
    read: Callable[[], Values]


class MetricRows(NamedTuple):
    """The rows of a table, by column: rows of their own would be thousands of objects for the garbage collector."""

    texts: Sequence[str]
    """The label values of each row, as `gateway.metrics.label_texts` writes them."""
    columns: Sequence[Sequence[int | float | None]]
    """The numbers of each column; None: the row has none."""


class MetricTable(NamedTuple):
    """Metrics of the same labels, of which there may be thousands: a row for each partition, a column for each metric.

    `read` is called at each reading of the metrics. The rows are made in steps.
    """

    labels: tuple[str, ...]
    columns: tuple[str, ...]
    read: Callable[[], Steps[MetricRows]]


class Metrics:
    """The metrics of one broker, by name."""

    def __init__(self) -> None:
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Callable[[], float]] = {}
        self._labelled: dict[str, Labelled] = {}
        self.tables: list[MetricTable] = []
        self.surveys: list[Callable[[], Steps[None]]] = []
        """Work before each reading of the metrics: it counts what may be thousands, for gauges, in steps."""

    def counter(self, name: str) -> Counter:
        """Return the counter with this name, made at the first call. Frequent users keep the counter."""
        self._refuse_other_kind(name, self._gauges)
        return self._counters.setdefault(name, Counter())

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Register a gauge: `read` is called at each reading. A second gauge of the same name replaces the first."""
        self._refuse_other_kind(name, self._counters)
        self._gauges[name] = read

    def labelled(self, name: str, labels: tuple[str, ...], read: Callable[[], Values]) -> None:
        """Register a metric with labels: `read` is called at each reading. A second of the same name replaces it."""
        self._labelled[name] = Labelled(labels, read)

    def table(self, labels: tuple[str, ...], columns: tuple[str, ...], read: Callable[[], Steps[MetricRows]]) -> None:
        """Register metrics of the same labels: `columns` has their names."""
        self.tables.append(MetricTable(labels, columns, read))

    def snapshot(self) -> dict[str, float]:
        """The present values of all metrics without labels, by name in alphabetical order."""
        for survey in self.surveys:
            finish(survey())
        values: dict[str, float] = {name: counter.value for name, counter in self._counters.items()}
        values.update((name, read()) for name, read in self._gauges.items())
        return dict(sorted(values.items()))

    def read(self, name: str) -> tuple[tuple[str, ...], Values]:
        """The label names of a metric (none for most), and its present values. Raises KeyError for an unknown name."""
        labelled = self._labelled.get(name)
        if labelled is not None:
            return labelled.labels, labelled.read()
        counter = self._counters.get(name)
        return (), [((), self._gauges[name]() if counter is None else counter.value)]

    def names(self) -> list[str]:
        """The names of all metrics, in alphabetical order."""
        return sorted({*self._counters, *self._gauges, *self._labelled})

    @staticmethod
    def _refuse_other_kind(name: str, others: dict[str, Counter] | dict[str, Callable[[], float]]) -> None:
        if name in others:
            raise ValueError(f"the metric {name} already exists with the other type")
