"""Ratios and medians."""

from math import comb
from typing import Any

import pytest

from headgate.tools.bench.measuring import figures
from headgate.tools.bench.measuring.figures import Comparison, Figure, Sample

SAMPLE = Sample(
    requests=2_000,
    record_bytes=500_000_000,
    seconds=4.0,
    server_cpu_seconds=0.6,
    client_cpu_seconds=0.4,
    others_share=0.05,
    p50_us=100.0,
    p99_us=900.0,
)


def test_what_a_sample_says() -> None:
    assert figures.cpu_seconds_per_gigabyte(SAMPLE) == pytest.approx(1.2)
    assert figures.megabytes_per_second(SAMPLE) == pytest.approx(125)
    assert figures.cpu_microseconds_per_request(SAMPLE) == pytest.approx(300)
    assert figures.requests_per_second(SAMPLE) == pytest.approx(500)


def test_the_ratio_is_a_median_of_ratios() -> None:
    """In the second repetition the machine was three times as slow for both: the pair still says a half."""
    ours, theirs = [1.0, 3.0, 1.1], [2.0, 6.0, 2.0]
    assert figures.compare(ours, theirs) == Comparison(0.5, 0.5, 1.1 / 2.0)


@pytest.mark.parametrize("count, left_out", [(1, 0), (3, 0), (5, 0), (8, 0), (9, 1), (10, 1), (25, 7)])
def test_the_interval_leaves_out_what_chance_would(count: int, left_out: int) -> None:
    values = [float(value) for value in range(count)]
    assert figures.interval(values[::-1]) == (left_out, count - 1 - left_out)
    shares = [comb(count, below) / 2**count for below in range(left_out + 2)]
    assert 2 * sum(shares[:-1]) <= 1 / 16 or left_out == 0
    assert 2 * sum(shares) > 1 / 16


def test_nothing_is_compared_with_zero() -> None:
    """A tool that prints whole milliseconds prints 0 for a fast broker."""
    assert figures.compare([1.0, 3.0], [0.0, 2.0]) == Comparison(1.5, 1.5, 1.5)
    assert figures.compare([1.0, 3.0], [0.0, 0.0]) is None


def test_both_must_have_run_as_often() -> None:
    with pytest.raises(ValueError, match="zip"):
        figures.compare([1.0, 2.0], [1.0])


@pytest.mark.parametrize(
    "now, base, more_is_better, expected",
    [
        (0.54, 0.5, False, False),
        (0.56, 0.5, False, True),
        (0.40, 0.5, False, False),
        (2.8, 3.0, True, False),
        (2.6, 3.0, True, True),
        (4.0, 3.0, True, False),
    ],
)
def test_a_regression_is_worse_by_more_than_a_tenth(
    now: float, base: float, more_is_better: bool, expected: bool
) -> None:
    assert figures.has_regressed(now, base, more_is_better=more_is_better) is expected


def test_marks_have_a_direction() -> None:
    assert Figure("CPU", figures.cpu_seconds_per_gigabyte, mark=0.5).mark_text() == "<= 0.5"
    assert Figure("MB/s", figures.megabytes_per_second, more_is_better=True, mark=2).mark_text() == ">= 2"
    assert Figure("p50 us", lambda sample: sample.p50_us).mark_text() == ""
    assert Figure("resident MB", lambda sample: 0.0, limit=64, unit="MB").mark_text() == "<= 64 MB"


@pytest.mark.parametrize(
    "promise, value, ratio, reached",
    [
        ({"mark": 0.5}, 9.0, 0.5, True),
        ({"mark": 0.5}, 9.0, 0.51, False),
        ({"mark": 0.5}, 9.0, None, None),
        ({"mark": 2.0, "more_is_better": True}, 9.0, 1.9, False),
        ({"mark": 2.0, "more_is_better": True}, 9.0, 2.0, True),
        ({"limit": 64.0}, 63.0, 5.0, True),
        ({"limit": 64.0}, 65.0, None, False),
        ({"limit": 10.0, "mark": 1.0}, 9.0, 5.0, True),
        ({"limit": 10.0, "mark": 1.0}, 11.0, 0.9, True),
        ({"limit": 10.0, "mark": 1.0}, 11.0, 1.1, False),
        ({"limit": 10.0, "mark": 1.0}, 11.0, None, False),
        ({}, 9.0, 0.1, None),
    ],
)
def test_a_mark_is_about_the_ratio_and_a_limit_about_the_figure(
    promise: dict[str, Any], value: float, ratio: float | None, reached: bool | None
) -> None:
    assert Figure("figure", lambda _: value, **promise).is_reached(value, ratio) is reached
