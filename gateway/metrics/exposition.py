"""The metrics in Prometheus' text format, one metric after another.

Only the listener of HTTP imports this module: the library takes memory and time at the start. The library writes the
few samples of most metrics. It takes some ten microseconds for each; a table has thousands, whose lines are written
here. A test holds them to the library's parser.

Format: Prometheus' exposition formats, version 0.0.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate, groupby
from operator import attrgetter
from typing import NamedTuple

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from headgate.gateway.metrics.kafka_names import FRACTIONS, KAFKA_NAMES
from headgate.gateway.metrics.metrics_table import COUNTER, HISTOGRAM, METRICS, Row
from headgate.gateway.runtime.metrics import (
    LATENCY_BOUNDS_S,
    Histogram,
    LabelledValue,
    MetricRows,
    Metrics,
    MetricTable,
)

__all__ = ["CONTENT_TYPE_LATEST", "exposition"]

SAMPLES_AT_ONCE = 32
"""The library takes some ten microseconds for each."""
LINES_AT_ONCE = 512
"""Lines of a table take some 0.3 us each."""
_BOUNDS = [*map(str, LATENCY_BOUNDS_S), "+Inf"]


class _SingleMetric(Collector):
    """A collector of one metric."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return [self._metric]


class _TableText:
    """The rows of one table, as they are at this reading."""

    def __init__(self, table: MetricTable, rows: MetricRows) -> None:
        self._first_label = table.labels[0]
        self._texts = rows.texts
        self._columns = dict(zip(table.columns, rows.columns, strict=True))

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def lines(self, row: Row) -> Iterator[bytes]:
        """The samples of one metric. A number that is None has no line."""
        head = f"{row.exposed}{{{row.labels.get(self._first_label, self._first_label)}"
        texts, numbers = self._texts, self._columns[row.name]
        for start in range(0, len(texts), LINES_AT_ONCE):
            end = start + LINES_AT_ONCE
            pairs = zip(texts[start:end], numbers[start:end], strict=True)
            yield "".join([f"{head}{text}{number}\n" for text, number in pairs if number is not None]).encode()


class _Read(NamedTuple):
    """A reading: the metrics, and the tables with their rows."""

    metrics: Metrics
    known: frozenset[str]
    tables: list[_TableText]
    values: dict[str, tuple[tuple[str, ...], list[LabelledValue]]]
    """The values by name: a metric with several names is read once."""

    def table(self, name: str) -> _TableText | None:
        return next((table for table in self.tables if name in table), None)

    def read(self, name: str) -> tuple[tuple[str, ...], list[LabelledValue]]:
        """The label names of a metric, and its present values."""
        if name not in self.values:
            labels, values = self.metrics.read(name)
            self.values[name] = labels, list(values)
        return self.values[name]


def exposition(metrics: Metrics, *, is_whole: bool = True) -> Iterator[bytes]:
    """Yield the lines of one metric after another; most metrics are read when their lines are asked for.

    Not `is_whole`: without the tables by topic, partition and group, and without Kafka's names.

    Before the first one nothing is yielded after each step of a survey or a table. A part takes less than a
    millisecond, so that other tasks can run in between.
    """
    for survey in metrics.surveys:
        for _ in survey():
            yield b""
    tables = []
    for table in metrics.tables if is_whole else ():
        rows = table.read()
        while True:
            try:
                next(rows)
            except StopIteration as end:
                tables.append(_TableText(table, end.value))
                break
            yield b""
    read = _Read(metrics, frozenset(metrics.names()), tables, {})
    for _, same in groupby((*METRICS, *KAFKA_NAMES) if is_whole else METRICS, attrgetter("exposed")):
        yield from _family(list(same), read)


def _family(rows: list[Row], read: _Read) -> Iterator[bytes]:
    """One metric, of one or several origins: its head, then the samples of each origin."""
    has_head = False
    for row in rows:
        table = read.table(row.name)
        if table is not None:
            if not has_head:
                yield f"# HELP {row.exposed} {row.help}\n# TYPE {row.exposed} {row.type}\n".encode()
            yield from table.lines(row)
        elif row.name in read.known:
            for text in _texts(_metric(row, *read.read(row.name))):
                yield _without_head(text) if has_head else text
        else:
            continue
        has_head = True


def _texts(metric: Metric) -> Iterator[bytes]:
    """The lines of one metric, `SAMPLES_AT_ONCE` samples at a time, under one head."""
    samples, collector = metric.samples, _SingleMetric(metric)
    for start in range(0, max(1, len(samples)), SAMPLES_AT_ONCE):
        metric.samples = samples[start : start + SAMPLES_AT_ONCE]
        text = generate_latest(collector)
        yield _without_head(text) if start else text


def _without_head(text: bytes) -> bytes:
    return b"".join(line for line in text.splitlines(keepends=True) if not line.startswith(b"#"))


def _metric(row: Row, labels: tuple[str, ...], values: Iterable[LabelledValue]) -> Metric:
    labels = tuple(row.labels.get(label, label) for label in labels)
    family: CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
    if row.type == HISTOGRAM:
        family = HistogramMetricFamily(row.exposed, row.help, labels=labels)
        for label_values, value in values:
            if isinstance(value, Histogram):
                buckets = list(zip(_BOUNDS, accumulate(value.buckets), strict=True))
                family.add_metric(label_values, buckets, value.sum_s)
        return family
    kind = CounterMetricFamily if row.type == COUNTER else GaugeMetricFamily
    family = kind(row.exposed, row.help, labels=labels)
    share = 100 if row.exposed in FRACTIONS else 1
    for label_values, value in values:
        if not isinstance(value, Histogram):
            family.add_metric(label_values, value / share)
    return family
