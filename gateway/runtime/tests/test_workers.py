"""Worker threads without a loop: the test takes back what has ended."""

import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from headgate.gateway.runtime.tests.fake_scheduler import FakeScheduler, ManualClock
from headgate.gateway.runtime.workers import BoundedExecutor, UnwantedError, Workers

PATIENCE_S = 10.0


class Loop:
    """Takes back what has ended, when the test says so."""

    def __init__(self, most: int) -> None:
        self.alarm = threading.Semaphore(0)
        self.workers = Workers(self.alarm.release, most)
        self.results: list[Any] = []

    def run(self, work: Callable[[], Any]) -> None:
        self.workers.run(work, self.results.append)

    def wait_for(self, count: int) -> None:
        """Until so many works have ended and were taken back."""
        for _ in range(count):
            assert self.alarm.acquire(timeout=PATIENCE_S)
        while (ended := self.workers.ended()) is not None:
            done, result = ended
            done(result)


def test_results_and_exceptions_come_back() -> None:
    loop = Loop(most=2)
    loop.run(lambda: 42)
    loop.wait_for(1)
    loop.run(lambda: 1 // 0)
    loop.wait_for(1)
    assert loop.results[0] == 42
    assert isinstance(loop.results[1], ZeroDivisionError)
    loop.workers.close()


def test_one_who_would_end_the_program_ends_his_work_only() -> None:
    loop = Loop(most=1)
    loop.run(_exit)
    loop.run(lambda: "goes on")
    loop.wait_for(2)
    assert isinstance(loop.results[0], SystemExit)
    assert loop.results[1] == "goes on"
    loop.workers.close()


def _exit() -> None:
    raise SystemExit(1)


def test_another_thread_is_made_only_if_all_are_at_work() -> None:
    loop = Loop(most=3)
    for _ in range(5):
        loop.run(threading.get_ident)
        loop.wait_for(1)
    assert len(set(loop.results)) == 1
    meet = threading.Barrier(3)
    for _ in range(3):
        loop.run(lambda: meet.wait(PATIENCE_S))
    loop.wait_for(3)
    assert sorted(loop.results[5:]) == [0, 1, 2]
    loop.workers.close()


def test_more_than_the_threads_wait_for_one_of_them() -> None:
    loop = Loop(most=1)
    go_on = threading.Event()
    loop.run(lambda: go_on.wait(PATIENCE_S))
    loop.run(threading.get_ident)
    assert loop.workers.running == 2
    go_on.set()
    loop.wait_for(2)
    assert loop.workers.running == 0
    assert len(loop.results) == 2
    loop.workers.close()


def test_what_a_work_held_is_let_go_of() -> None:
    """A thread that waits for the next one would keep the last one's files and buffers."""

    class Held:
        def __call__(self) -> None:
            pass

    loop = Loop(most=1)
    held = Held()
    weak = weakref.ref(held)
    loop.run(held)
    del held
    loop.wait_for(1)
    assert weak() is None
    loop.workers.close()


def test_closed_threads_end() -> None:
    loop = Loop(most=1)
    loop.run(threading.current_thread)
    loop.wait_for(1)
    loop.workers.close()
    loop.results[0].join(PATIENCE_S)
    assert not loop.results[0].is_alive()


@pytest.fixture
def no_more_threads(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """The system allows no further thread, from when it is called on."""

    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    return lambda: monkeypatch.setattr(threading.Thread, "start", start)


def test_without_another_thread_work_waits_for_those_there_are(no_more_threads: Callable[[], None]) -> None:
    loop = Loop(most=3)
    loop.run(lambda: 1)
    no_more_threads()
    loop.run(lambda: 2)
    loop.run(lambda: 3)
    loop.wait_for(3)
    assert loop.results == [1, 2, 3]
    assert loop.workers.running == 0
    loop.workers.close()


def test_without_any_thread_who_asked_is_told(no_more_threads: Callable[[], None]) -> None:
    """Who waits for an end that never comes would be busy for good."""
    loop = Loop(most=3)
    no_more_threads()
    loop.run(lambda: 1)
    loop.wait_for(1)
    assert isinstance(loop.results[0], RuntimeError)
    assert loop.workers.running == 0


def test_a_share_takes_few_threads_and_the_rest_waits_in_order() -> None:
    scheduler, results = FakeScheduler(ManualClock()), list[int]()
    threads = scheduler.hold()
    share = BoundedExecutor(scheduler, 2)
    for number in range(4):
        share.in_thread(lambda number=number: number, results.append)  # type: ignore[misc]
    assert (len(threads.waiting), share.is_full) == (2, True)
    threads.run_one(number=1)
    assert (len(threads.waiting), results) == (2, [1])
    threads.run_one(number=1)
    assert results == [1, 2], "the first one hangs"
    threads.run_all()
    assert (results, share.is_full) == ([1, 2, 0, 3], False)


def test_what_waits_for_a_share_is_not_begun_when_the_broker_stops() -> None:
    scheduler, results = FakeScheduler(ManualClock()), list[int]()
    threads = scheduler.hold()
    share = BoundedExecutor(scheduler, 1)
    for number in range(2):
        share.in_thread(lambda number=number: number, results.append)  # type: ignore[misc]
    scheduler.is_over = True
    threads.run_all()
    assert results == [0]


def test_what_would_hold_something_is_begun_when_a_thread_is_free() -> None:
    scheduler, begun, results = FakeScheduler(ManualClock()), list[int](), list[int]()
    threads = scheduler.hold()
    share = BoundedExecutor(scheduler, 2)

    def begin(number: int) -> None:
        begun.append(number)
        if number != 2:  # it finds that there is nothing to be done
            share.in_thread(lambda: number, results.append)

    for number in range(5):
        share.when_free(lambda number=number: begin(number))  # type: ignore[misc]
    assert begun == [0, 1]
    threads.run_one()
    assert (begun, results) == ([0, 1, 2, 3], [0])
    threads.run_all()
    assert (begun, results, share.is_full) == ([0, 1, 2, 3, 4], [0, 1, 3, 4], False)


def test_waiting_work_is_kept_until_the_stop_and_not_begun_then() -> None:
    scheduler, begun = FakeScheduler(ManualClock()), list[int]()
    threads = scheduler.hold()
    share = BoundedExecutor(scheduler, 1)
    share.in_thread(lambda: None, lambda _: None)
    share.when_free(lambda: begun.append(0))
    for _ in range(1_000):
        share.in_thread(lambda: None, lambda _: None, lambda: False)
    scheduler.run_soon()
    threads.run_one()
    assert begun == [0]
    share.in_thread(lambda: None, lambda _: None)
    share.when_free(lambda: begun.append(1))
    scheduler.is_over = True
    threads.run_all()
    assert begun == [0]


def test_what_nobody_wants_any_more_is_not_begun() -> None:
    scheduler, wanted, begun, results = FakeScheduler(ManualClock()), {1, 2, 3}, list[int](), list[Any]()
    threads = scheduler.hold()
    share = BoundedExecutor(scheduler, 1)
    for number in (1, 2, 3):
        share.in_thread(
            lambda number=number: begun.append(number),  # type: ignore[misc]
            lambda result, number=number: results.append((number, type(result))),  # type: ignore[misc]
            lambda number=number: number in wanted,  # type: ignore[misc]
        )
    wanted.remove(2)
    threads.run_one()
    assert sorted(results) == [(1, type(None)), (2, UnwantedError)]
    threads.run_all()
    assert (begun, len(results), share.is_full) == ([1, 3], 3, False)


def test_while_a_disk_hangs_no_more_waits_than_twice_what_is_wanted() -> None:
    """Clients give up, and come again."""
    scheduler, wanted, ends = FakeScheduler(ManualClock()), set[int](), list[int]()
    threads = scheduler.hold()
    share = BoundedExecutor(scheduler, 1)
    for number in range(3_000):
        wanted.add(number)
        wanted.discard(number - 100)
        share.in_thread(
            lambda: None,
            lambda _, number=number: ends.append(number),  # type: ignore[misc]
            lambda number=number: number in wanted,  # type: ignore[misc]
        )
        scheduler.run_soon()
        assert len(share.waiting) <= 200
    threads.run_all()
    assert sorted(ends) == list(range(3_000)), "each is told of its end once"


def test_new_work_is_not_checked_before_the_turn_ends() -> None:
    """Whoever asks for it is parked behind that."""
    scheduler, results, is_parked = FakeScheduler(ManualClock()), list[Any](), False
    threads = scheduler.hold()
    share = BoundedExecutor(scheduler, 1)
    for number in range(1_000):
        share.in_thread(lambda number=number: number, results.append, lambda: is_parked)  # type: ignore[misc]
    is_parked = True
    scheduler.run_soon()
    threads.run_all()
    assert results == list(range(1_000))


def test_an_exception_comes_back_without_the_buffers_of_its_frames() -> None:
    loop, buffers = Loop(most=1), list[weakref.ref[set[int]]]()

    def fail() -> None:
        buffer = {1, 2, 3}
        buffers.append(weakref.ref(buffer))
        raise ValueError(len(buffer))

    loop.run(fail)
    loop.wait_for(1)
    assert isinstance(loop.results[0], ValueError)
    assert buffers[0]() is None
    loop.workers.close()
