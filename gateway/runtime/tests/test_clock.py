"""The machine's clocks."""

from headgate.gateway.runtime.clock import SystemClock

IN_2020_MS = 1_577_836_800_000


def test_wall_time_is_in_milliseconds_since_1970() -> None:
    assert IN_2020_MS < SystemClock().now_ms() < 4 * IN_2020_MS


def test_monotonic_time_does_not_step_back() -> None:
    clock = SystemClock()
    readings = [clock.monotonic_ms() for _ in range(100)]
    assert readings == sorted(readings)
