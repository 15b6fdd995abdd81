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

from headgate.gateway.runtime.scheduler import Scheduler, StoppedError
from headgate.gateway.runtime.tasks import SingleTask, Task, at_most, run, sleep

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


class FileTask:
    """A task on files, in parts: one for each directory."""

    __slots__ = ("_resume", "begin", "end", "parts")

    def __init__(self, begin: Callable[[], Iterable[Runnable]], end: Callable[[Any], object]) -> None:
        self.begin = begin
        self.end = end
        self.parts: int | None = None
        """The number of parts that have not ended; None until the task begins."""
        self._resume: Callable[[None], None] | None = None

    def ended(self, resume: Callable[[None], None]) -> None:
        """Call `resume` once all parts have ended. One caller may wait."""
        if self.parts == 0:
            resume(None)
        else:
            self._resume = resume

    def note_parts(self, parts: int) -> None:
        """Note the number of parts that have not ended."""
        self.parts = parts
        if not parts and self._resume is not None:
            self._resume(None)


class _Directory:
    """The queued work of one log directory."""

    def __init__(self) -> None:
        self.queue: deque[tuple[FileTask, list[Runnable]]] = deque()
        self.work = SingleTask()


class PartitionFileTasks:
    """The waiting tasks. Before `go_on_in_threads` each task runs when it is added."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._in_threads = False
        self._new: deque[FileTask] = deque()
        self._beginnings = SingleTask()
        self._directories: dict[str, _Directory] = {}

    @property
    def is_over(self) -> bool:
        """Whether the broker stops, and runs nothing more."""
        return self._in_threads and self._scheduler.is_over

    def go_on_in_threads(self) -> None:
        """Run the tasks in threads from now on."""
        self._in_threads = True

    def add(self, begin: Callable[[], Iterable[Runnable]], end: Callable[[Sequence[Any]], object]) -> FileTask:
        """Call `begin`, run the returned work, then call `end` with each directory's work separately.

        `begin` and `end` are called on the loop. Several tasks have other turns of the loop between them. When the
        broker stops, pending work is not run, but `end` is still called.
        """
        task = FileTask(begin, end)
        self._new.append(task)
        self._beginnings.start(self._begin_all)
        return task

    def add_begun(self, begun: Sequence[Runnable], end: Callable[[Sequence[Any]], object]) -> FileTask:
        """Run work that has already begun, before tasks that were added but not begun."""
        task = FileTask(lambda: begun, end)
        self._begin(task)
        return task

    def ended(self, works: Iterable[FileTask], within_ms: float) -> Task[None]:
        """Wait until all of these tasks have ended, for `within_ms` at the most."""

        def each() -> Task[None]:
            for work in works:
                yield work.ended

        yield at_most(self._scheduler, within_ms, partial(run, each()))

    def _begin_all(self) -> Task[None]:
        while self._new:
            self._begin(self._new.popleft())
            if self._in_threads and not self._scheduler.is_over:
                yield sleep(self._scheduler, 0.0)

    def _begin(self, task: FileTask) -> None:
        parts: dict[str, list[Runnable]] = {}
        try:
            for runnable in task.begin():
                parts.setdefault(runnable.directory, []).append(runnable)
        except Exception:  # an exception here must not keep the others waiting
            logger.exception("a task on files of partitions cannot begin")
        task.note_parts(len(parts))
        for name, part in parts.items():
            self._directories.setdefault(name, _Directory()).queue.append((task, part))
        for name in parts:
            directory = self._directories[name]
            directory.work.start(partial(self._run_queue, directory))

    def _run_queue(self, directory: _Directory) -> Task[None]:
        """Run and end the queued parts of a directory, one after another."""
        while directory.queue:
            task, part = directory.queue.popleft()
            try:
                if not self._in_threads:
                    for runnable in part:
                        runnable.run()
                elif not self._scheduler.is_over:
                    yield partial(self._scheduler.in_slices, _steps(part))
            except StoppedError:
                pass
            except Exception:  # the part still ends
                logger.exception("a task on files of partitions has failed")
            self._end(task, part)
            while self.is_over and self._new and not directory.queue:
                self._begin(self._new.popleft())

    def _end(self, task: FileTask, part: list[Runnable]) -> None:
        try:
            task.end(part)
        except Exception:
            logger.exception("the result of a task on files of partitions cannot be used")
        assert task.parts is not None
        task.note_parts(task.parts - 1)


def _steps(runnables: Iterable[Runnable]) -> Generator[None, None, None]:
    for runnable in runnables:
        runnable.run()
        yield
