"""The pump: callbacks without a loop, handed over to a scheduler and taken back."""

import threading
from queue import SimpleQueue

from headgate.gateway.runtime.clock import SystemClock
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.gateway.zookeeper.membership.pump import Pump, take
from headgate.gateway.zookeeper.tests.opening import MovingPump


def test_callbacks_run_in_their_order() -> None:
    pump, seen = Pump(SystemClock()), list[int]()
    pump.call_soon(lambda: seen.append(1))
    pump.call_from_thread(lambda: seen.append(2))
    assert pump.run_until(lambda: len(seen) == 2, SystemClock().monotonic_ms() + 1_000)
    assert seen == [1, 2]


def test_a_thread_ends_the_wait() -> None:
    clock = SystemClock()
    pump, seen = Pump(clock), list[int]()
    thread = threading.Thread(target=lambda: pump.call_from_thread(lambda: seen.append(1)))
    thread.start()
    assert pump.run_until(lambda: bool(seen), clock.monotonic_ms() + 5_000)
    thread.join()


def test_nothing_arrives() -> None:
    arrived = SimpleQueue()  # type: ignore[var-annotated]
    assert take(arrived, 0) is None
    pump = MovingPump(ManualTime().clock)
    assert not pump.run_until(lambda: False, 2_000)
    assert pump.clock.elapsed_ms >= 2_000


def test_timers_run_when_they_are_due() -> None:
    pump, seen = MovingPump(ManualTime().clock), list[float]()
    pump.call_after(300, lambda: seen.append(pump.clock.elapsed_ms))
    pump.call_after(100, lambda: seen.append(pump.clock.elapsed_ms))
    pump.call_after(200, lambda: seen.append(-1)).cancel()
    assert pump.run_until(lambda: len(seen) == 2, 1_000)
    assert [round(one, -2) for one in seen] == [100, 300]


def test_a_scheduler_takes_over() -> None:
    time, seen = ManualTime(), list[int]()
    pump = Pump(time.clock)
    pump.call_from_thread(lambda: seen.append(1))
    pump.call_after(100, lambda: seen.append(4))
    pump.call_after(100, lambda: seen.append(-1)).cancel()
    pump.hand_over(time.scheduler)
    pump.call_from_thread(lambda: seen.append(2))
    pump.call_soon(lambda: seen.append(3))
    pump.call_after(200, lambda: seen.append(5))
    time.advance()
    assert seen == [1, 2, 3]
    time.advance(200)
    assert seen == [1, 2, 3, 4, 5]


def test_what_a_scheduler_did_not_run_is_taken_back() -> None:
    time, seen = ManualTime(), list[int]()
    pump = Pump(time.clock)
    pump.hand_over(time.scheduler)
    pump.call_from_thread(lambda: seen.append(1))
    pump.take_back()  # the loop ended before it ran that
    pump.call_from_thread(lambda: seen.append(2))
    assert pump.run_until(lambda: len(seen) == 2, 0)
    time.advance()
    assert seen == [1, 2]
