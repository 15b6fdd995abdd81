"""Time that a test moves by hand, and threads that run at once, or when a test says so."""

from collections.abc import Callable, Collection, Generator
from functools import partial
from typing import Any

from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.protocol.steps import finish


def at_once(work: Callable[[], Any], done: Callable[[Any], None]) -> None:
    """The work of a thread, without a thread."""
    try:
        result = work()
    except Exception as error:  # noqa: BLE001  as the scheduler hands it on
        done(error)
    else:
        done(result)


class InlineScheduler(Scheduler):
    """A scheduler without threads: work is done when it is asked for."""

    def in_thread(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        at_once(work, done)

    def in_slices(self, work: Generator[None, None, Any], done: Callable[[Any], None]) -> None:
        self.in_thread(partial(finish, work), done)


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
        self.scheduler: Scheduler = InlineScheduler(self.clock)

    def make_scheduler(self, clock: Clock, disks: int, settle: Callable[[], None]) -> Scheduler:
        """The scheduler that `advance` runs from now on."""
        self.scheduler = InlineScheduler(clock, disks, settle)
        return self.scheduler

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
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self._ignored = {*ignored, "write_small_files"}

    def in_thread(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        if getattr(work, "__name__", "") not in self._ignored:
            self.waiting.append((work, done))

    def in_slices(self, work: Generator[None, None, Any], done: Callable[[Any], None]) -> None:
        self.in_thread(partial(finish, work), done)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def call_after(self, delay_ms: float, callback: Callable[[], None]) -> None:
        self.timers.append((delay_ms, callback))

    def run_timers(self, delay_ms: float) -> int:
        """Run those that were to run after so long; how many."""
        due = [callback for delay, callback in self.timers if delay == delay_ms]
        self.timers = [one for one in self.timers if one[0] != delay_ms]
        for callback in due:
            callback()
        return len(due)

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
