"""Tasks: the one way to wait.

A task is a generator. It yields each thing that it waits for, is continued with the answer, and returns its result:

    def long_poll(replica: Replica, deadline_ms: float) -> Task[Response]:
        changes = Changes([replica.waiters], deadline_ms)
        while not enough(replica):
            if (yield changes) is None:                              # the deadline has passed
                break
        records = yield partial(reads.in_thread, read)               # the result of a thread
        node = yield from get(session, "/brokers/topics/t")          # the result of another task
        return respond(records, node)

| a task yields | the task is continued |
|---|---|
| `PAUSE` | in a later slice: other work has its turn |
| `Changes` | with the touched `WaitList`; with None at the deadline, and when the broker stops |
| a function (`Ask`) | with what the function gives to its callback: a thread's result, an answer of ZooKeeper |
| `Together` | with the results of several tasks that run side by side |

An answer that is an exception is raised in the task. What can be answered at once needs no task.

`Tasks.start` runs a task. `Running.cancel` closes the generator: `finally` and `with` release what the task holds, and
the answer to an `Ask` that comes later is dropped. Work that must not end with its client runs `shielded`.

Changes are batched: after the present turn the waiting tasks of each touched list are continued once, however many
changes the turn brought. So one receive with a hundred appends wakes a long-polling consumer once.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable
from functools import partial
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeGuard, TypeVar, cast

from headgate.protocol.errors import without_frames
from headgate.protocol.steps import FEW_ITEMS

if TYPE_CHECKING:
    from headgate.gateway.runtime.clock import Clock
    from headgate.gateway.runtime.scheduler import Scheduler, Timer

T = TypeVar("T")
logger = logging.getLogger("headgate.tasks")

NEVER: Final = math.inf
PAUSE: Final = None
"""What long work on the loop's thread yields: other work has its turn."""
SLICE_MS: Final = 1.0
"""The tasks that have yielded PAUSE share a slice of this length; then all other work has its turn."""
AT_ONCE_MS: Final = 0.5
"""A task that yields PAUSE goes on for so long before it waits for a slice."""
MOST_TOGETHER: Final = 32

Ask: TypeAlias = Callable[[Callable[[Any], None]], object]
"""A function that begins something, and calls its argument once, now or later, with the result or the exception."""


class Watch(Protocol):
    """A lasting interest in a `WaitList`. The next touch of the list ends the watch."""

    def mark(self) -> WaitList:
        """Mark the watched thing as changed. Returns the list that waits for the mark; that list is touched next."""

    def note(self) -> None:
        """Note a change that is no news by itself: a session looks at it with the next change. The watch goes on."""


class WaitList:
    """The tasks that wait for changes of one thing. The owner of the thing touches the list at each change."""

    __slots__ = ("waiters", "watches")

    def __init__(self) -> None:
        self.watches: tuple[Watch, ...] = ()
        # A dict keeps the order of arrival, unlike a set. None: most partitions never have a waiter.
        self.waiters: dict[Running[Any], None] | None = None


class Changes:
    """A wait for a change in one of several lists. A task may yield the same object again, at no cost."""

    __slots__ = ("deadline_ms", "lists")

    def __init__(self, lists: Collection[WaitList], deadline_ms: float = NEVER) -> None:
        self.lists = lists
        self.deadline_ms = deadline_ms


class Together(Generic[T]):
    """A wait for the ends of several tasks, `at_once` of which run at a time. The results have the tasks' order.

    After an exception no more tasks begin; the exception is raised once the running tasks have ended.
    """

    def __init__(self, many: Iterable[Task[T]], at_once: int = MOST_TOGETHER) -> None:
        self._left = deque(enumerate(many))
        self._results: list[Any] = [None] * len(self._left)
        self._at_once = at_once
        self._running: dict[int, Running[T]] = {}
        self._is_beginning = False
        self._error: Exception | None = None

    def begin(self, tasks: Tasks | None, resume: Callable[[Any], None]) -> None:
        """Run the tasks; `resume` gets the results or the first exception."""
        self._tasks, self._resume = tasks, resume
        self._begin_more()

    def cancel(self) -> None:
        """Cancel the running tasks; no further one begins."""
        self._left.clear()
        for running in self._running.values():
            running.cancel()

    def _begin_more(self) -> None:
        if self._is_beginning:  # a task has ended at once: the loop below goes on
            return
        self._is_beginning = True
        while self._left and len(self._running) < self._at_once:
            number, task = self._left.popleft()
            running = self._running[number] = Running(self._tasks, task, partial(self._ended, number))
            running.advance(None)
        self._is_beginning = False
        if not self._running:
            self._resume(self._error or self._results)

    def _ended(self, number: int, result: T | Exception) -> None:
        del self._running[number]
        self._results[number] = result
        if isinstance(result, Exception):
            self._error = self._error or result
            self._left.clear()
        self._begin_more()


Wait: TypeAlias = Changes | Together[Any] | Ask | None
Task: TypeAlias = Generator[Wait, Any, T]
Outcome: TypeAlias = T | Task[T]
"""A result that is there, or the task that waits for it."""


class Silent(NamedTuple):
    """The task of a request that gets no reply: the task delays later requests, and goes on without its client."""

    task: Task[None]


class Running(Generic[T]):
    """A task in progress. `done` is called once, with the result or the exception; never after `cancel`."""

    __slots__ = ("_answers", "_changes", "_done", "_end_ms", "_is_advancing", "_task", "_tasks", "_timer", "_together")

    def __init__(self, tasks: Tasks | None, task: Task[T], done: Callable[[T | Exception], None]) -> None:
        self._tasks = tasks
        self._task: Task[T] | None = task
        self._done = done
        self._answers: list[Any] | None = None
        self._is_advancing = False
        self._end_ms = 0.0
        self._changes: Changes | None = None
        self._timer: Timer | None = None
        self._together: Together[Any] | None = None

    @property
    def is_over(self) -> bool:
        """Whether the task has ended, or was cancelled."""
        return self._task is None

    def cancel(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            self._end_changes()
            if self._together is not None:
                self._together.cancel()
            if not self._is_advancing:  # otherwise `advance` closes the task
                _close(task)

    def advance(self, answer: Any, *, at_once: bool = True) -> None:
        """Continue with an answer, until the task has to wait.

        An answer that comes before its `Ask` has returned is taken by the loop below: so the stack stays flat.
        """
        if self._is_advancing:
            self._note_answer(answer)
            return
        task = self._task
        if task is None:
            return
        self._is_advancing, self._end_ms = True, 0.0
        try:
            while True:
                wait = task.throw(answer) if isinstance(answer, BaseException) else task.send(answer)
                if wait is not None:
                    if wait is not self._changes:
                        self._begin(wait)
                    if not self._answers:
                        break
                    answer = self._answers.pop()
                elif at_once and self._is_early():
                    answer = None
                else:
                    self._end_changes()
                    self._loop.put(self)
                    break
                if self._task is None:
                    break
            if self._task is None:  # cancelled by what the task has done
                _close(task)
        except StopIteration as end:
            self._end(end.value)
        except Exception as error:  # noqa: BLE001  `done` decides what a failure means
            self._end(without_frames(error))
        finally:
            self._is_advancing = False

    def _is_early(self) -> bool:
        """Whether the task may go on without a wait for a slice."""
        now_ms = self._loop.monotonic_ms()
        self._end_ms = self._end_ms or now_ms + AT_ONCE_MS
        return now_ms < self._end_ms

    @property
    def _loop(self) -> Tasks:
        assert self._tasks is not None, "a task that `run` runs waits for requests alone"
        return self._tasks

    def _begin(self, wait: Changes | Together[Any] | Ask) -> None:
        if self._task is None:
            return
        if self._changes is not None:
            self._end_changes()
        if isinstance(wait, Changes):
            self._changes, loop = wait, self._loop
            loop.await_changes(self, wait)
            if wait.deadline_ms != NEVER:
                self._timer = loop.scheduler.call_at(wait.deadline_ms, self.advance, None)
            return
        try:
            if isinstance(wait, Together):
                self._together = wait
                wait.begin(self._tasks, self.advance)
            else:
                wait(self.advance)
        except Exception as error:  # noqa: BLE001  the task decides what a failure means
            self._note_answer(without_frames(error))

    def _note_answer(self, answer: Any) -> None:
        if self._answers is None:  # most answers come later
            self._answers = []
        self._answers.append(answer)

    def _end_changes(self) -> None:
        changes, self._changes = self._changes, None
        if changes is not None:
            self._loop.end_changes(self, changes)
            timer, self._timer = self._timer, None
            if timer is not None:
                timer.cancel()

    def _end(self, result: T | Exception) -> None:
        if self._task is None:
            return
        self._task = self._together = None
        if self._changes is not None:
            self._end_changes()
        try:
            self._done(result)
        except Exception:
            logger.exception("the function that takes the result of a task failed")


def _log_failure(result: object) -> None:
    if isinstance(result, Exception):
        logger.error("a task failed whose result is not awaited", exc_info=result)


class Tasks:
    """The tasks of one loop: those that wait for changes, and those that wait for a slice."""

    def __init__(self, clock: Clock, scheduler: Scheduler) -> None:
        self._clock = clock
        self.scheduler = scheduler
        self._touched: dict[WaitList, None] = {}
        self._waiting: dict[Running[Any], None] = {}
        self.sliced: deque[Running[Any]] = deque()
        """The tasks that wait for a slice, in the order of their turns."""
        self._is_armed = False

    def __len__(self) -> int:
        """The number of tasks that wait for changes."""
        return len(self._waiting)

    def monotonic_ms(self) -> float:
        """The time of the clock that deadlines follow."""
        return self._clock.monotonic_ms()

    def start(self, task: Task[T], done: Callable[[Any], None] = _log_failure) -> Running[T]:
        """Run a task, until it has to wait, and then whenever it can go on."""
        running = Running(self, task, done)
        running.advance(None)
        return running

    def start_later(self, task: Task[T], done: Callable[[Any], None] = _log_failure) -> Running[T]:
        """Run a task, from the next slice on."""
        running = Running(self, task, done)
        self.put(running)
        return running

    def touch(self, wait_list: WaitList) -> None:
        """The thing behind `wait_list` has changed: mark the watches now, continue the tasks after this turn."""
        if wait_list.watches:
            watches, wait_list.watches = wait_list.watches, ()
            for watch in watches:
                self.touch(watch.mark())
        if wait_list.waiters:
            if not self._touched:
                self.scheduler.call_soon(self._continue_touched)
            self._touched[wait_list] = None

    def expire_all(self) -> None:
        """Continue all tasks that wait for changes, as at their deadline: the broker is about to stop."""
        for running in list(self._waiting):
            if running in self._waiting:
                running.advance(None)

    def await_changes(self, running: Running[Any], changes: Changes) -> None:
        """For `Running`: continue it when a list is touched."""
        self._waiting[running] = None
        for wait_list in changes.lists:
            if wait_list.waiters is None:
                wait_list.waiters = {}
            wait_list.waiters[running] = None

    def end_changes(self, running: Running[Any], changes: Changes) -> None:
        """For `Running`: it waits for something else."""
        self._waiting.pop(running, None)
        for wait_list in changes.lists:
            if wait_list.waiters:
                wait_list.waiters.pop(running, None)

    def _continue_touched(self) -> None:
        touched, self._touched = self._touched, {}
        for wait_list in touched:
            for running in list(wait_list.waiters or ()):
                if wait_list.waiters and running in wait_list.waiters:
                    running.advance(wait_list)

    def put(self, running: Running[Any]) -> None:
        """For `Running`: continue it in a later slice."""
        self.sliced.append(running)
        self._arm()

    def _arm(self) -> None:
        if not self._is_armed:
            self._is_armed = True
            self.scheduler.call_after(0.0, self._run_slice)

    def _run_slice(self) -> None:
        end_ms = self.monotonic_ms() + SLICE_MS
        while self.sliced:
            self.sliced.popleft().advance(None, at_once=False)
            if self.monotonic_ms() >= end_ms:
                break
        self._is_armed = False
        if self.sliced:
            self._arm()


class Lock:
    """One holder at a time, in the order of the calls of `Turn.acquire`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._turns: deque[Turn] = deque()

    def turn(self) -> Turn:
        return Turn(self._turns, self._scheduler)


class Turn:
    """The use of a lock by one task: the task yields `acquire`, and calls `release` in any case."""

    __slots__ = ("_scheduler", "_turns", "resume")

    def __init__(self, turns: deque[Turn], scheduler: Scheduler) -> None:
        self._turns = turns
        self._scheduler = scheduler
        self.resume: Callable[[None], None] | None = None

    def acquire(self, resume: Callable[[None], None]) -> None:
        """Call `resume` once no earlier task holds the lock."""
        self.resume = resume
        self._turns.append(self)
        if len(self._turns) == 1:
            resume(None)

    def release(self) -> None:
        """Give the lock back, or wait for it no more. The next task holds the lock, and goes on after this turn."""
        turns = self._turns
        if self not in turns:
            return
        is_held = turns[0] is self
        turns.remove(self)
        if is_held and turns:
            resume = turns[0].resume
            assert resume is not None, "a turn in the queue was acquired"
            self._scheduler.call_soon(partial(resume, None))


class Caller:
    """The client or the task that awaits a shielded task."""

    __slots__ = ("is_gone",)

    def __init__(self) -> None:
        self.is_gone = False
        """The client has disconnected, or the deadline has passed: the result has no use."""


def shielded(
    tasks: Tasks, make: Callable[[Caller], Task[T]], deadline_ms: float, late: Callable[[], Exception]
) -> Task[T]:
    """The result of a task that goes on after the deadline, and after its client has disconnected.

    The task may ask its `Caller` before it begins something. Raises `late()` at the deadline.
    """
    caller = Caller()
    try:
        return (yield from _result(tasks, make(caller), deadline_ms, late))
    finally:
        caller.is_gone = True


def within(tasks: Tasks, task: Task[T], deadline_ms: float, late: Callable[[], Exception]) -> Task[T]:
    """The result of a task that is cancelled at the deadline. Raises `late()` then."""
    started: list[Running[T]] = []
    try:
        return (yield from _result(tasks, task, deadline_ms, late, started.append))
    finally:
        for running in started:
            running.cancel()


def _result(
    tasks: Tasks,
    task: Task[T],
    deadline_ms: float,
    late: Callable[[], Exception],
    started: Callable[[Running[T]], None] = lambda _: None,
) -> Task[T]:
    ended = WaitList()
    results: list[T | Exception] = []

    def done(result: T | Exception) -> None:
        results.append(result)
        tasks.touch(ended)

    started(tasks.start(task, done))
    changes = Changes((ended,), deadline_ms)
    while not results:
        if (yield changes) is None:
            break
    result = results[0] if results else late()
    if isinstance(result, Exception):
        raise result
    return result


def run(task: Task[T], done: Callable[[Any], None] = _log_failure) -> None:
    """Run a task that waits for functions alone: such a task needs no loop."""
    Running(None, task, done).advance(None)


class SingleTask:
    """Recurring work that one task at a time does. The tasks wait for functions alone, as those of `run`."""

    __slots__ = ("_running",)

    def __init__(self) -> None:
        self._running: Running[None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether the last task is in progress."""
        return self._running is not None and not self._running.is_over

    def start(self, make: Callable[[], Task[None]]) -> None:
        """Run the task that `make` returns, unless the last one is in progress."""
        if not self.is_running:
            self._running = Running(None, make(), _log_failure)
            self._running.advance(None)


def sleep(scheduler: Scheduler, delay_ms: float) -> Ask:
    """A wait of this length, at least until other work has had its turn."""
    return lambda resume: scheduler.call_after(delay_ms, partial(resume, None))


def next_turn(scheduler: Scheduler) -> Ask:
    """A wait for the end of the present turn."""
    return lambda resume: scheduler.call_soon(partial(resume, None))


def at_most(scheduler: Scheduler, delay_ms: float, ask: Ask) -> Ask:
    """The wait for `ask`, but for this time at most: then the answer is None, and that of `ask` is dropped."""

    def begin(resume: Callable[[Any], None]) -> None:
        waiting = [resume]

        def end(answer: Any) -> None:
            if waiting:
                timer.cancel()
                waiting.pop()(answer)

        timer = scheduler.call_after(delay_ms, partial(end, None))
        ask(end)

    return begin


def gather(many: Iterable[Task[T]], at_once: int = MOST_TOGETHER) -> Task[list[T]]:
    """The results of tasks that run side by side, in order. Raises the exception of the first failed one."""
    results: list[T] = yield Together(many, at_once)
    return results


def is_task(outcome: object) -> TypeGuard[Task[Any]]:
    """Whether a function has returned a task in place of a result."""
    return type(outcome) is GeneratorType


def value_of(outcome: T | Task[T]) -> Task[T]:
    """The result of a function that may return a task in its place."""
    if is_task(outcome):
        result: T = yield from outcome
        return result
    return cast("T", outcome)


def as_task(result: T) -> Task[T]:
    """A task that returns a result which is there. A response that comes from a task is written in slices."""
    return result
    yield PAUSE


def at_once_if_few(task: Task[T], count: int) -> T | Task[T]:
    """Run a task on at most `FEW_ITEMS` items without a slice: its result, or the rest if the task has to wait."""
    if count > FEW_ITEMS:
        return task
    try:
        while (wait := next(task)) is None:
            pass
    except StopIteration as end:
        result: T = end.value
        return result
    return _rest(task, wait)


def _rest(task: Task[T], wait: Wait) -> Task[T]:
    """The rest of a task that has yielded `wait`."""
    try:
        while True:
            try:
                answer = yield wait
            except Exception as error:  # noqa: BLE001  raised in the task
                wait = task.throw(error)
            else:
                wait = task.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        task.close()


def _close(task: Task[Any]) -> None:
    try:
        task.close()
    except Exception:
        logger.exception("a cancelled task failed to end")
