"""Counters and gauges."""

import pytest

from headgate.gateway.runtime.metrics import Metrics


def test_a_snapshot_has_all_values_in_order() -> None:
    metrics = Metrics()
    requests = metrics.counter("requests.produce")
    requests.add()
    requests.add(4)
    connections = [1, 2]
    metrics.gauge("connections", lambda: len(connections))
    connections.append(3)
    assert list(metrics.snapshot().items()) == [("connections", 3), ("requests.produce", 5)]


def test_a_counter_is_one_under_its_name() -> None:
    metrics = Metrics()
    metrics.counter("a").add()
    metrics.counter("a").add()
    assert metrics.snapshot() == {"a": 2}


def test_a_name_is_of_one_kind() -> None:
    metrics = Metrics()
    metrics.counter("a")
    metrics.gauge("b", lambda: 0)
    with pytest.raises(ValueError, match="the metric a exists already"):
        metrics.gauge("a", lambda: 0)
    with pytest.raises(ValueError, match="the metric b exists already"):
        metrics.counter("b")
