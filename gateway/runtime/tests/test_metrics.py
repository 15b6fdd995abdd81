"""Counters and gauges."""

import pytest

from headgate.gateway.runtime.metrics import LATENCY_BOUNDS_S, Histogram, Metrics


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
    with pytest.raises(ValueError, match="the metric a already exists"):
        metrics.gauge("a", lambda: 0)
    with pytest.raises(ValueError, match="the metric b already exists"):
        metrics.counter("b")


def test_what_has_labels_is_read_by_its_name() -> None:
    metrics = Metrics()
    metrics.counter("a").add(2)
    metrics.gauge("b", lambda: 3)
    metrics.labelled("c", ("api",), lambda: [(("Fetch",), 4)])
    assert metrics.names() == ["a", "b", "c"]
    assert [metrics.read(name) for name in "abc"] == [
        ((), [((), 2)]),
        ((), [((), 3)]),
        (("api",), [(("Fetch",), 4)]),
    ]
    with pytest.raises(KeyError):
        metrics.read("d")


def test_a_time_is_in_the_bucket_that_it_does_not_exceed() -> None:
    latency = Histogram()
    for seconds in (LATENCY_BOUNDS_S[0], LATENCY_BOUNDS_S[0] * 1.01, 1_000.0):
        latency.observe(seconds)
    assert latency.buckets == [1, 1, *[0] * (len(LATENCY_BOUNDS_S) - 2), 1]
    assert latency.count == 3
