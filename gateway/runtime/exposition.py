"""The metrics in Prometheus' text format, one metric after another.

Only the metrics listener imports this module: the library takes memory and time at the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client import CONTENT_TYPE_LATEST, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from headgate.gateway.runtime.metrics import LATENCY_BOUNDS_S, Histogram, Metrics
from headgate.gateway.runtime.metrics_table import COUNTER, HISTOGRAM, METRICS, Row

__all__ = ["CONTENT_TYPE_LATEST", "exposition"]

SAMPLES_AT_ONCE = 32
"""The library takes some ten microseconds for each."""
_BOUNDS = [*map(str, LATENCY_BOUNDS_S), "+Inf"]


class _SingleMetric(Collector):
    """A collector of one metric."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return [self._metric]


def exposition(metrics: Metrics) -> Iterator[bytes]:
    """Yield the lines of one metric after another; each metric is read when its lines are asked for.

    Before the first one nothing is yielded after each step of a survey.

    A part takes less than a millisecond, so that other tasks can run in between.
    """
    for survey in metrics.surveys:
        for _ in survey():
            yield b""
    known = set(metrics.names())
    for row in METRICS:
        if row.name in known:
            yield from _texts(_metric(row, metrics))
    for metric in ProcessCollector(registry=None).collect():
        yield from _texts(metric)


def _texts(metric: Metric) -> Iterator[bytes]:
    """The lines of one metric, `SAMPLES_AT_ONCE` samples at a time, under one head."""
    samples, collector = metric.samples, _SingleMetric(metric)
    for start in range(0, max(1, len(samples)), SAMPLES_AT_ONCE):
        metric.samples = samples[start : start + SAMPLES_AT_ONCE]
        text = generate_latest(collector)
        if start:
            text = b"".join(line for line in text.splitlines(keepends=True) if not line.startswith(b"#"))
        yield text


def _metric(row: Row, metrics: Metrics) -> Metric:
    labels, values = metrics.read(row.name)
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
    for label_values, value in values:
        if not isinstance(value, Histogram):
            family.add_metric(label_values, value)
    return family
