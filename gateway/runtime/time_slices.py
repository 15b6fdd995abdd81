"""Long works on the loop's thread, a millisecond at a time.

What takes long and needs the state of the core cannot go to a thread: it is written as a generator, which yields often,
and run here, with a turn for everybody else after every slice of a millisecond. All works share that millisecond: they
take turns, step by step. Only those that are given to `add` go one after another, as one work.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeAlias

from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import Scheduler

logger = logging.getLogger("headgate.groups")

SLICE_MS = 1.0
AT_ONCE_MS = 0.5
"""A work that ends so soon ends where it begins, in the turn of whoever asked for it."""

Steps: TypeAlias = Generator[None, None, Any]


class Work:
    """Steps on their way. `done(result)` takes what they return, or the exception that they raise."""

    __slots__ = ("_done", "_steps", "result")

    def __init__(self, steps: Steps, done: Callable[[Any], None]) -> None:
        self._steps: Steps | None = steps
        self._done = done
        self.result: Any = None

    def step(self) -> bool:
        """Do one step; false at the end, and after `cancel`."""
        if self._steps is None:
            return False
        try:
            next(self._steps)
        except StopIteration as end:
            self._steps, self.result = None, end.value
            return False
        return True

    def run(self) -> bool:
        """Do one step as `step` does, and tell `done` of the end."""
        if self._steps is None:
            return False
        try:
            if self.step():
                return True
            result = self.result
        except Exception as error:  # noqa: BLE001  whoever asked for the work decides what its failure means
            self._steps, result = None, error
        try:
            self._done(result)
        except Exception:
            logger.exception("what follows a long work failed")
        return False

    def cancel(self) -> None:
        """Give it up: no step follows, and `done` is not called."""
        steps, self._steps = self._steps, None
        if steps is not None:
            steps.close()


class TimeSlices:
    """The works that wait, in the order in which they have their steps."""

    def __init__(self, clock: Clock, scheduler: Scheduler) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._works: deque[Work] = deque()
        self._line: deque[tuple[Iterator[object], Callable[[], None]]] = deque()
        self._has_line = False  # one of the works goes through the line
        self._is_armed = False

    def __len__(self) -> int:
        return len(self._works)

    def begin(self, work: Work) -> bool:
        """Do as much of a work as is done soon; true if that is all, which `done` is not told. The rest follows later.

        Raises what its steps raise.
        """
        end_ms = self._clock.monotonic_ms() + AT_ONCE_MS
        while work.step():
            if self._clock.monotonic_ms() >= end_ms:
                self.put(work)
                return False
        return True

    def put(self, work: Work) -> None:
        """Do a work after the present turn, and as slowly as need be."""
        self._works.append(work)
        self._arm()

    def add(self, steps: Iterator[object], done: Callable[[], None] = lambda: None) -> None:
        """Go through `steps` behind all others that were given here; then call `done`.

        What `done` adds comes next: a work of several parts is done before another begins.
        One that raises is logged and given up, without `done`.
        """
        self._line.append((steps, done))
        if not self._has_line:
            self._has_line = True
            self.put(Work(self._one_after_another(), lambda _: None))

    def _one_after_another(self) -> Steps:
        line = self._line
        while line:
            steps, done = line[0]
            try:
                for _ in steps:
                    yield
                others = len(line)
                done()
                line.rotate(len(line) - others)  # what it goes on with comes before the others
            except Exception:
                logger.exception("a long work is given up")
            line.remove((steps, done))
            yield
        self._has_line = False

    def _arm(self) -> None:
        if not self._is_armed:
            self._is_armed = True
            self._scheduler.call_after(0.0, self._run)

    def _run(self) -> None:
        end_ms = self._clock.monotonic_ms() + SLICE_MS
        works = self._works
        while works:
            work = works.popleft()
            if work.run():
                works.append(work)
            if self._clock.monotonic_ms() >= end_ms:
                break
        self._is_armed = False
        if works:
            self._arm()
