"""Conversions: what is small is done at once, everything else by one thread, in order."""

import inspect
import weakref
from collections.abc import Generator
from typing import Any

import pytest
import trio

from headgate.gateway.api import conversion
from headgate.gateway.api.conversion import HUNG_MS, MAX_HUNG, TURN_BYTES, Conversions
from headgate.gateway.runtime.scheduler import Scheduler, StoppedError, TrioClock
from headgate.gateway.runtime.tasks import Tasks
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.protocol.errors import ErrorCode, KafkaError


class Threads:
    """Runs what was given to the thread when the test says so."""

    def __init__(self) -> None:
        self.time = ManualTime()
        self.held = self.time.scheduler.hold_slices()
        self.begun = self.held.waiting
        self.conversions = Conversions(self.time.scheduler)

    def run(self, number: int = 0) -> None:
        self.held.run_one(number=number)


def steps(result: Any, slices: int) -> Generator[None, None, Any]:
    for _ in range(slices):
        yield
    if isinstance(result, Exception):
        raise result
    return result


def test_what_ends_in_its_first_slice_is_done_at_once() -> None:
    threads, late = Threads(), list[Any]()
    assert threads.conversions.run(steps("now", 0), 10, late.append) == "now"
    assert threads.conversions.run(steps("later", 1), 10, late.append) is None
    assert late == []
    threads.run()
    assert late == ["later"]
    assert threads.conversions.waiting_bytes == 0


def test_what_fails_in_its_first_slice_raises_and_later_is_told() -> None:
    threads, late = Threads(), list[Any]()
    error = KafkaError(ErrorCode.CORRUPT_MESSAGE, "it is")
    with pytest.raises(KafkaError, match="it is"):
        threads.conversions.run(steps(error, 0), 10, late.append)
    threads.conversions.run(steps(error, 1), 10, late.append)
    threads.run()
    assert late == [error]


def test_a_task_awaits_a_conversion_which_ends_with_the_task() -> None:
    threads, results = Threads(), list[Any]()
    tasks = Tasks(threads.time.clock, threads.time.scheduler)
    running = [tasks.start(threads.conversions.awaited(steps(name, 1), 10), results.append) for name in "abc"]
    running[1].cancel()
    threads.run()
    threads.run()
    assert (results, threads.begun, threads.conversions.waiting_bytes) == (["a", "c"], [], 0)


def test_one_runs_at_a_time_in_the_order_in_which_they_came() -> None:
    threads, late = Threads(), list[Any]()
    for number in range(3):
        threads.conversions.submit(steps(number, 2), 10, late.append)
        assert len(threads.begun) == 1
    assert threads.conversions.waiting_bytes == 30
    for _ in range(3):
        threads.run()
    assert late == [0, 1, 2]
    assert not threads.begun


def test_those_behind_one_that_waits_for_a_disk_go_on_without_it() -> None:
    threads, late = Threads(), list[Any]()
    for number in range(3):
        threads.conversions.submit(steps(number, 2), 10, late.append, is_reading=number == 0)
    threads.time.advance(HUNG_MS - 1)
    assert len(threads.begun) == 1
    threads.time.advance(1)
    assert len(threads.begun) == 2
    threads.time.advance(10 * HUNG_MS)
    assert len(threads.begun) == 2, "of those that read nothing one at a time"
    threads.run()
    assert (late, len(threads.begun)) == ([0], 1)
    threads.run()
    threads.run()
    assert (late, threads.conversions.waiting_bytes) == ([0, 1, 2], 0)


def test_so_many_wait_for_disks_beside_the_one_that_runs() -> None:
    threads, late = Threads(), list[Any]()
    for number in range(MAX_HUNG + 3):
        threads.conversions.submit(steps(number, 2), 10, late.append, is_reading=True)
    for _ in range(MAX_HUNG + 3):
        threads.time.advance(HUNG_MS)
    assert len(threads.begun) == MAX_HUNG + 1
    threads.run()
    threads.time.advance(HUNG_MS)
    assert len(threads.begun) == MAX_HUNG + 1, "another one has its place"
    while threads.begun:
        threads.run()
    assert late == list(range(MAX_HUNG + 3))


def test_one_that_waits_for_a_disk_at_the_stop_is_told_too(caplog: pytest.LogCaptureFixture) -> None:
    threads, late = Threads(), list[Any]()
    for number in range(3):
        threads.conversions.submit(steps(number, 2), 10, late.append, is_reading=number == 0)
    threads.time.advance(HUNG_MS)
    threads.time.scheduler.is_over = True
    while threads.begun:
        threads.begun.pop(0)[1](StoppedError())
    assert (late, threads.conversions.waiting_bytes) == ([], 0)
    assert "the broker stopped before" in caplog.text


def test_what_is_no_longer_wanted_is_not_begun() -> None:
    threads, late = Threads(), list[Any]()
    wanted = {1: True, 2: True}
    for number in (1, 2):
        threads.conversions.submit(steps(number, 2), 10, late.append, lambda number=number: wanted[number])  # type: ignore[misc]
    wanted[2] = False
    threads.run()
    assert late == [1]
    assert not threads.begun
    assert threads.conversions.waiting_bytes == 0


def test_what_is_no_longer_wanted_is_broken_off() -> None:
    threads, late, wanted = Threads(), list[Any](), [True]
    endless = steps("never", 1_000_000)
    threads.conversions.submit(endless, 10, late.append, lambda: wanted[0])
    threads.conversions.submit(steps("next", 1), 10, late.append)
    work: Any = threads.begun[0][0]
    for _ in range(200):
        next(work.args[0])
    wanted[0] = False
    threads.run()
    assert late == []
    assert inspect.getgeneratorstate(endless) == inspect.GEN_CLOSED, "it holds nothing any more"
    threads.run()
    assert late == ["next"]
    assert threads.conversions.waiting_bytes == 0


def test_what_those_who_hung_up_left_does_not_pile_up() -> None:
    threads, late = Threads(), list[Any]()
    alive: weakref.WeakSet[Generator[None, None, Any]] = weakref.WeakSet()
    for number in range(1_000):
        one = steps(number, 1)
        alive.add(one)
        threads.conversions.submit(one, 10, late.append, lambda number=number: not number % 100)  # type: ignore[misc]
    del one
    assert len(alive) < 150
    assert threads.conversions.waiting_bytes == len(alive) * 10
    while threads.begun:
        threads.run()
    assert late == list(range(0, 1_000, 100))
    assert threads.conversions.waiting_bytes == 0


def test_only_so_much_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "MAX_WAITING_BYTES", 100)
    threads, late = Threads(), list[Any]()
    threads.conversions.submit(steps("a", 1), 101, late.append)
    with pytest.raises(KafkaError) as refused:
        threads.conversions.submit(steps("b", 1), 1, late.append)
    assert refused.value.code == ErrorCode.REQUEST_TIMED_OUT
    threads.run()
    threads.conversions.submit(steps("c", 1), 1, late.append)
    threads.run()
    assert late == ["a", "c"]


def test_a_fault_in_what_follows_does_not_stop_the_others() -> None:
    threads, late = Threads(), list[Any]()

    def fail(_: Any) -> None:
        raise ZeroDivisionError

    threads.conversions.submit(steps("a", 1), 10, fail)
    threads.conversions.submit(steps("b", 1), 10, late.append)
    with pytest.raises(ZeroDivisionError):
        threads.run()
    threads.run()
    assert late == ["b"]


def test_at_the_end_what_was_not_converted_is_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """Who produces with acks=0 hears of it nowhere else. The two that nobody waits for are no loss."""
    late: list[Any] = []

    def long() -> Generator[None, None, None]:
        while True:
            yield

    async def main() -> None:
        scheduler = Scheduler(TrioClock())
        conversions = Conversions(scheduler)
        async with trio.open_nursery() as nursery:
            await nursery.start(scheduler.run)
            conversions.submit(long(), 10, late.append)
            for is_wanted in (True, False, True, False):
                conversions.submit(steps("never", 1), 10, late.append, lambda is_wanted=is_wanted: is_wanted)  # type: ignore[misc]
            await trio.sleep(0.005)
            nursery.cancel_scope.cancel()
        assert conversions.waiting_bytes == 0

    trio.run(main)
    assert late == []
    (line,) = caplog.records
    assert line.getMessage() == "the broker stopped before 3 conversions of 30 bytes"
    assert line.exc_info is None


def test_only_so_much_is_done_at_once_in_a_turn() -> None:
    """However small each is: a request may have a hundred thousand partitions."""
    for size, most in ((10, TURN_BYTES // 1024), (TURN_BYTES // 4, 4), (1 << 30, 1)):
        threads, late = Threads(), list[Any]()
        for _ in range(2):
            assert [threads.conversions.run(steps("now", 0), size, late.append) for _ in range(most)] == ["now"] * most
            assert threads.conversions.run(steps("later", 0), size, late.append) is None
            assert late == []
            threads.run()
            assert late.pop() == "later"
            threads.time.advance()


def test_what_the_first_slice_may_convert_counts() -> None:
    threads = Threads()
    for wanted in ["now"] * 4 + [None]:
        assert threads.conversions.at_once(steps("now", 0), TURN_BYTES // 4) == wanted


def test_the_more_wait_the_less_is_to_be_converted_at_once() -> None:
    threads, shares = Threads(), []
    for _ in range(4):
        shares.append(threads.conversions.share(100, 30))
        threads.conversions.submit(steps("a", 1), 10, lambda result: None)
    assert shares == [100, 100, 50, 33]
    threads.conversions.submit(steps("a", 1), 10, lambda result: None)
    assert threads.conversions.share(100, 30) == 30
