"""Histories: bounded, shared, read only while a visitor watches and a little longer."""

from __future__ import annotations

from collections.abc import Callable

from headgate.tools.client.client import ClientError
from headgate.tools.console.live.histories import (
    INTERVAL_S,
    KEPT_S,
    LOAD_SHARE,
    MOST_POINTS,
    RESTING_S,
    BrokerHistory,
    LiveHistories,
)
from headgate.tools.console.live.readings import FIGURES

IN_BYTES = FIGURES.index("in_bytes_per_s")


class FakeBroker:
    """Its clock goes on a second with each reading."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.is_down = False

    def read(self, address: str = "") -> str:
        self.now_s += 1
        if self.is_down:
            raise ClientError("it is down")
        return f"headgate_in_bytes_total {100 * self.now_s}\n"

    def clock(self) -> float:
        return self.now_s

    def now_ms(self) -> int:
        return int(self.now_s * 1000)


def test_points_are_numbered_and_bounded() -> None:
    broker = FakeBroker()
    history = BrokerHistory(broker.read, broker.clock, broker.now_ms)
    for _ in range(MOST_POINTS + 10):
        history.sample()
    points = history.points_after(0)
    assert len(points) == MOST_POINTS
    assert points[-1].number == MOST_POINTS + 10
    assert points[-1].values[IN_BYTES] == 100.0
    assert [point.number for point in history.points_after(MOST_POINTS + 8)] == [MOST_POINTS + 9, MOST_POINTS + 10]


def test_a_broker_that_does_not_answer_leaves_a_gap() -> None:
    broker = FakeBroker()
    history = BrokerHistory(broker.read, broker.clock, broker.now_ms)
    for is_down in (False, False, True, False, False):
        broker.is_down = is_down
        history.sample()
        assert (history.error == "it is down") == is_down
    assert [point.values[IN_BYTES] for point in history.points_after(0)] == [None, 100.0, None, None, 100.0]


def test_a_failed_reading_does_not_slow_down_the_others() -> None:
    broker = FakeBroker()
    histories = LiveHistories(["a:1", "b:2"], broker.read, broker.clock, broker.now_ms)
    assert histories.sample() == 2.0
    broker.is_down = True
    assert histories.sample() == 0.0
    assert histories.wait_for_round(1, 0) == 2


def test_the_pace_is_that_of_the_watchers() -> None:
    broker = FakeBroker()
    histories = LiveHistories([], broker.read, broker.clock, broker.now_ms)
    histories.watch()
    assert histories.pause_s() == INTERVAL_S
    assert histories.pause_s(0.2) == 0.2 / LOAD_SHARE
    histories.leave()
    assert histories.pause_s() == RESTING_S
    broker.now_s += KEPT_S
    assert histories.pause_s() is None


def test_one_function_reads_from_the_first_stream_on() -> None:
    broker = FakeBroker()
    started: list[Callable[[], None]] = []
    histories = LiveHistories(["a:1"], broker.read, broker.clock, broker.now_ms, started.append)
    assert not started
    histories.watch()
    histories.watch()
    assert len(started) == 1
    histories.leave()
    histories.leave()
    broker.now_s += KEPT_S
    started[0]()  # ends after a round, as no stream was open for so long
    assert histories.wait_for_round(0, 0) == 1
    assert len(histories.brokers["a:1"].points_after(0)) == 1
    histories.watch()
    assert len(started) == 2


def test_a_cluster_without_listeners_starts_nothing() -> None:
    started: list[Callable[[], None]] = []
    LiveHistories([], FakeBroker().read, start=started.append).watch()
    assert not started
