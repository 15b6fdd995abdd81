"""The metrics as Prometheus reads them: the text format, one metric after another.

Imported only where metrics are read from outside: the library takes memory and time at the start.
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

_BOUNDS = [*map(str, LATENCY_BOUNDS_S), "+Inf"]


class _One(Collector):
    """A registry of one metric."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return [self._metric]


def exposition(metrics: Metrics) -> Iterator[bytes]:
    """The lines of one metric after another, each read when it is asked for: others may have a turn in between."""
    known = set(metrics.names())
    for row in METRICS:
        if row.name in known:
            yield _text(_metric(row, metrics))
    for metric in ProcessCollector(registry=None).collect():  # type: ignore[arg-type]  # which registers it nowhere
        yield _text(metric)


def _text(metric: Metric) -> bytes:
    return generate_latest(_One(metric))


def _metric(row: Row, metrics: Metrics) -> Metric:
    labels, values = metrics.read(row.name)
    made: CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
    if row.type == HISTOGRAM:
        made = HistogramMetricFamily(row.exposed, row.help, labels=labels)
        for named, value in values:
            if isinstance(value, Histogram):
                buckets = list(zip(_BOUNDS, accumulate(value.buckets), strict=True))
                made.add_metric(named, buckets, value.sum_s)  # type: ignore[arg-type]  # bounds without examples
        return made
    kind = CounterMetricFamily if row.type == COUNTER else GaugeMetricFamily
    made = kind(row.exposed, row.help, labels=labels)
    for named, value in values:
        if not isinstance(value, Histogram):
            made.add_metric(named, value)
    return made
