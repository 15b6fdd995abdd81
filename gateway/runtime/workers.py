"""Worker threads of an event loop: they wait for disks, and run long computations.

A thread of trio's costs a task, a limiter and a context, which cost the loop more than the sync of a log does: see
`docs/performance.md`. These threads take work from a queue. Ended work returns to the loop in batches, in the order of
the ends.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol, TypeVar

from headgate.protocol.errors import without_frames

T = TypeVar("T")

MAX_THREADS_PER_EXECUTOR = 8
"""At most this many threads wait for one disk with one kind of work: a hanging disk blocks no more of them."""

# For all kinds of work on one log directory, and for other work: `docs/architecture.md` counts them ("A slow disk").
THREADS_PER_DISK, OTHER_THREADS = 4 * MAX_THREADS_PER_EXECUTOR, 16

# The queue is checked for unwanted work from this length on.
_FEW = 64

_Resume = Callable[[Any], None]
_numbers = itertools.count(1)


def max_threads(disks: int) -> int:
    """The maximum number of threads for `disks` log directories; hanging disks leave enough threads for the others."""
    return OTHER_THREADS + disks * THREADS_PER_DISK


class Workers:
    """Threads that serve one loop; only the loop's thread may call these methods.

    A thread is made when it is needed, and stays. At `most` threads, further work waits.
    """

    def __init__(self, wake: Callable[[], None], most: int) -> None:
        """`wake()` may be called in any thread: `ended` has a result."""
        self._wake = wake
        self._most = most
        self._queue: SimpleQueue[tuple[Callable[[], Any], _Resume] | None] = SimpleQueue()
        self._ended: deque[tuple[_Resume, Any]] = deque()
        self.threads = 0
        self.running = 0
        """The number of works whose results were not taken by `ended`."""

    def run(self, work: Callable[[], T], resume: Callable[[T | BaseException], None]) -> None:
        """Run `work` in one of the threads. `ended` returns `resume` with the result or the raised exception.

        If the system allows not even one thread, the result is a RuntimeError.
        """
        self.running += 1
        if self.running > self.threads and self.threads < self._most:
            try:
                threading.Thread(target=self._serve, name=f"worker {next(_numbers)}", daemon=True).start()
                self.threads += 1
            except (RuntimeError, MemoryError) as error:
                if not self.threads:
                    self._ended.append((resume, error))
                    self._wake()
                    return
        self._queue.put((work, resume))

    def ended(self) -> tuple[_Resume, Any] | None:
        """Take the next ended work: its `resume` and the argument; None if there is none."""
        if not self._ended:
            return None
        self.running -= 1
        return self._ended.popleft()

    def close(self) -> None:
        """End each thread after its present work."""
        for _ in range(self.threads):
            self._queue.put(None)
        self.threads = 0

    def _serve(self) -> None:
        while (item := self._queue.get()) is not None:
            self._ended.append((item[1], result_of(item[0])))
            del item  # otherwise the item would be referenced until the next one comes
            self._wake()


class Scheduling(Protocol):
    """The owner of the threads (`gateway.runtime.scheduler`)."""

    is_over: bool

    def in_thread(self, work: Callable[[], Any], resume: _Resume) -> None:
        """Run `work` in a thread, then `resume` on the loop."""

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run `callback` on the loop, after the present turn."""


class UnwantedError(RuntimeError):
    """The result of work that was not begun, because it was no longer wanted."""


class _Work(NamedTuple):
    work: Callable[[], Any]
    resume: _Resume
    is_wanted: Callable[[], bool]


_Waiting = _Work | Callable[[], None]


class BoundedExecutor:
    """A limited number of threads for one kind of work on one disk. Further work waits, in order.

    Clients of a hanging disk give up and retry, for as long as the disk hangs. So whenever the queue has doubled,
    unwanted work is removed: the queue has at most twice the length of the work that was wanted at one time.
    """

    def __init__(self, scheduler: Scheduling, most: int = MAX_THREADS_PER_EXECUTOR) -> None:
        self._scheduler = scheduler
        self._most = most
        self.running = 0
        self.waiting: deque[_Waiting] = deque()
        self._purge_at = _FEW  # the queue length at which unwanted work is removed

    @property
    def is_full(self) -> bool:
        """Whether further work would have to wait."""
        return self.running >= self._most

    def in_thread(self, work: Callable[[], Any], resume: _Resume, is_wanted: Callable[[], bool] = lambda: True) -> None:
        """As `Scheduler.in_thread`. Work that still waits when the broker stops is not run.

        Unwanted work is not run either, if a later turn finds it: `resume` gets an `UnwantedError`, to release what the
        work holds.
        """
        if not self.is_full:
            self._begin(work, resume)
            return
        self.waiting.append(_Work(work, resume, is_wanted))
        if len(self.waiting) == self._purge_at:
            self._scheduler.call_soon(self._forget_unwanted)

    def when_free(self, begin: Callable[[], None]) -> None:
        """Call `begin` on the loop once a thread is free for the `in_thread` call of `begin`; now, if one is free.

        For work that holds a resource from its beginning, such as an open file. `begin` is not called if it still waits
        when the broker stops.
        """
        if self.is_full:
            self.waiting.append(begin)
        else:
            begin()

    def _begin(self, work: Callable[[], Any], resume: _Resume) -> None:
        def ended(result: Any) -> None:
            self.running -= 1
            self._begin_next()
            resume(result)

        self.running += 1
        self._scheduler.in_thread(work, ended)

    def _begin_next(self) -> None:
        while self.waiting and not (self.is_full or self._scheduler.is_over):
            waiting = self.waiting.popleft()
            if not isinstance(waiting, _Work):
                waiting()
            elif waiting.is_wanted():
                self._begin(waiting.work, waiting.resume)
            else:
                self._forget(waiting)

    def _forget_unwanted(self) -> None:
        waiting, self.waiting = self.waiting, deque()
        for work in waiting:
            if not isinstance(work, _Work) or work.is_wanted():
                self.waiting.append(work)
            else:
                self._forget(work)
        self._purge_at = max(_FEW, 2 * len(self.waiting))

    def _forget(self, work: _Work) -> None:
        self._scheduler.call_soon(partial(work.resume, UnwantedError("the work is not wanted any more")))


def result_of(work: Callable[[], T]) -> T | BaseException:
    """The result of `work`, or the exception that `work` raised, without its frames."""
    try:
        return work()
    except BaseException as error:  # noqa: BLE001  the caller decides what a failure means
        return without_frames(error)
