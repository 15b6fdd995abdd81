"""Tasks on the files of partitions: begun on the loop in order, run by one thread for each log directory.

The beginning of a task never waits for a disk: it only returns the work and its directories. In each directory the
parts of tasks run in the order of the tasks. Each part ends on the loop as soon as it has run, independently of the
other parts: a disk that hangs holds up only the work in its own directory.

So two tasks on the same name run in order within a directory, and in any order across directories; `replica_manager.py`
says why that is enough. This module does not know what the work is, or what it means for a partition.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

from headgate.gateway.runtime.scheduler import Scheduler, StoppedError, Timer

logger = logging.getLogger("headgate.replication")


class Runnable(Protocol):
    """Work that a thread does in one step."""

    @property
    def directory(self) -> str:
        """The log directory whose thread runs the work."""
        ...

    def run(self) -> None:
        """Do the work."""
        ...


class CountdownLatch:
    """Counts tasks down: `done` is called once, when all have ended or after a timeout."""

    def __init__(self, done: Callable[[], None]) -> None:
        self._done: Callable[[], None] | None = done
        self._left = 1  # the caller that adds tasks
        self._timer: Timer | None = None

    def begin(self) -> None:
        """Count one more task."""
        self._left += 1

    def end(self) -> None:
        """Count the end of one task."""
        self._left -= 1
        if not self._left:
            self._call()

    def all_added(self, scheduler: Scheduler, within_ms: float) -> None:
        """Expect no more tasks: `done` is called in `within_ms` at the latest."""
        if self._left > 1:
            self._timer = scheduler.call_after(within_ms, self._call)
        self.end()

    def _call(self) -> None:
        done, self._done = self._done, None
        if done is not None:
            if self._timer is not None:
                self._timer.cancel()
            done()


class _Task:
    __slots__ = ("begin", "end", "latch", "parts")

    def __init__(
        self, begin: Callable[[], Iterable[Runnable]], end: Callable[[Any], None], latch: CountdownLatch | None
    ) -> None:
        self.begin = begin
        self.end = end
        self.latch = latch
        self.parts = 0  # the number of parts that have not ended


class _Directory:
    """The queued work of one log directory."""

    def __init__(self) -> None:
        self.queue: deque[tuple[_Task, list[Runnable]]] = deque()
        self.is_busy = False


class PartitionFileTasks:
    """The waiting tasks. Before `go_on_in_threads` each task runs when it is added."""

    def __init__(self) -> None:
        self._new: deque[_Task] = deque()
        self._is_planned = False
        self._directories: dict[str, _Directory] = {}
        self._scheduler: Scheduler | None = None

    @property
    def is_over(self) -> bool:
        """Whether the broker stops, and runs nothing more."""
        return self._scheduler is not None and self._scheduler.is_over

    def go_on_in_threads(self, scheduler: Scheduler | None) -> None:
        """Run the tasks in threads of this scheduler from now on."""
        self._scheduler = scheduler

    def add(
        self,
        begin: Callable[[], Iterable[Runnable]],
        end: Callable[[Sequence[Any]], None],
        latch: CountdownLatch | None = None,
    ) -> None:
        """Call `begin`, run the returned work, then call `end` with each directory's work separately.

        `begin` and `end` are called on the loop. Several tasks have other turns of the loop between them. When the
        broker stops, pending work is not run, but `end` is still called.
        """
        if latch is not None:
            latch.begin()
        self._new.append(_Task(begin, end, latch))
        if not self._is_planned:
            self._begin_next()

    def add_begun(self, begun: Sequence[Runnable], end: Callable[[Sequence[Any]], None]) -> None:
        """Run work that has already begun, before tasks that were added but not begun."""
        self._begin(_Task(lambda: begun, end, None))

    def _begin_next(self) -> None:
        self._is_planned = False
        while self._new and not self._is_planned:
            self._begin(self._new.popleft())
            if self._scheduler is not None and not self._scheduler.is_over and not self._is_planned:
                self._is_planned = True
                self._scheduler.call_after(0.0, self._begin_next)

    def _begin(self, task: _Task) -> None:
        parts: dict[str, list[Runnable]] = {}
        try:
            for runnable in task.begin():
                parts.setdefault(runnable.directory, []).append(runnable)
        except Exception:  # an exception here must not keep the others waiting
            logger.exception("a task on files of partitions cannot begin")
        task.parts = len(parts)
        for name, part in parts.items():
            directory = self._directories.setdefault(name, _Directory())
            directory.queue.append((task, part))
        if not parts and task.latch is not None:
            task.latch.end()
        for name in parts:
            self._go_on(self._directories[name])

    def _go_on(self, directory: _Directory) -> None:
        scheduler = self._scheduler
        while directory.queue and not directory.is_busy:
            task, part = directory.queue.popleft()
            if scheduler is None:
                for runnable in part:
                    runnable.run()
            elif not scheduler.is_over:
                directory.is_busy = True
                try:
                    scheduler.in_slices(_steps(part), partial(self._ended, directory, task, part))
                    continue
                except Exception:  # no thread could be started; one may be for the others
                    logger.exception("a task on files of partitions cannot run")
                    directory.is_busy = False
            self._end(task, part)

    def _ended(self, directory: _Directory, task: _Task, part: list[Runnable], result: object) -> None:
        directory.is_busy = False
        if isinstance(result, BaseException) and not isinstance(result, StoppedError):
            logger.error("a task on files of partitions has failed", exc_info=result)
        self._end(task, part)
        self._go_on(directory)
        if self.is_over:
            self._begin_next()

    def _end(self, task: _Task, part: list[Runnable]) -> None:
        try:
            task.end(part)
        except Exception:
            logger.exception("the result of a task on files of partitions cannot be used")
        task.parts -= 1
        if not task.parts and task.latch is not None:
            task.latch.end()


def _steps(runnables: Iterable[Runnable]) -> Generator[None, None, None]:
    for runnable in runnables:
        runnable.run()
        yield
