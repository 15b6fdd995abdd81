"""A clock that a test moves, and a scheduler without a loop and without threads."""

from collections.abc import Callable, Collection, Generator
from functools import partial
from typing import Any

from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.runtime.workers import result_of
from headgate.protocol.steps import finish

Threads = Callable[[Callable[[], Any], Callable[[Any], None]], None]
"""(work, done): the threads of a `FakeScheduler`."""


def at_once(work: Callable[[], Any], done: Callable[[Any], None]) -> None:
    """Threads whose work ends before the call returns."""
    done(_result(work))


def hung(_work: Callable[[], Any], _done: Callable[[Any], None]) -> None:
    """Threads whose work never ends."""


class HeldThreads:
    """Threads whose work runs when a test says so."""

    def __init__(self, end_turn: Callable[[], None] = lambda: None, ignored: Collection[str] = ()) -> None:
        """`end_turn` is called after each end.

        `ignored` are names of functions that never run; `write_small_files`, for which nobody waits, is one of them.
        """
        self.waiting: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        self._end_turn = end_turn
        self._ignored = {*ignored, "write_small_files"}

    def __call__(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        if getattr(getattr(work, "func", work), "__name__", "") not in self._ignored:  # of a partial its function
            self.waiting.append((work, done))

    def run_one(self, result: object = None, number: int = 0) -> None:
        """Run one that waits, or have it end with this result, or with this error."""
        work, done = self.waiting.pop(number)
        done(_result(work) if result is None else result)
        self._end_turn()

    def run_all(self) -> None:
        """Run all of them, and what comes of it."""
        while self.waiting:
            self.run_one()


class FakeScheduler(Scheduler):
    """A scheduler whose threads are simulated: their work ends at once, unless a test gives others."""

    def __init__(
        self,
        clock: Clock,
        disks: int = 1,
        settle: Callable[[], None] = lambda: None,
        *,
        threads: Threads = at_once,
        slices: Threads | None = None,
    ) -> None:
        """`slices`: the threads that work in slices; None if `threads` do that too."""
        super().__init__(clock, disks, settle)
        self.threads = threads
        self.slices = slices

    def call_from_thread(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)  # there is no loop to wake

    def in_thread(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.threads(work, done)

    def in_slices(self, work: Generator[None, None, Any], done: Callable[[Any], None]) -> None:
        (self.slices or self.threads)(partial(finish, work), done)

    def hold(self, *ignored: str) -> HeldThreads:
        """Have all further work wait in these threads; `ignored` as in `HeldThreads`."""
        self.threads = held = HeldThreads(self.run_due, ignored)
        return held

    def hold_slices(self) -> HeldThreads:
        """Have all further work in slices wait in these threads."""
        self.slices = held = HeldThreads(self.run_due)
        return held

    def release(self) -> None:
        """Have all further work end at once."""
        self.threads, self.slices = at_once, None


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
        self.scheduler = FakeScheduler(self.clock)

    def make_scheduler(self, clock: Clock, disks: int, settle: Callable[[], None]) -> Scheduler:
        """The scheduler that `advance` runs from now on."""
        self.scheduler = FakeScheduler(clock, disks, settle)
        return self.scheduler

    def advance(self, milliseconds: float = 0.0) -> None:
        self.clock.elapsed_ms += milliseconds
        self.scheduler.run_due()


def _result(work: Callable[[], Any]) -> Any:
    """The result of `work`, or its error. A `PowerCut` ends the broker, as the thread and the loop both end with it."""
    result = result_of(work)
    if isinstance(result, BaseException) and not isinstance(result, Exception):
        raise result
    return result
