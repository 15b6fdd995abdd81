from __future__ import annotations

import pytest

from headgate.tools.doctor.check_result import NOTE, OK, WRONG
from headgate.tools.doctor.cluster.clocks import ClockReading, check_clocks


@pytest.mark.parametrize(
    "broker_ms, ahead_ms",
    [(1000, 0), (1050, 0), (1100, 0), (1101, 1), (999, -1), (601_100, 600_000)],
)
def test_a_clock_between_both_times_may_be_right(broker_ms: float, ahead_ms: float) -> None:
    assert ClockReading(1, broker_ms, 1000, 1100).ahead_ms == ahead_ms


@pytest.mark.parametrize(
    "ahead_s, state, words",
    [
        (0, OK, "agrees"),
        (1, OK, "agrees"),
        (5, NOTE, "5.0 s ahead of"),
        (-5, NOTE, "5.0 s behind"),
        (600, WRONG, "10 minutes ahead of"),
        (-3600, WRONG, "60 minutes behind"),
    ],
)
def test_differences(ahead_s: float, state: str, words: str) -> None:
    [row] = check_clocks([ClockReading(1, 1_000_000 + ahead_s * 1000, 1_000_000, 1_000_000)])
    assert row.state == state
    assert words in row.found


def test_the_shortest_exchange_counts() -> None:
    [one, two] = check_clocks(
        [ClockReading(2, 0, 0, 0), ClockReading(1, 9_000, 0, 5), ClockReading(1, 99_000, 0, 50_000)]
    )
    assert "broker 1 is 9.0 s" in one.found
    assert two.state == OK
