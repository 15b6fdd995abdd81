"""Histories of figures: a bounded one for each broker, kept by a thread while a visitor watches, and a little longer.

All visitors share a broker's history, so a broker is asked once in a while however many pages are open: each second
while a stream is open, each `RESTING_S` afterwards, and no more after `KEPT_S` without a stream. A reading that takes
long, of a broker with many partitions, is made less often: `LOAD_SHARE` bounds its share of the time. A failed reading
does not count there.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from headgate.tools.client.client import ClientError
from headgate.tools.console.live import readings
from headgate.tools.console.live.readings import FIGURES, ApiFigures, Reading

INTERVAL_S: Final = 1.0
RESTING_S: Final = 5.0
KEPT_S: Final = 600.0
LOAD_SHARE: Final = 0.05
MOST_POINTS: Final = 600
API_WINDOW: Final = 10
"""Readings over which the figures of APIs are: the broker measures one request in 64."""
MOST_APIS: Final = 12


class Point(NamedTuple):
    """The figures of a broker at a time, in the order of FIGURES; `number` counts the points of the history."""

    number: int
    at_ms: int
    p99_ms: Mapping[str, float]
    """By API, of the busiest ones."""
    values: tuple[float | None, ...]


class BrokerHistory:
    """The points of one broker. Threads may share it."""

    def __init__(self, read: Callable[[], str], clock: Callable[[], float], now_ms: Callable[[], int]) -> None:
        """`read`: the text of the metrics. It may raise ClientError."""
        self._read, self._clock, self._now_ms = read, clock, now_ms
        self._points: deque[Point] = deque(maxlen=MOST_POINTS)
        self._readings: deque[Reading] = deque(maxlen=API_WINDOW)
        self._count = 0
        self.error: str | None = None
        """Why the last reading failed."""

    def sample(self) -> float:
        """Read the metrics, and keep the figures; a failed reading is a gap.

        Returns the seconds that a successful one took.
        """
        began_s, took_s = self._clock(), 0.0
        try:
            reading = readings.parse(self._read(), self._clock())
        except ClientError as error:
            self.error = str(error)
            self._readings.clear()
            values: tuple[float | None, ...] = (None,) * len(FIGURES)
        else:
            found = readings.figures(self._readings[-1] if self._readings else None, reading)
            self._readings.append(reading)
            values, self.error = tuple(found[name] for name in FIGURES), None
            took_s = self._clock() - began_s
        self._count += 1
        p99_ms = {each.api: each.p99_ms for each in self._api_figures() if each.p99_ms is not None}
        self._points.append(Point(self._count, self._now_ms(), p99_ms, values))
        return took_s

    def points_after(self, number: int) -> list[Point]:
        """The points with a higher number; those that are too old are gone."""
        return [point for point in list(self._points) if point.number > number]

    def apis(self) -> list[dict[str, Any]]:
        """The busiest APIs of the last readings."""
        return [each._asdict() for each in self._api_figures()]

    def _api_figures(self) -> list[ApiFigures]:
        kept = list(self._readings)
        return readings.api_figures(kept[0], kept[-1])[:MOST_APIS] if len(kept) > 1 else []


def _start_thread(run: Callable[[], None]) -> None:
    threading.Thread(target=run, name="live histories", daemon=True).start()


class LiveHistories:
    """The histories of all brokers whose HTTP listeners are known, by address."""

    def __init__(
        self,
        addresses: Sequence[str],
        read: Callable[[str], str],
        clock: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        start: Callable[[Callable[[], None]], None] = _start_thread,
    ) -> None:
        """`start`: runs a function beside the caller."""
        self._clock = clock
        self.brokers: Mapping[str, BrokerHistory] = {
            address: BrokerHistory(lambda address=address: read(address), clock, now_ms)  # type: ignore[misc]
            for address in addresses
        }
        self._changed = threading.Condition()
        self._round = 0
        self._watchers = 0
        self._last_watched_s = 0.0
        self._start = start
        self._is_kept = False

    def watch(self) -> None:
        """A stream begins."""
        with self._changed:
            self._watchers += 1
            self._last_watched_s = self._clock()
            if not self._is_kept and self.brokers:
                self._is_kept = True
                self._start(self._keep)
            self._changed.notify_all()

    def leave(self) -> None:
        """A stream ends."""
        with self._changed:
            self._watchers -= 1
            self._last_watched_s = self._clock()

    def wait_for_round(self, after: int, timeout_s: float) -> int:
        """Wait until every broker was read again, at most this long. Returns the number of the last round."""
        with self._changed:
            self._changed.wait_for(lambda: self._round > after, timeout_s)
            return self._round

    def pause_s(self, took_s: float = 0.0) -> float | None:
        """From a round that took so long to the next one; None: the history ends."""
        if not self._watchers and self._clock() - self._last_watched_s >= KEPT_S:
            return None
        return max(INTERVAL_S if self._watchers else RESTING_S, took_s / LOAD_SHARE)

    def sample(self) -> float:
        """Read every broker once. Returns the seconds of the successful readings."""
        took_s = sum(history.sample() for history in self.brokers.values())
        with self._changed:
            self._round += 1
            self._changed.notify_all()
        return took_s

    def _keep(self) -> None:
        while True:
            began_s = self._clock()
            answered_s = self.sample()
            with self._changed:
                took_s = self._clock() - began_s
                pause_s = self.pause_s(answered_s)
                if pause_s is None:
                    self._is_kept = False
                    return
                watchers = self._watchers
                self._changed.wait_for(lambda: self._watchers > watchers, pause_s - took_s)  # noqa: B023 - used at once
