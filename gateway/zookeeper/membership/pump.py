"""Callbacks of a session where no event loop runs: before the start of the broker, after its end, and in tools.

A `Pump` is a `SessionScheduling`. `run_until` blocks, and runs the callbacks that have arrived. `hand_over` passes all
callbacks on to the scheduler of the loop, in order; `take_back` ends that.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

from headgate.gateway.runtime.clock import Clock
from headgate.gateway.zookeeper.shared_session import SessionScheduling, SessionTimer

Arrived = SimpleQueue[Callable[[], None]]
LONGEST_WAIT_S: Final = 0.5
"""The longest wait before the condition is evaluated again: the clock may change it too."""


class _PumpTimer:
    """A function that runs at `when_ms`."""

    def __init__(self, when_ms: float, callback: Callable[[], None]) -> None:
        self.when_ms = when_ms
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None

    def run(self) -> None:
        """Run the function, unless it was cancelled."""
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()


def take(arrived: Arrived, seconds: float) -> Callable[[], None] | None:
    """The next callback; None if none arrives within this time."""
    try:
        return arrived.get(timeout=seconds)
    except Empty:
        return None


class Pump:
    """A queue of callbacks. A blocking wait or a scheduler runs them."""

    def __init__(self, clock: Clock, take: Callable[[Arrived, float], Callable[[], None] | None] = take) -> None:
        """`take` waits for the next callback; a test moves its clock there."""
        self._clock = clock
        self._take = take
        self._arrived: Arrived = SimpleQueue()
        self._timers: list[tuple[float, int, _PumpTimer]] = []
        self._numbers = itertools.count()
        self._scheduler: SessionScheduling | None = None

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._arrived.put(callback)
        if self._scheduler is not None:
            self._scheduler.call_soon(self._run_next)

    def call_from_thread(self, callback: Callable[[], None]) -> None:
        # In this order: `hand_over` either sees the callback, or is over
        self._arrived.put(callback)
        scheduler = self._scheduler
        if scheduler is not None:
            scheduler.call_from_thread(self._run_next)

    def call_after(self, delay_ms: float, callback: Callable[[], None]) -> SessionTimer:
        if self._scheduler is not None:
            return self._scheduler.call_after(delay_ms, callback)
        timer = _PumpTimer(self._clock.monotonic_ms() + delay_ms, callback)
        heapq.heappush(self._timers, (timer.when_ms, next(self._numbers), timer))
        return timer

    def run_until(self, is_done: Callable[[], bool], deadline_ms: float) -> bool:
        """Run callbacks until `is_done`, or until `monotonic_ms` reaches the deadline. Returns `is_done`."""
        while not is_done():
            self._run_due()
            left_ms = min([deadline_ms, *(when_ms for when_ms, _, _ in self._timers[:1])]) - self._clock.monotonic_ms()
            callback = self._take(self._arrived, min(max(left_ms / 1000, 0), LONGEST_WAIT_S))
            if callback is not None:
                callback()
            elif self._clock.monotonic_ms() >= deadline_ms:
                return is_done()
        return True

    def hand_over(self, scheduler: SessionScheduling) -> None:
        """Have a scheduler run all callbacks from now on, those that have arrived already included."""
        self._scheduler = scheduler
        for _ in range(self._arrived.qsize()):
            scheduler.call_from_thread(self._run_next)
        for when_ms, _, timer in sorted(self._timers):
            scheduler.call_after(max(when_ms - self._clock.monotonic_ms(), 0), timer.run)
        self._timers.clear()

    def take_back(self) -> None:
        """Collect callbacks here again, including those that the scheduler did not run before it stopped."""
        self._scheduler = None

    def _run_next(self) -> None:
        if not self._arrived.empty():  # as the only reader
            self._arrived.get()()

    def _run_due(self) -> None:
        while self._timers and self._timers[0][0] <= self._clock.monotonic_ms():
            heapq.heappop(self._timers)[2].run()
