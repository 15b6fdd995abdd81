"""Time that a test moves by hand, and threads that run when it says so."""

from collections.abc import Callable, Collection
from typing import Any

from headgate.gateway.runtime.scheduler import Scheduler


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


class Threads:
    """A scheduler's threads: each keeps what was to run in it until it is told to run."""

    def __init__(self, ignored: Collection[str] = ()) -> None:
        """`ignored` are the names of functions that are never run; so are files that nobody waits for never written."""
        self.is_over = False
        self.waiting: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        self.soon: list[Callable[[], None]] = []
        self._ignored = {*ignored, "write_small_files"}

    def in_thread(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        if getattr(work, "__name__", "") not in self._ignored:
            self.waiting.append((work, done))

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def end_turn(self) -> None:
        """Call what was to be called soon."""
        while self.soon:
            self.soon.pop(0)()

    def run_one(self, error: BaseException | None = None, number: int = 0) -> None:
        """Run one that waits, or have it end with this error."""
        work, done = self.waiting.pop(number)
        try:
            result = work() if error is None else error
        except Exception as failure:  # noqa: BLE001  as the scheduler hands it on
            result = failure
        done(result)
        self.end_turn()

    def run_all(self) -> None:
        """Run all of them, and what comes of it."""
        while self.waiting:
            self.run_one()
