"""Figures between two readings of a broker's metrics."""

from __future__ import annotations

import pytest

from headgate.tools.console.live.readings import FIGURES, MOST_LINES, api_figures, figures, parse, percentile_ms

FIRST = """\
# HELP headgate_in_bytes_total Bytes.
# TYPE headgate_in_bytes_total counter
headgate_in_bytes_total 1000.0
headgate_requests_total{api="Produce",version="9"} 10.0
headgate_request_seconds_bucket{api="Produce",le="0.001"} 10.0
headgate_request_seconds_bucket{api="Produce",le="0.005"} 10.0
headgate_request_seconds_bucket{api="Produce",le="+Inf"} 10.0
headgate_request_seconds_sum{api="Produce"} 0.01
process_resident_memory_bytes 4.1e+07
headgate_connections 3.0
"""
SECOND = """\
headgate_in_bytes_total 3000.0
headgate_requests_total{api="Produce",version="9"} 30.0
headgate_requests_total{api="Produce",version="10"} 20.0
headgate_requests_total{api="Metadata",version="12"} 2.0
headgate_request_seconds_bucket{api="Produce",le="0.001"} 10.0
headgate_request_seconds_bucket{api="Produce",le="0.005"} 50.0
headgate_request_seconds_bucket{api="Produce",le="+Inf"} 50.0
headgate_request_seconds_sum{api="Produce"} 0.09
headgate_row_errors_total{error="NOT_LEADER_OR_FOLLOWER"} 4.0
process_resident_memory_bytes 4.2e+07
"""
BEFORE, AFTER = parse(FIRST, 100.0), parse(SECOND, 102.0)


def test_rates_are_of_the_time_between() -> None:
    found = figures(BEFORE, AFTER)
    assert set(found) == set(FIGURES)
    assert found["in_bytes_per_s"] == 1000.0
    assert found["requests_per_s"] == 21.0
    assert found["errors_per_s"] == 2.0
    assert found["memory_bytes"] == 4.2e7
    assert found["connections"] is None
    assert found["out_bytes_per_s"] is None


def test_a_first_reading_has_no_rates() -> None:
    found = figures(None, BEFORE)
    assert found["in_bytes_per_s"] is None
    assert found["connections"] == 3.0
    assert api_figures(None, BEFORE) == []


def test_a_broker_that_began_again_has_no_rate() -> None:
    assert figures(AFTER, parse(FIRST, 104.0))["in_bytes_per_s"] is None


def test_apis_have_rate_mean_and_percentile() -> None:
    produce, metadata = api_figures(BEFORE, AFTER)
    assert (produce.api, produce.requests_per_s) == ("Produce", 20.0)
    assert produce.mean_ms == pytest.approx(2.0)
    assert produce.p99_ms == pytest.approx(1 + 4 * 0.99)
    assert (metadata.api, metadata.mean_ms, metadata.p99_ms) == ("Metadata", None, None)


def test_beyond_the_last_bound_the_bound_is_the_answer() -> None:
    slow = parse('headgate_request_seconds_bucket{api="A",le="30.0"} 0\n'
                 'headgate_request_seconds_bucket{api="A",le="+Inf"} 5\n', 1.0)  # fmt: skip
    assert percentile_ms(parse("", 0.0), slow, "A", 0.99) == 30_000.0


@pytest.mark.parametrize("text", ["", "\x00", "headgate_x", "headgate_x{ 1", "headgate_x nan-", "# " * 10, "{}" * 99])
def test_what_is_no_line_is_left_out(text: str) -> None:
    assert not parse(text, 1.0).sums


def test_a_reading_is_bounded() -> None:
    assert parse("headgate_x 1\n" * (MOST_LINES + 5), 1.0).sums == {"headgate_x": float(MOST_LINES)}
