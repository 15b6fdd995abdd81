"""The broker's clock.

Nothing else in the core asks the operating system for the time, so that a test can drive anything that takes a `Clock`.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Two readings: `now_ms` for timestamps, `monotonic_ms` for durations."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 (UTC), for record timestamps and retention. May step backwards."""

    def monotonic_ms(self) -> float:
        """Milliseconds since an arbitrary moment, for deadlines and durations. Never steps back."""


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic() * 1000.0


def thread_cpu_s() -> float:
    """The CPU time of the calling thread, in seconds."""
    return time.thread_time()
