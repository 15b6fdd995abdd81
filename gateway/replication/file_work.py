"""Work on the files of partitions: by a thread, one thing after another, in the order it came.

What two works do to the same name follows from that order: a topic that is made anew finds the directory of the old one
renamed. A work is begun on the loop when its turn has come, done by the thread in slices, and taken back on the loop.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import NamedTuple, Protocol

from gateway.scheduler import Scheduler, StoppedError

logger = logging.getLogger("headgate.replication")


class Runnable(Protocol):
    """What a thread does in one go."""

    def run(self) -> None:
        """Do it."""
        ...


class _Work(NamedTuple):
    begin: Callable[[], Iterable[Runnable]]
    end: Callable[[], None]


class FileWork:
    """The works that wait. Without a scheduler each is done when it is added."""

    def __init__(self) -> None:
        self._queue: deque[_Work] = deque()
        self._is_busy = False
        self._scheduler: Scheduler | None = None

    def __len__(self) -> int:
        """How many there are."""
        return len(self._queue) + self._is_busy

    @property
    def is_over(self) -> bool:
        """Whether the broker stops, so that nothing more is run."""
        return self._scheduler is not None and self._scheduler.is_over

    def go_on_in_threads(self, scheduler: Scheduler | None) -> None:
        """From now on have threads of this scheduler do it."""
        self._scheduler = scheduler

    def add(self, begin: Callable[[], Iterable[Runnable]], end: Callable[[], None], *, is_next: bool = False) -> None:
        """Call `begin`, then have what it returns run, then call `end`; `is_next`: before what waits already.

        When the broker stops, what was not run yet is not run, and `end` is called all the same.
        """
        work = _Work(begin, end)
        if is_next:
            self._queue.appendleft(work)
        else:
            self._queue.append(work)
        self._go_on()

    def _go_on(self) -> None:
        while self._queue and not self._is_busy:
            self._is_busy = True
            work, scheduler = self._queue.popleft(), self._scheduler
            runnables = self._begun(work)
            if scheduler is None:
                try:
                    for runnable in runnables:
                        runnable.run()
                finally:
                    self._end(work)
            elif not runnables or scheduler.is_over:
                self._end(work)
            else:
                try:
                    scheduler.in_slices(_steps(runnables), partial(self._ended, work))
                except Exception:  # no thread could be had: the others may get one
                    logger.exception("the files of partitions cannot be worked on")
                    self._end(work)

    def _begun(self, work: _Work) -> list[Runnable]:
        try:
            return list(work.begin())
        except Exception:  # a fault of ours must not keep the others waiting
            logger.exception("the files of partitions cannot be worked on")
            return []

    def _ended(self, work: _Work, result: object) -> None:
        if isinstance(result, BaseException) and not isinstance(result, StoppedError):
            logger.error("the files of partitions cannot be worked on", exc_info=result)
        self._end(work)
        self._go_on()

    def _end(self, work: _Work) -> None:
        self._is_busy = False
        try:
            work.end()
        except Exception:
            logger.exception("what was done to the files of partitions cannot be taken up")


def _steps(runnables: Iterable[Runnable]) -> Generator[None, None, None]:
    for runnable in runnables:
        runnable.run()
        yield
