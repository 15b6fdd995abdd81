"""Tasks: each is continued once with each answer, in its turn, and gives back what it holds when it is cancelled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from headgate.gateway.runtime.tasks import (
    AT_ONCE_MS,
    PAUSE,
    SLICE_MS,
    Caller,
    Changes,
    Lock,
    Running,
    SingleTask,
    Task,
    Tasks,
    Together,
    WaitList,
    as_task,
    at_most,
    at_once_if_few,
    is_task,
    run,
    shielded,
    sleep,
    value_of,
    within,
)
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.protocol.steps import FEW_ITEMS


class Bench:
    """A loop that a test turns, the results of its tasks, and what the tasks have done."""

    def __init__(self) -> None:
        self.time = ManualTime()
        self.tasks = Tasks(self.time.clock, self.time.scheduler)
        self.results: list[Any] = []
        self.seen: list[str] = []

    def start(self, task: Task[Any]) -> Running[Any]:
        return self.tasks.start(task, self.results.append)

    def work(self, name: str, steps: int, step_ms: float = 0.0) -> Task[str]:
        """Each step takes time."""
        for number in range(steps):
            self.seen.append(f"{name}{number}")
            self.time.clock.elapsed_ms += step_ms
            yield PAUSE
        return name


@pytest.fixture
def bench() -> Bench:
    return Bench()


class Bucket:
    """Something to wait for: the result comes once `level` reaches what is wanted."""

    def __init__(self) -> None:
        self.level = 0
        self.changed = WaitList()
        self.attempts = 0

    def wait_for(self, level: int, deadline_ms: float = 500.0) -> Task[tuple[str, int]]:
        changes = Changes([self.changed], deadline_ms)
        while (yield changes) is not None:
            self.attempts += 1
            if self.level >= level:
                return "full", self.level
        return "late", self.level


# Changes


def test_a_change_continues_a_task_once(bench: Bench) -> None:
    bucket = Bucket()
    bench.start(bucket.wait_for(2))
    for _ in range(3):
        bucket.level += 1
        bench.tasks.touch(bucket.changed)
        bench.time.advance()
    bench.time.advance(1_000)
    assert bench.results == [("full", 2)]
    assert len(bench.tasks) == 0
    assert not bucket.changed.waiters


def test_the_changes_of_one_turn_are_one_attempt(bench: Bench) -> None:
    bucket = Bucket()
    bench.start(bucket.wait_for(1_000))
    for _ in range(100):
        bucket.level += 1
        bench.tasks.touch(bucket.changed)
    assert bucket.attempts == 0
    bench.time.advance()
    assert bucket.attempts == 1


def test_the_deadline_continues_a_task_with_none(bench: Bench) -> None:
    bucket = Bucket()
    bench.start(bucket.wait_for(2))
    bucket.level = 1
    bench.time.advance(499)
    assert bench.results == []
    bench.time.advance(1)
    assert bench.results == [("late", 1)]
    assert not bucket.changed.waiters


def test_a_stop_continues_every_task_that_waits_for_changes(bench: Bench) -> None:
    bucket = Bucket()
    for level in range(5):
        bench.start(bucket.wait_for(level + 1))
    bench.tasks.expire_all()
    assert bench.results == [("late", 0)] * 5
    assert len(bench.tasks) == 0


def test_other_changes_have_a_deadline_of_their_own(bench: Bench) -> None:
    first, second = Bucket(), Bucket()

    def task() -> Task[Any]:
        return (yield from first.wait_for(1, 100.0)), (yield from second.wait_for(1, 500.0))

    bench.start(task())
    first.level = 1
    bench.tasks.touch(first.changed)
    bench.time.advance()
    bench.time.advance(400)
    assert (bench.results, len(bench.tasks), len(first.changed.waiters or ())) == ([], 1, 0)
    bench.time.advance(100)
    assert bench.results == [(("full", 1), ("late", 0))]


def test_a_failure_is_the_result_and_stops_no_other(bench: Bench) -> None:
    bucket = Bucket()

    def broken() -> Task[None]:
        yield Changes([bucket.changed])
        raise ValueError("no reply can be made")

    bench.start(broken())
    bench.start(bucket.wait_for(0))
    bench.tasks.touch(bucket.changed)
    bench.time.advance()
    assert isinstance(bench.results[0], ValueError)
    assert bench.results[1] == ("full", 0)


class Marked:
    """A watch, and the list of those who wait for its mark."""

    def __init__(self) -> None:
        self.marks = 0
        self.changed = WaitList()

    def mark(self) -> WaitList:
        self.marks += 1
        return self.changed

    def note(self) -> None:
        raise NotImplementedError("nothing here notes a change")


def test_a_change_marks_a_watch_at_once_and_ends_it(bench: Bench) -> None:
    changed, watch = WaitList(), Marked()
    changed.watches += (watch,)

    def task() -> Task[Any]:
        return (yield Changes([watch.changed]))

    bench.start(task())
    bench.tasks.touch(changed)
    bench.tasks.touch(changed)
    assert (watch.marks, changed.watches) == (1, ())
    bench.time.advance()
    assert bench.results == [watch.changed]


# Cancelled tasks


def test_a_cancelled_task_gives_back_what_it_holds(bench: Bench) -> None:
    bucket = Bucket()

    def task() -> Task[None]:
        try:
            yield from bucket.wait_for(1)
        finally:
            bench.seen.append("released")

    running = bench.start(task())
    bucket.level = 1
    bench.tasks.touch(bucket.changed)
    running.cancel()
    running.cancel()
    bench.time.advance(1_000)
    assert (bench.results, bench.seen, running.is_over) == ([], ["released"], True)


def test_a_task_may_be_cancelled_by_its_own_doing(bench: Bench) -> None:
    runnings: list[Running[Any]] = []

    def task() -> Task[None]:
        try:
            yield PAUSE
            runnings[0].cancel()
            yield Changes([WaitList()])
        finally:
            bench.seen.append("released")

    runnings.append(bench.tasks.start_later(task(), bench.results.append))
    bench.time.advance()
    assert (bench.results, bench.seen, len(bench.tasks)) == ([], ["released"], 0)


def test_a_late_answer_of_a_cancelled_task_is_dropped(bench: Bench) -> None:
    answers: list[Callable[[Any], None]] = []

    def task() -> Task[Any]:
        return (yield answers.append)

    running = bench.start(task())
    running.cancel()
    answers[0]("late")
    assert bench.results == []


def test_a_cancelled_task_that_fails_to_end_is_logged(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    def task() -> Task[None]:
        try:
            yield Changes([WaitList()])
        finally:
            raise RuntimeError("a fault")

    bench.start(task()).cancel()
    assert "a cancelled task failed to end" in caplog.text


def test_tasks_that_run_together_are_cancelled_together(bench: Bench) -> None:
    bucket = Bucket()

    def task() -> Task[Any]:
        return (yield Together([bucket.wait_for(1) for _ in range(5)], 2))

    running = bench.start(task())
    assert len(bench.tasks) == 2
    running.cancel()
    assert len(bench.tasks) == 0


# Functions


def test_an_exception_as_an_answer_is_raised(bench: Bench) -> None:
    answers: list[Callable[[Any], None]] = []

    def task() -> Task[str]:
        try:
            yield answers.append
        except OSError:
            return "raised"
        return ""

    bench.start(task())
    answers[0](OSError())
    assert bench.results == ["raised"]


def test_a_function_that_raises_is_raised_in_the_task() -> None:
    def ask(_: object) -> None:
        raise ZeroDivisionError

    def task() -> Task[str]:
        try:
            yield ask
        except ZeroDivisionError:
            return "raised"
        return ""

    results: list[object] = []
    run(task(), results.append)
    assert results == ["raised"]


def test_the_result_of_a_thread(bench: Bench) -> None:
    threads = bench.time.scheduler.hold()

    def task() -> Task[Any]:
        return (yield partial(bench.time.scheduler.in_thread, lambda: 5))

    bench.start(task())
    assert bench.results == []
    threads.run_one()
    assert bench.results == [5]


def test_a_result_that_nobody_takes_is_logged(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    def task() -> Task[None]:
        yield PAUSE
        raise RuntimeError("a fault")

    def refuse(_: object) -> None:
        raise ValueError("another one")

    bench.tasks.start(task())
    assert "a task failed whose result is not awaited" in caplog.text
    bench.tasks.start(bench.work("a", 1), refuse)
    assert "the function that takes the result of a task failed" in caplog.text


# Several at once


def test_many_run_side_by_side() -> None:
    waiting: list[Callable[[Any], None]] = []

    def times(number: int) -> Task[int]:
        answer = yield waiting.append
        return number * int(answer)

    def task() -> Task[Any]:
        return (yield Together([times(number) for number in range(5)], 2))

    results: list[Any] = []
    run(task(), results.append)
    assert len(waiting) == 2
    while waiting:
        waiting.pop()(10)
    assert results == [[0, 10, 20, 30, 40]]


def test_an_exception_ends_all_once_they_have_ended() -> None:
    waiting: list[Callable[[Any], None]] = []

    def ask() -> Task[int]:
        yield waiting.append
        return 1

    def task() -> Task[Any]:
        return (yield Together([ask() for _ in range(5)], 2))

    results: list[Any] = []
    run(task(), results.append)
    waiting.pop()(ValueError("no"))
    assert results == []
    waiting.pop()(0)
    assert isinstance(results[0], ValueError)
    assert not waiting


def test_answers_at_once_need_no_stack() -> None:
    def task() -> Task[int]:
        total = 0
        for _ in range(5_000):
            total += sum((yield Together([as_task(1), as_task(1)])))
        return total + len((yield Together([as_task(1) for _ in range(10_000)]))) + len((yield Together([])))

    results: list[object] = []
    run(task(), results.append)
    assert results == [20_000]


# Slices


def test_a_slice_is_a_millisecond_and_then_others_have_their_turn(bench: Bench) -> None:
    bench.tasks.start_later(bench.work("a", 5, SLICE_MS / 2), bench.results.append)
    assert bench.seen == []
    bench.time.advance()
    assert bench.seen == ["a0", "a1"]
    bench.time.scheduler.call_soon(lambda: bench.seen.append("another"))
    bench.time.advance()
    assert bench.seen[2:] == ["a2", "a3", "another"]


def test_tasks_take_turns(bench: Bench) -> None:
    for name, steps in (("a", 3), ("b", 1)):
        bench.tasks.start_later(bench.work(name, steps), bench.results.append)
    bench.time.advance()
    assert bench.seen == ["a0", "b0", "a1", "a2"]
    assert bench.results == ["b", "a"]


@pytest.mark.parametrize("steps, is_all", [(3, True), (4, False)])
def test_little_work_is_done_at_once(bench: Bench, steps: int, is_all: bool) -> None:
    bench.start(bench.work("a", steps, AT_ONCE_MS / 2 - 0.01))
    assert bench.results == (["a"] if is_all else [])
    bench.time.advance()
    assert bench.results == ["a"]


def test_a_cancelled_task_has_no_further_slice(bench: Bench) -> None:
    running = bench.tasks.start_later(bench.work("a", 100), bench.results.append)
    bench.tasks.start_later(bench.work("b", 1), bench.results.append)
    running.cancel()
    bench.time.advance()
    assert (bench.seen, bench.results) == (["b0"], ["b"])


# Results, or tasks


def test_few_items_need_no_slice(bench: Bench) -> None:
    assert at_once_if_few(bench.work("a", 3, SLICE_MS), FEW_ITEMS) == "a"
    assert is_task(at_once_if_few(bench.work("a", 3), FEW_ITEMS + 1))
    assert len(bench.seen) == 3


def test_the_rest_of_few_items_waits(bench: Bench) -> None:
    bucket = Bucket()

    def task() -> Task[Any]:
        yield PAUSE
        bench.seen.append("begun")
        try:
            yield partial(bench.time.scheduler.in_thread, lambda: int("no number"))
        except ValueError:
            return (yield from bucket.wait_for(1))
        finally:
            bench.seen.append("ended")

    rest = at_once_if_few(task(), 1)
    assert (bench.seen, is_task(rest)) == (["begun"], True)
    running = bench.start(rest)
    assert len(bench.tasks) == 1
    bucket.level = 1
    bench.tasks.touch(bucket.changed)
    bench.time.advance()
    assert (bench.results, bench.seen, running.is_over) == ([("full", 1)], ["begun", "ended"], True)
    rest = at_once_if_few(task(), 1)
    bench.start(rest).cancel()
    assert bench.seen[2:] == ["begun", "ended"]


def test_the_value_of_an_outcome(bench: Bench) -> None:
    bench.start(value_of(5))
    bench.start(value_of(as_task(6)))
    assert bench.results == [5, 6]


# Tasks that outlive their client, and those that must not


def late() -> TimeoutError:
    return TimeoutError("too late")


class Shielded:
    """A task that goes on without its caller, and what its caller gets."""

    def __init__(self, bench: Bench) -> None:
        self.bucket = Bucket()
        self.callers: list[Caller] = []
        self.ended: list[Any] = []
        self.running = bench.start(shielded(bench.tasks, self.make, 500.0, late))

    def make(self, caller: Caller) -> Task[Any]:
        self.callers.append(caller)
        result = yield from self.bucket.wait_for(1, 1_000.0)
        self.ended.append(result)
        return result


def test_a_shielded_task_gives_its_result(bench: Bench) -> None:
    shield = Shielded(bench)
    shield.bucket.level = 1
    bench.tasks.touch(shield.bucket.changed)
    bench.time.advance()
    assert bench.results == [("full", 1)]


def test_a_shielded_task_goes_on_after_the_deadline(bench: Bench) -> None:
    shield = Shielded(bench)
    bench.time.advance(500)
    assert isinstance(bench.results[0], TimeoutError)
    assert shield.callers[0].is_gone
    assert not shield.ended
    bench.time.advance(500)
    assert shield.ended == [("late", 0)]
    assert len(bench.results) == 1


def test_a_shielded_task_goes_on_without_its_client(bench: Bench) -> None:
    shield = Shielded(bench)
    assert not shield.callers[0].is_gone
    shield.running.cancel()
    assert shield.callers[0].is_gone
    bench.time.advance(1_000)
    assert (shield.ended, bench.results) == ([("late", 0)], [])


@pytest.mark.parametrize("level, result", [(1, ("full", 1)), (0, None)])
def test_a_task_within_a_deadline(bench: Bench, level: int, result: Any) -> None:
    bucket = Bucket()
    bench.start(within(bench.tasks, bucket.wait_for(1, 10_000.0), 100.0, late))
    bucket.level = level
    bench.tasks.touch(bucket.changed)
    bench.time.advance()
    bench.time.advance(100)
    assert len(bench.tasks) == 0, "the task is cancelled at the deadline"
    assert isinstance(bench.results[0], TimeoutError) if result is None else bench.results == [result]


def test_a_failed_task_within_a_deadline_fails_its_caller(bench: Bench) -> None:
    def fails() -> Task[None]:
        yield PAUSE
        raise OSError

    bench.start(within(bench.tasks, fails(), 100.0, late))
    assert isinstance(bench.results[0], OSError)


# Locks


def test_a_lock_has_one_holder_in_the_order_of_the_calls(bench: Bench) -> None:
    lock = Lock(bench.time.scheduler)

    def task(name: str) -> Task[None]:
        turn = lock.turn()
        try:
            yield turn.acquire
            yield from bench.work(name, 2, SLICE_MS)
        finally:
            turn.release()
            turn.release()

    runnings = [bench.start(task(name)) for name in "abc"]
    runnings[1].cancel()
    for _ in range(8):
        bench.time.advance()
    assert bench.seen == ["a0", "a1", "c0", "c1"]
    bench.start(task("d"))
    assert bench.seen[4:] == ["d0", "d1"]


# Recurring work


def test_a_second_task_starts_after_the_end_of_the_first() -> None:
    single, begun = SingleTask(), list[Callable[[None], None]]()

    def work() -> Task[None]:
        single.start(work)  # its own start is ignored too
        yield begun.append

    single.start(work)
    single.start(work)
    assert (len(begun), single.is_running) == (1, True)
    begun[0](None)
    assert not single.is_running
    single.start(work)
    assert len(begun) == 2


def test_a_task_that_fails_is_logged_and_starts_again(caplog: pytest.LogCaptureFixture) -> None:
    single, begun = SingleTask(), list[int]()

    def work() -> Task[None]:
        begun.append(len(begun))
        yield lambda resume: resume(ValueError("a bug"))

    single.start(work)
    assert "ValueError: a bug" in caplog.text
    single.start(work)
    assert begun == [0, 1]


def test_a_pause_ends_after_its_time() -> None:
    time, ended = ManualTime(), list[str]()

    def work() -> Task[None]:
        yield sleep(time.scheduler, 100)
        ended.append("ended")

    run(work())
    time.advance(99)
    assert not ended
    time.advance(1)
    assert ended == ["ended"]


def test_a_wait_with_a_limit_has_the_first_answer_alone() -> None:
    time, answers = ManualTime(), list[object]()
    resumes = list[Callable[[object], None]]()

    def work() -> Task[None]:
        while True:
            answers.append((yield at_most(time.scheduler, 100, resumes.append)))

    run(work())
    time.advance(50)
    resumes[0]("in time")
    time.advance(99)
    assert answers == ["in time"], "its timer is gone"
    time.advance(1)
    resumes[1]("late")
    assert answers == ["in time", None]
