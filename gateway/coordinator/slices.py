"""Long works on the loop's thread, a millisecond at a time.

What takes long and needs the state of the core cannot go to a thread: it is written as a generator, which yields often,
and run here, one work after another, with a turn for everybody else after every slice.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator

from gateway.clock import Clock
from gateway.scheduler import Scheduler

logger = logging.getLogger("headgate.groups")

SLICE_MS = 1.0
_END = object()


class Slices:
    """The works that wait, in the order they came."""

    def __init__(self, clock: Clock, scheduler: Scheduler) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._works: deque[tuple[Iterator[object], Callable[[], None]]] = deque()
        self._is_armed = False

    def add(self, steps: Iterator[object], done: Callable[[], None] = lambda: None) -> None:
        """Go through `steps`, after the present turn and as slowly as need be; then call `done`.

        What `done` adds comes next: a work of several parts is done before another begins.
        One that raises is logged and given up, without `done`.
        """
        self._works.append((steps, done))
        if not self._is_armed:
            self._is_armed = True
            self._scheduler.call_after(0.0, self._run)

    def _run(self) -> None:
        end_ms = self._clock.monotonic_ms() + SLICE_MS
        while self._works:
            steps, done = self._works[0]
            try:
                if next(steps, _END) is _END:
                    self._works.popleft()
                    others = len(self._works)
                    done()
                    self._works.rotate(len(self._works) - others)  # what it goes on with comes before the others
            except Exception:
                logger.exception("a long work is given up")
                if self._works and self._works[0][0] is steps:
                    self._works.popleft()
            if self._clock.monotonic_ms() >= end_ms:
                break
        self._is_armed = bool(self._works)
        if self._works:
            self._scheduler.call_after(0.0, self._run)
