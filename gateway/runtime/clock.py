"""Time, as the broker sees it.

Nothing else in the core asks the operating system for the time: what takes a `Clock` can be driven by a test.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Two readings: one for what is written down, one for how long things take."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 (UTC): timestamps of records and retention. May step backwards."""

    def monotonic_ms(self) -> float:
        """Milliseconds since an arbitrary moment: deadlines and durations. Never steps back."""


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic() * 1000.0
