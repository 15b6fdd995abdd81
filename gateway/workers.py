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
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

MOST_THREADS = 40
"""Further work waits for one of them. They are made when they are needed, and stay."""

_Done = Callable[[Any], None]
_numbers = itertools.count(1)


class Workers:
    """Threads that serve one loop, whose thread alone may call what is here."""

    def __init__(self, wake: Callable[[], None], most: int = MOST_THREADS) -> None:
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


def _result(work: Callable[[], Any]) -> object:
    try:
        return work()
    except BaseException as error:  # noqa: BLE001  whoever asked for the work decides what its failure means
        return error
