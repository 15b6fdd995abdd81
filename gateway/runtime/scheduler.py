"""The seam to trio: the synchronous core schedules functions here, for later or for another thread.

The core never awaits. The core passes a function to this scheduler: to run at a moment (`call_at`), after the present
turn (`call_soon`), in a worker thread (`in_thread`), or as a task (`spawn`). Callbacks run on the event loop's thread,
one after another. A callback that raises is logged and does not stop the others. After each run of callbacks, `settle`
finishes their batched work.
"""

import heapq
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import trio

from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.workers import BoundedExecutor, Workers, max_threads
from headgate.protocol.errors import without_frames

T = TypeVar("T")
logger = logging.getLogger("headgate.scheduler")

# A cancelled timer stays in the heap until it is the first one, or until cancelled timers outnumber the live ones.
_COMPACT_ABOVE = 1024

# A thread that works in slices releases Python's lock (GIL) after `SLICE_S`: first for `MOMENT_S`, in which the loop
# can take the lock, and then, while the loop is busy, for as long as the thread had held the lock.
SLICE_S = 0.0005
MOMENT_S = 0.00005
# Threads that work in slices take turns: two of them would pass the lock to each other, past the loop. After this wait
# for a turn, turns go on without the present holder: it waits for a disk, not for the lock.
TURN_WITHIN_S = 0.02


def _nothing() -> None:
    """There is nothing to settle."""


class StoppedError(RuntimeError):
    """The result of sliced work if the loop ended first."""


class TrioClock:
    """A clock that follows trio's, so that a `MockClock` moves the whole broker."""

    def __init__(self, epoch_ms: int = 1_700_000_000_000) -> None:
        self._offset_ms = epoch_ms - trio.current_time() * 1000.0

    def now_ms(self) -> int:
        return int(self._offset_ms + trio.current_time() * 1000.0)

    def monotonic_ms(self) -> float:
        return trio.current_time() * 1000.0


class Timer:
    """A function that runs once at `when_ms`, unless cancelled first."""

    __slots__ = ("_scheduler", "arguments", "callback", "when_ms")

    def __init__(
        self, scheduler: "Scheduler", when_ms: float, callback: Callable[..., None], arguments: tuple[Any, ...]
    ) -> None:
        self._scheduler = scheduler
        self.when_ms = when_ms
        self.callback: Callable[..., None] | None = callback
        self.arguments = arguments

    def cancel(self) -> None:
        """Drop the function. A second call, or a call after the run, does nothing."""
        if self.callback is not None:
            self.callback, self.arguments = None, ()
            self._scheduler.note_cancelled()


class Scheduler:
    """One heap of timers and one queue of functions, served by one trio task (`run`)."""

    def __init__(self, clock: Clock, disks: int = 1, settle: Callable[[], None] = _nothing) -> None:
        """`disks`: how many log directories there are, each of which may hang.

        `settle` is called at the end of each run of functions: timers, ends of threads and tasks, functions due soon.
        """
        self._clock = clock
        self._most_threads = max_threads(disks)
        self._timers: list[tuple[float, int, Timer]] = []
        self._sequence = itertools.count()
        self._cancelled = 0
        self._soon: deque[Callable[[], None]] = deque()
        self.is_attended: bool | None = None
        """Whether a turn is in progress that calls `run_soon` before its end; then `run` needs no wakeup.

        None if no driver reports its turns.
        """
        self._wakeup = trio.Event()
        self._sleeping_until_ms = float("-inf")
        self._nursery: trio.Nursery | None = None
        self._workers: Workers | None = None
        self._from_threads: deque[Callable[[], None]] = deque()
        self._wake_from_thread: Callable[[], None] | None = None
        self._reads: dict[str, BoundedExecutor] = {}
        self._turn = threading.Lock()
        self._in_slices: set[int] = set()  # thread identifiers
        self.is_over = False
        """`run` has ended: nothing more can be spawned."""
        self._settle = settle

    def call_at(self, when_ms: float, callback: Callable[..., None], *arguments: Any) -> Timer:
        """Run `callback(*arguments)` once the clock's `monotonic_ms` reaches `when_ms`."""
        timer = Timer(self, when_ms, callback, arguments)
        heapq.heappush(self._timers, (when_ms, next(self._sequence), timer))
        if when_ms < self._sleeping_until_ms:
            self._wakeup.set()
        return timer

    def call_after(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        return self.call_at(self._clock.monotonic_ms() + delay_ms, callback)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run `callback` after the present turn, in the order of the calls."""
        self._soon.append(callback)
        if not self.is_attended:
            self._wakeup.set()

    def call_from_thread(self, callback: Callable[[], None]) -> None:
        """Run `callback` on the loop, in the order of the calls, but not after its end. Any thread may call this."""
        self._from_threads.append(callback)
        if self._wake_from_thread is not None:
            self._wake_from_thread()

    def in_thread(self, work: Callable[[], T], resume: Callable[[T | BaseException], None]) -> None:
        """Run `work` in a worker thread, then `resume` on the loop, with the result or the raised exception."""
        if self._workers is None or self.is_over:
            raise RuntimeError("the scheduler is not running: in_thread() was called before run() or after it ended")
        self._workers.run(work, resume)

    @property
    def running_works(self) -> int:
        """The number of works in worker threads, or before them."""
        return 0 if self._workers is None else self._workers.running

    @property
    def worker_threads(self) -> int:
        """The number of worker threads."""
        return 0 if self._workers is None else self._workers.threads

    def reads(self, disk: str) -> BoundedExecutor:
        """The threads that read from a disk for clients. `disk`: the path of the log directory."""
        share = self._reads.get(disk)
        if share is None:
            share = self._reads[disk] = BoundedExecutor(self)
        return share

    def _wake(self, token: trio.lowlevel.TrioToken) -> None:
        with suppress(trio.RunFinishedError):  # the loop and `run` have ended
            token.run_sync_soon(self._deliver_ended, idempotent=True)

    def _deliver_ended(self) -> None:
        """Call the callbacks of ended work and the functions that these schedule, without waking another task."""
        workers, was_attended, self.is_attended = self._workers, self.is_attended, True
        try:
            while workers is not None and (ended := workers.ended()) is not None:
                _call(*ended)
            if not self.is_over:
                for _ in range(len(self._from_threads)):  # a busy thread adds more, which has to wait for the next turn
                    _call(self._from_threads.popleft())
            _call(self._settle)
            if not self.is_over:
                self.run_soon()
        finally:
            self.is_attended = was_attended
        if self.is_over:
            self._wakeup.set()

    def in_slices(self, work: Generator[None, None, T], resume: Callable[[T | BaseException], None]) -> None:
        """Run a generator in a worker thread, then `resume` with its return value, or with the raised exception.

        The exception is a `StoppedError` if the loop ended first.

        A computing thread takes Python's lock whenever the loop waits for anything, and keeps the lock for 5 ms. A
        thread that pauses delays the loop by one slice at most, so `work` has to yield often.
        """
        self.in_thread(lambda: self._run_slices(work), resume)

    def _run_slices(self, work: Generator[None, None, T]) -> T:
        me = threading.get_ident()
        self._in_slices.add(me)
        try:
            while True:
                turn = self._take_turn()
                try:
                    self._run_slice(work)
                except StopIteration as end:
                    result: T = end.value
                    return result
                finally:
                    turn.release()
                if len(self._in_slices) > 1:
                    time.sleep(MOMENT_S)  # otherwise this thread would get the next turn as well
        finally:
            self._in_slices.discard(me)

    def _take_turn(self) -> threading.Lock:
        while True:
            turn = self._turn
            if turn.acquire(timeout=TURN_WITHIN_S):
                if turn is self._turn:
                    return turn
                turn.release()
            elif turn is self._turn:
                self._turn = threading.Lock()  # leave the old turn to the thread that waits for a disk

    def _run_slice(self, work: Generator[None, None, T]) -> None:
        """Run one slice, then pause. Raises StopIteration at the end."""
        until_s = time.perf_counter() + SLICE_S
        while time.perf_counter() < until_s:
            next(work)
        time.sleep(MOMENT_S)
        if self.is_over:  # the loop is about to end, and waits for this thread
            raise StoppedError("the scheduler has stopped; the work is abandoned")
        if self.is_attended is not False:
            time.sleep(SLICE_S)

    def spawn(self, work: Callable[[], Awaitable[T]], resume: Callable[[T | BaseException], None]) -> None:
        """Run `work` as a task, then `resume` with the result or the raised exception."""
        if self._nursery is None:
            raise RuntimeError("the scheduler is not running: spawn() was called before run() or after it ended")
        self._nursery.start_soon(self._guard, work, resume)

    async def _guard(self, work: Callable[[], Awaitable[T]], resume: Callable[[T | BaseException], None]) -> None:
        result: T | BaseException
        try:
            result = await work()
        except Exception as error:  # noqa: BLE001  the caller decides what a failure means
            result = without_frames(error)
        _call(resume, result)
        _call(self._settle)

    def note_cancelled(self) -> None:
        """Count a cancelled timer; remove all cancelled timers once they are most of the heap."""
        self._cancelled += 1
        if self._cancelled > _COMPACT_ABOVE and self._cancelled * 2 > len(self._timers):
            self._timers[:] = [entry for entry in self._timers if entry[2].callback is not None]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def run_due(self) -> None:
        """Run every due timer and all queued functions, including those that they queue with `call_soon`."""
        now_ms, timers = self._clock.monotonic_ms(), self._timers
        while timers and timers[0][0] <= now_ms:
            timer = heapq.heappop(timers)[2]
            callback, arguments = timer.callback, timer.arguments
            timer.callback, timer.arguments = None, ()
            if callback is not None:
                _call(callback, *arguments)
            else:
                self._cancelled -= 1
        _call(self._settle)
        self.run_soon()

    def run_soon(self) -> None:
        """Run the functions of `call_soon`, and those that they queue; then `settle`."""
        while self._soon:
            while self._soon:
                _call(self._soon.popleft())
            _call(self._settle)  # which may wake a task

    def idle_ms(self) -> float:
        """Milliseconds until the next scheduled work; 0 while any thread runs, which may end at any time."""
        if self._soon or (self._workers is not None and self._workers.running):
            return 0.0
        return self._next_ms() - self._clock.monotonic_ms()

    def _next_ms(self) -> float:
        """The time of the next timer. Cancelled ones before it go: each would cost a wakeup."""
        timers = self._timers
        while timers and timers[0][2].callback is None:
            heapq.heappop(timers)
            self._cancelled -= 1
        return timers[0][0] if timers else float("inf")

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve timers until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            wake = partial(self._wake, trio.lowlevel.current_trio_token())
            self._workers = Workers(wake, self._most_threads)
            self._wake_from_thread = wake
            if self._from_threads:
                wake()
            task_status.started()
            try:
                while True:
                    await self._sleep()
                    self.run_due()
            finally:
                self._nursery = None
                self.is_over = True
                await self._end_threads(self._workers)

    async def _end_threads(self, workers: Workers) -> None:
        """Wait until no thread works: a thread must not run on after the loop's end."""
        with trio.CancelScope(shield=True):
            while workers.running:
                self._wakeup = trio.Event()
                await self._wakeup.wait()
        workers.close()

    async def _sleep(self) -> None:
        """Wait for the next timer, or for an earlier wakeup."""
        if self._wakeup.is_set():
            self._wakeup = trio.Event()
        if self._soon:
            await trio.lowlevel.checkpoint()
            return
        self._sleeping_until_ms = self._next_ms()
        left_ms = self._sleeping_until_ms - self._clock.monotonic_ms()
        with trio.move_on_after(max(left_ms, 0) / 1000.0):
            await self._wakeup.wait()
        self._sleeping_until_ms = float("-inf")


def _call(callback: Callable[..., None], *arguments: Any) -> None:
    try:
        callback(*arguments)
    except Exception:
        logger.exception("a scheduled function failed; the broker continues without its result")
