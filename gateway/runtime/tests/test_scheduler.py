"""Timers and queued functions, without a loop and on trio's mock clock."""

import logging
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from headgate.gateway.runtime import scheduler as scheduler_module
from headgate.gateway.runtime.scheduler import Scheduler, TrioClock
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime


class Given:
    pass


def test_timers_run_in_the_order_of_their_moments() -> None:
    time = ManualTime()
    ran: list[str] = []
    time.scheduler.call_at(20, lambda: ran.append("b"))
    time.scheduler.call_at(10, lambda: ran.append("a"))
    time.scheduler.call_at(20, lambda: ran.append("c"))
    time.advance(9)
    assert ran == []
    time.advance(11)
    assert ran == ["a", "b", "c"]


def test_a_cancelled_timer_does_not_run() -> None:
    time = ManualTime()
    ran: list[str] = []
    timer = time.scheduler.call_at(10, lambda: ran.append("x"))
    timer.cancel()
    timer.cancel()
    time.advance(20)
    assert ran == []


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_timer_lets_go_of_what_it_was_given(is_cancelled: bool) -> None:
    """Who waits holds his timer: kept beyond its end, the two would be garbage that only the collector finds."""
    time = ManualTime()
    given = Given()
    ran: list[type] = []
    timer = time.scheduler.call_at(10, lambda one: ran.append(type(one)), given)
    weak = weakref.ref(given)
    del given
    if is_cancelled:
        timer.cancel()
    else:
        time.advance(10)
    assert ran == ([] if is_cancelled else [Given])
    assert weak() is None


def test_many_cancelled_timers_do_not_pile_up() -> None:
    time = ManualTime()
    for _ in range(10_000):
        time.scheduler.call_at(30_000, lambda: None).cancel()
    assert len(time.scheduler._timers) < 2_100


def test_soon_runs_what_soon_added_too() -> None:
    time = ManualTime()
    ran: list[str] = []
    time.scheduler.call_soon(lambda: time.scheduler.call_soon(lambda: ran.append("second")))
    time.advance()
    assert ran == ["second"]


def test_idle_until_the_next_timer() -> None:
    time = ManualTime()
    assert time.scheduler.idle_ms() == float("inf")
    time.scheduler.call_at(20, lambda: None)
    time.advance(5)
    assert time.scheduler.idle_ms() == 15
    time.scheduler.call_soon(lambda: None)
    assert time.scheduler.idle_ms() == 0


def test_a_cancelled_timer_does_not_end_the_idle_time() -> None:
    time = ManualTime()
    time.scheduler.call_at(20, lambda: None).cancel()
    time.scheduler.call_at(30, lambda: None)
    assert time.scheduler.idle_ms() == 30


def test_an_attended_scheduler_leaves_what_is_soon_to_who_attends() -> None:
    ran: list[str] = []

    async def main() -> None:
        scheduler = Scheduler(TrioClock())
        async with trio.open_nursery() as nursery:
            await nursery.start(scheduler.run)
            scheduler.is_attended = True
            scheduler.call_soon(lambda: ran.append("soon"))
            await trio.testing.wait_all_tasks_blocked()
            assert ran == []
            scheduler.run_soon()
            assert ran == ["soon"]
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_a_failing_function_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    time = ManualTime()
    ran: list[str] = []
    time.scheduler.call_soon(_fail)
    time.scheduler.call_soon(lambda: ran.append("after"))
    with caplog.at_level(logging.CRITICAL):
        time.advance()
    assert ran == ["after"]


def _fail() -> None:
    raise ZeroDivisionError("meant to")


def run_with_mock_clock(main: Callable[[], Awaitable[None]]) -> None:
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


class CountedWakeups(Scheduler):
    """A scheduler that counts how often its task wakes up."""

    wakeups = 0

    def run_due(self) -> None:
        self.wakeups += 1
        super().run_due()


def test_on_trio_cancelled_timers_wake_nobody_up() -> None:
    """A parked fetch has a timer, cancelled by the next records: thousands a second would come due one by one."""

    async def main() -> None:
        scheduler = CountedWakeups(TrioClock())
        ran: list[str] = []
        async with trio.open_nursery() as nursery:
            await nursery.start(scheduler.run)
            timers = [scheduler.call_after(delay_ms, lambda: ran.append("early")) for delay_ms in range(100, 200)]
            scheduler.call_after(300, lambda: ran.append("late"))
            await trio.testing.wait_all_tasks_blocked()
            for timer in timers:
                timer.cancel()
            await trio.sleep(1)
            nursery.cancel_scope.cancel()
        assert ran == ["late"]
        assert scheduler.wakeups == 3, "as timers are there, at the time of the first one, and of the last one"

    run_with_mock_clock(main)


def test_on_trio_an_earlier_timer_overtakes_the_one_slept_for() -> None:
    async def main() -> None:
        clock = TrioClock()
        scheduler = Scheduler(clock)
        ran: list[tuple[str, float]] = []
        start_ms = clock.monotonic_ms()
        async with trio.open_nursery() as nursery:
            await nursery.start(scheduler.run)
            scheduler.call_after(60_000, lambda: ran.append(("late", clock.monotonic_ms() - start_ms)))
            await trio.testing.wait_all_tasks_blocked()
            scheduler.call_after(10, lambda: ran.append(("early", clock.monotonic_ms() - start_ms)))
            await trio.sleep(61)
            nursery.cancel_scope.cancel()
        assert [name for name, _ in ran] == ["early", "late"]
        assert [round(at_ms) for _, at_ms in ran] == [10, 60_000]

    run_with_mock_clock(main)


def run_in_slices(*works: Generator[None, None, Any]) -> list[Any]:
    """Run all at the same time; what came of them, in the order of their ends."""
    results: list[Any] = []

    async def main() -> None:
        scheduler = Scheduler(TrioClock())
        async with trio.open_nursery() as nursery:
            await nursery.start(scheduler.run)
            all_ended = trio.Event()

            def note(result: Any) -> None:
                results.append(result)
                if len(results) == len(works):
                    all_ended.set()

            for work in works:
                scheduler.in_slices(work, note)
            await all_ended.wait()
            nursery.cancel_scope.cancel()

    trio.run(main)
    return results


def test_threads_that_work_in_slices_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at once would hand Python's lock to each other, and the loop would wait for both."""
    monkeypatch.setattr(scheduler_module, "TURN_WITHIN_S", 10.0)
    inside: list[str] = []
    most = 0

    def work(name: str) -> Generator[None, None, str]:
        nonlocal most
        for _ in range(20):
            inside.append(name)
            time.sleep(0.0006)
            most = max(most, len(inside))
            inside.remove(name)
            yield
        return name

    assert sorted(run_in_slices(work("a"), work("b"), work("c"))) == ["a", "b", "c"]
    assert most == 1


def test_a_slice_that_waits_for_a_disk_does_not_hold_up_the_others() -> None:
    is_read = threading.Event()

    def waits() -> Generator[None, None, str]:
        yield
        assert is_read.wait(60)
        return "waited"

    def works() -> Generator[None, None, str]:
        for _ in range(3):
            time.sleep(0.0006)
            yield
        return "worked"

    def reads() -> Generator[None, None, str]:
        yield from works()
        is_read.set()
        return "worked"

    assert sorted(run_in_slices(waits(), reads())) == ["waited", "worked"]


def test_a_slice_that_waits_for_a_disk_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_module, "TURN_WITHIN_S", 0.2)
    has_begun, is_read = threading.Event(), threading.Event()

    def waits() -> Generator[None, None, str]:
        yield
        has_begun.set()
        assert is_read.wait(60)
        for _ in range(3):
            yield
        return "waited"

    def reads() -> Generator[None, None, str]:
        assert has_begun.wait(60)
        for _ in range(20):
            time.sleep(0.0006)
            yield
        is_read.set()
        return "read"

    began_s = time.monotonic()
    assert sorted(run_in_slices(waits(), reads())) == ["read", "waited"]
    assert time.monotonic() - began_s < 2, "not at each of its slices"


def test_threads_and_tasks_come_back_to_the_loop() -> None:
    async def main() -> None:
        scheduler = Scheduler(TrioClock())
        results: list[Any] = []
        async with trio.open_nursery() as nursery:
            await nursery.start(scheduler.run)
            scheduler.in_thread(lambda: 42, results.append)
            scheduler.in_thread(_fail, results.append)
            while len(results) < 2:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        assert 42 in results
        assert any(isinstance(result, ZeroDivisionError) for result in results)

    trio.run(main)


def test_work_in_slices_leaves_time_to_the_loop() -> None:
    """A thread that computes for 20 ms: without its pauses the loop would get Python's lock four times."""
    turns = 0

    def work() -> Generator[None, None, str]:
        until_s = time.thread_time() + 0.02
        while time.thread_time() < until_s:
            yield
        return "done"

    async def main() -> None:
        nonlocal turns
        scheduler = Scheduler(TrioClock())
        results: list[Any] = []
        async with trio.open_nursery() as nursery:
            await nursery.start(scheduler.run)
            scheduler.in_slices(work(), results.append)
            while not results:
                turns += 1
                await trio.sleep(0.0001)
            nursery.cancel_scope.cancel()
        assert results == ["done"]

    trio.run(main)
    assert turns > 10


def test_work_in_slices_does_not_hold_up_the_end() -> None:
    def long() -> Generator[None, None, None]:
        until_s = time.monotonic() + 5
        while time.monotonic() < until_s:
            yield

    async def main() -> None:
        scheduler = Scheduler(TrioClock())
        async with trio.open_nursery() as nursery:
            await nursery.start(scheduler.run)
            scheduler.in_slices(long(), lambda result: None)
            await trio.sleep(0.01)
            nursery.cancel_scope.cancel()

    began_s = time.monotonic()
    trio.run(main)
    assert time.monotonic() - began_s < 3


def test_the_end_waits_for_threads_and_hands_back_what_they_did() -> None:
    """Else a thread would be at work in a directory that is somebody else's by then."""
    is_ending = threading.Event()
    results: list[Any] = []

    async def main() -> None:
        scheduler = Scheduler(TrioClock())
        async with trio.open_nursery() as nursery:
            await nursery.start(scheduler.run)
            scheduler.in_thread(lambda: is_ending.wait(60), results.append)
            scheduler.in_thread(threading.current_thread, results.append)
            nursery.cancel_scope.cancel()
            is_ending.set()
        with pytest.raises(RuntimeError, match="not running"):
            scheduler.in_thread(lambda: None, results.append)

    trio.run(main)
    thread = next(result for result in results if result is not True)
    assert results in ([True, thread], [thread, True])
    thread.join(60)
    assert not thread.is_alive()


def test_what_a_thread_leaves_for_soon_is_done_with_it() -> None:
    ran: list[str] = []

    async def main() -> None:
        scheduler = Scheduler(TrioClock())
        ended = trio.Event()

        def done(result: object) -> None:
            scheduler.call_soon(lambda: ran.append("soon"))
            ran.append("done")
            ended.set()

        async with trio.open_nursery() as nursery:
            await nursery.start(scheduler.run)
            scheduler.in_thread(lambda: None, done)
            await ended.wait()
            assert ran == ["done", "soon"]
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_what_work_in_slices_raises_is_handed_over() -> None:
    def work() -> Generator[None, None, str]:
        yield
        raise ZeroDivisionError

    handed: list[Any] = []
    Scheduler.in_slices(ManualTime().scheduler, work(), handed.append)
    assert isinstance(handed[0], ZeroDivisionError)


def test_spawning_without_a_loop_says_so() -> None:
    async def nothing() -> None: ...

    with pytest.raises(RuntimeError, match="not running"):
        ManualTime().scheduler.spawn(nothing, lambda result: None)


@pytest.mark.parametrize("way", ["call_soon", "call_after", "in_thread", "spawn"])
def test_each_run_of_functions_ends_with_a_settlement(way: str) -> None:
    told: list[str] = []

    async def nothing() -> None:
        await trio.lowlevel.checkpoint()

    async def main() -> None:
        scheduler = Scheduler(TrioClock(), settle=lambda: told.append("settled"))
        async with trio.open_nursery() as nursery:
            await nursery.start(scheduler.run)
            await trio.testing.wait_all_tasks_blocked()
            told.clear()
            ended = trio.Event()

            def run(*_: object) -> None:
                told.append("run")
                scheduler.call_soon(ended.set)

            match way:
                case "call_soon":
                    scheduler.call_soon(run)
                case "call_after":
                    scheduler.call_after(5.0, run)
                case "in_thread":
                    scheduler.in_thread(lambda: None, run)
                case "spawn":
                    scheduler.spawn(nothing, run)
            await ended.wait()
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert told[told.index("run") + 1] == "settled"
    assert told[-1] == "settled"


@pytest.mark.parametrize("is_running", [False, True])
def test_functions_of_other_threads_run_on_the_loop_in_order(is_running: bool) -> None:
    ran: list[tuple[int, int]] = []

    async def main() -> None:
        scheduler, end = Scheduler(TrioClock()), trio.Event()

        def note(number: int) -> None:
            ran.append((number, threading.get_ident()))

        def call_all() -> None:
            for number in range(1000):
                scheduler.call_from_thread(partial(note, number))
            scheduler.call_from_thread(end.set)

        if not is_running:
            await trio.to_thread.run_sync(call_all)
            assert ran == []
        async with trio.open_nursery() as nursery:
            await nursery.start(scheduler.run)
            if is_running:
                await trio.to_thread.run_sync(call_all)
            with trio.fail_after(30):
                await end.wait()
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert ran == [(number, threading.get_ident()) for number in range(1000)]


def test_a_busy_thread_does_not_keep_the_loop() -> None:
    """A function that was called while others ran has to wait for the next turn of the loop."""
    order: list[str] = []

    async def main() -> None:
        scheduler, end = Scheduler(TrioClock()), trio.Event()

        def again(left: int) -> None:
            order.append("thread")
            if left:
                scheduler.call_from_thread(lambda: again(left - 1))
            else:
                end.set()

        async def other() -> None:
            while not end.is_set():
                order.append("task")
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            await nursery.start(scheduler.run)
            nursery.start_soon(other)
            scheduler.call_from_thread(lambda: again(20))
            with trio.fail_after(30):
                await end.wait()
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert order.count("thread") == 21
    assert "thread,thread,thread" not in ",".join(order)  # trio shuffles the tasks of a turn


def test_functions_of_other_threads_are_dropped_after_the_end() -> None:
    ran: list[str] = []

    async def main() -> Scheduler:
        scheduler = Scheduler(TrioClock())
        async with trio.open_nursery() as nursery:
            await nursery.start(scheduler.run)
            nursery.cancel_scope.cancel()
        scheduler.call_from_thread(lambda: ran.append("late"))
        return scheduler

    trio.run(main).call_from_thread(lambda: ran.append("later"))
    assert ran == []
