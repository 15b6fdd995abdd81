"""Counters and gauges: what a broker can say of itself in numbers.

A counter is incremented where something happens, which costs one addition; a gauge is a function that is asked when
someone looks. Names are words with dots, as in `requests.produce`.
"""

from __future__ import annotations

from collections.abc import Callable


class Counter:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def add(self, amount: int = 1) -> None:
        """Count `amount` more."""
        self.value += amount


class Metrics:
    """The metrics of one broker, by name."""

    def __init__(self) -> None:
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Callable[[], float]] = {}

    def counter(self, name: str) -> Counter:
        """The counter of that name; made when it is first asked for, so keep it where it is used often."""
        self._refuse_other_kind(name, self._gauges)
        return self._counters.setdefault(name, Counter())

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Have `read` called whenever someone looks. A second gauge of the same name replaces the first."""
        self._refuse_other_kind(name, self._counters)
        self._gauges[name] = read

    def snapshot(self) -> dict[str, float]:
        """All values now, by name in alphabetical order."""
        values: dict[str, float] = {name: counter.value for name, counter in self._counters.items()}
        values.update((name, read()) for name, read in self._gauges.items())
        return dict(sorted(values.items()))

    @staticmethod
    def _refuse_other_kind(name: str, others: dict[str, Counter] | dict[str, Callable[[], float]]) -> None:
        if name in others:
            raise ValueError(f"the metric {name} exists already, as one of the other kind")
