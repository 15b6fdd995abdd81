"""Time that a test moves by hand."""

from gateway.scheduler import Scheduler


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.wall_ms = now_ms
        self.elapsed_ms = 0.0

    def now_ms(self) -> int:
        return self.wall_ms + int(self.elapsed_ms)

    def monotonic_ms(self) -> float:
        return self.elapsed_ms


class ManualTime:
    """A clock and a scheduler without a loop: `advance` moves the one and runs the other."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.scheduler = Scheduler(self.clock)

    def advance(self, milliseconds: float = 0.0) -> None:
        self.clock.elapsed_ms += milliseconds
        self.scheduler.run_due()
