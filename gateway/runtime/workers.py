"""Worker threads of a loop: they wait for disks, and compute what takes long.

A thread of trio's own is reached through a task, a limiter and a context, which cost the loop more than the sync of a
log does: see `docs/performance.md`. These take their work from a queue, and what has ended meanwhile is handed back to
the loop together, in the order of its ends.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol, TypeVar

T = TypeVar("T")

MOST_OF_DISK = 8
"""So many threads wait for one disk with the same kind of work: one that hangs keeps no more of them."""

# All kinds of work on one log directory, and what is of none: `docs/architecture.md` counts them ("A slow disk").
THREADS_OF_DISK, OTHER_THREADS = 4 * MOST_OF_DISK, 16

# From so many on those that wait are looked through.
_FEW = 64

_Done = Callable[[Any], None]
_numbers = itertools.count(1)


def most_threads(disks: int) -> int:
    """How many there may be with so many log directories, so that those that hang leave enough to the others."""
    return OTHER_THREADS + disks * THREADS_OF_DISK


class Workers:
    """Threads that serve one loop, whose thread alone may call what is here.

    They are made when they are needed, and stay. Where there are `most`, further work waits for one of them.
    """

    def __init__(self, wake: Callable[[], None], most: int) -> None:
        """`wake()` is called in any thread: there is something to be taken from `ended`."""
        self._wake = wake
        self._most = most
        self._queue: SimpleQueue[tuple[Callable[[], Any], _Done] | None] = SimpleQueue()
        self._ended: deque[tuple[_Done, Any]] = deque()
        self._threads = 0
        self.running = 0
        """How many works were not taken back yet."""

    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Run `work` in one of the threads. Its result, or the exception it raised, comes back with `done`.

        A RuntimeError does so too, where the system allows not even one thread.
        """
        self.running += 1
        if self.running > self._threads and self._threads < self._most:
            try:
                threading.Thread(target=self._serve, name=f"worker {next(_numbers)}", daemon=True).start()
                self._threads += 1
            except (RuntimeError, MemoryError) as error:
                if not self._threads:
                    self._ended.append((done, error))
                    self._wake()
                    return
        self._queue.put((work, done))

    def ended(self) -> tuple[_Done, Any] | None:
        """The next `done` to be called, and with what; None if nothing else has ended."""
        if not self._ended:
            return None
        self.running -= 1
        return self._ended.popleft()

    def close(self) -> None:
        """End the threads, each when its work has ended."""
        for _ in range(self._threads):
            self._queue.put(None)
        self._threads = 0

    def _serve(self) -> None:
        while (item := self._queue.get()) is not None:
            self._ended.append((item[1], _result(item[0])))
            del item  # else it would be held until the next one comes
            self._wake()


class Scheduling(Protocol):
    """Who has the threads (`gateway.runtime.scheduler`)."""

    is_over: bool

    def in_thread(self, work: Callable[[], Any], done: _Done) -> None:
        """Run `work` in one of them, then `done` on the loop."""

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run `callback` on the loop, after the present turn."""


class UnwantedError(RuntimeError):
    """What work ends with that was not begun, as nobody wanted it any more."""


class _Work(NamedTuple):
    work: Callable[[], Any]
    done: _Done
    is_wanted: Callable[[], bool]


_Waiting = _Work | Callable[[], None]


class BoundedExecutor:
    """A few of the threads, for one kind of work on one disk. More of it waits for one of these, in order.

    Clients of a disk that hangs give up and come again, for as long as it hangs. So what waits is looked through for
    what nobody wants any more each time that it has doubled: it is at most twice as much as was wanted at one time.
    """

    def __init__(self, scheduler: Scheduling, most: int = MOST_OF_DISK) -> None:
        self._scheduler = scheduler
        self._most = most
        self._running = 0
        self._waiting: deque[_Waiting] = deque()
        self._look_at = _FEW  # the number of those that wait at which they are looked through

    @property
    def is_full(self) -> bool:
        """Whether further work would have to wait."""
        return self._running >= self._most

    def in_thread(self, work: Callable[[], Any], done: _Done, is_wanted: Callable[[], bool] = lambda: True) -> None:
        """As `Scheduler.in_thread`. What still waits when the broker stops is not run.

        Nor is what is not wanted any more when it is looked at, in a later turn: `done` is called with an
        `UnwantedError`, to give back what is held for it.
        """
        if not self.is_full:
            self._begin(work, done)
            return
        self._waiting.append(_Work(work, done, is_wanted))
        if len(self._waiting) == self._look_at:
            self._scheduler.call_soon(self._forget_unwanted)

    def when_free(self, begin: Callable[[], None]) -> None:
        """Call `begin` on the loop once a thread is free for what it then asks for by `in_thread`; now, where one is.

        For work that holds something from its beginning, such as an open file. What still waits when the broker stops
        is not called.
        """
        if self.is_full:
            self._waiting.append(begin)
        else:
            begin()

    def _begin(self, work: Callable[[], Any], done: _Done) -> None:
        def ended(result: Any) -> None:
            self._running -= 1
            self._begin_next()
            done(result)

        self._running += 1
        self._scheduler.in_thread(work, ended)

    def _begin_next(self) -> None:
        while self._waiting and not (self.is_full or self._scheduler.is_over):
            one = self._waiting.popleft()
            if not isinstance(one, _Work):
                one()
            elif one.is_wanted():
                self._begin(one.work, one.done)
            else:
                self._forget(one)

    def _forget_unwanted(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        for one in waiting:
            if not isinstance(one, _Work) or one.is_wanted():
                self._waiting.append(one)
            else:
                self._forget(one)
        self._look_at = max(_FEW, 2 * len(self._waiting))

    def _forget(self, one: _Work) -> None:
        self._scheduler.call_soon(partial(one.done, UnwantedError("nobody wants it any more")))


def _result(work: Callable[[], Any]) -> object:
    try:
        return work()
    except BaseException as error:  # noqa: BLE001  whoever asked for the work decides what its failure means
        return error
