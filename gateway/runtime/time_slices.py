"""Long work on the event loop's thread, in slices of a millisecond.

Long work that needs the state of the core cannot run in a thread. Such work is a generator that yields often; it runs
here, and all other tasks run after each slice of a millisecond. All works share the slice: they take turns, step by
step. Only the works given to `add` run one after another, as one work.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeAlias

from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.protocol.errors import without_frames

logger = logging.getLogger("headgate.groups")

SLICE_MS = 1.0
AT_ONCE_MS = 0.5
"""Work that takes no longer ends at once, in the caller's turn."""

Steps: TypeAlias = Generator[None, None, Any]


class Work:
    """A generator in progress. `done(result)` gets its return value, or the exception that it raised."""

    __slots__ = ("_done", "_steps", "result")

    def __init__(self, steps: Steps, done: Callable[[Any], None]) -> None:
        self._steps: Steps | None = steps
        self._done = done
        self.result: Any = None

    def step(self) -> bool:
        """Run one step. False at the end, and after `cancel`. Raises what the step raises."""
        if self._steps is None:
            return False
        try:
            next(self._steps)
        except StopIteration as end:
            self._steps, self.result = None, end.value
            return False
        return True

    def run(self) -> bool:
        """Run one step as `step` does; at the end call `done`."""
        if self._steps is None:
            return False
        try:
            if self.step():
                return True
            result = self.result
        except Exception as error:  # noqa: BLE001  the caller decides what a failure means
            self._steps, result = None, without_frames(error)
        try:
            self._done(result)
        except Exception:
            logger.exception("the callback of a long work failed")
        return False

    def cancel(self) -> None:
        """Abandon the work: no step follows, and `done` is not called."""
        steps, self._steps = self._steps, None
        if steps is not None:
            steps.close()


class TimeSlices:
    """The waiting works, in the order of their next steps."""

    def __init__(self, clock: Clock, scheduler: Scheduler) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._works: deque[Work] = deque()
        self._line: deque[tuple[Iterator[object], Callable[[], None]]] = deque()
        self._has_line = False  # one of the works runs the line
        self._is_armed = False

    def __len__(self) -> int:
        return len(self._works)

    def begin(self, work: Work) -> bool:
        """Run the first steps of `work` now. True if the work ended, without a call of `done`; else the rest follows.

        Raises what the steps raise.
        """
        end_ms = self._clock.monotonic_ms() + AT_ONCE_MS
        while work.step():
            if self._clock.monotonic_ms() >= end_ms:
                self.put(work)
                return False
        return True

    def put(self, work: Work) -> None:
        """Run `work` after the present turn, as slowly as need be."""
        self._works.append(work)
        self._arm()

    def add(self, steps: Iterator[object], done: Callable[[], None] = lambda: None) -> None:
        """Run `steps` behind all earlier work given to `add`; then call `done`.

        Work that `done` adds comes next, so that a work of several parts ends before another begins. Work that raises
        is logged and abandoned, without `done`.
        """
        self._line.append((steps, done))
        if not self._has_line:
            self._has_line = True
            self.put(Work(self._run_line(), lambda _: None))

    def _run_line(self) -> Steps:
        line = self._line
        while line:
            steps, done = line[0]
            try:
                for _ in steps:
                    yield
                others = len(line)
                done()
                line.rotate(len(line) - others)  # the additions of `done` come before the others
            except Exception:
                logger.exception("a long work failed and is abandoned")
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
