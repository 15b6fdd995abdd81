"""Usage over time: a rate over sampled windows, and a token bucket. Both have Kafka's arithmetic.

Times are milliseconds of any clock that never goes back; they are passed in.

Source: `Rate`, `SampledStat`, `WindowedSum` and `TokenBucket` of org.apache.kafka.common.metrics.stats, `QuotaUtils`
of org.apache.kafka.server.quota.
"""

from __future__ import annotations

import math
from typing import NamedTuple

GRAINS = 1_024
"""Pending usage is less than this part of the most that the windows allow."""
MAX_THROTTLE_MS = 0x7FFF_FFFF
"""The largest time that a response can have."""


class Windows(NamedTuple):
    """The windows of a rate: `number` of them, the present one included, each of `size_ms`."""

    number: int = 11
    size_ms: int = 1_000

    @property
    def full_s(self) -> float:
        """The seconds of all windows before the present one: a shorter time is never measured."""
        return (self.number - 1) * self.size_ms / 1_000

    @property
    def span_ms(self) -> int:
        return self.number * self.size_ms


USUAL_WINDOWS = Windows()
"""Those of Kafka's defaults."""


class _Sample:
    """The sum of one window."""

    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: float) -> None:
        self.value = 0.0
        self.start_ms = self.last_ms = now_ms

    def reset(self, now_ms: float) -> None:
        self.value = 0.0
        self.start_ms = self.last_ms = now_ms


class SampledRate:
    """The rate of what was recorded, and whether it exceeds a bound.

    Nearly every record goes into the window of the record before, and stays below what no rate can exceed: that way is
    short. Shorter still: values that are less than `grain` together wait in `pending`, and are recorded at once.
    """

    __slots__ = (
        "_bound",
        "_current",
        "_due_ms",
        "_number",
        "_samples",
        "grain",
        "most",
        "pending",
        "room",
        "total",
        "windows",
    )

    def __init__(self, windows: Windows, bound: float) -> None:
        self.windows = windows
        self._samples: list[_Sample] = []
        self._number = 0
        self._current = _Sample(0)  # stands for no sample; `_due_ms` keeps everything away from it
        self._due_ms = -math.inf
        self.total = 0.0
        """The sum of all windows; after a pause, with windows that have ended."""
        self.pending = 0.0
        """Usage that is not recorded yet."""
        self.most = self.grain = 0.0
        """The largest single value that is possible without a violation; and the part of it that may be pending, which
        is nothing while the windows are full."""
        self.room = 0.0
        """The largest value that the windows allow now without a violation, beside all that may be pending."""
        self.bound = bound

    @property
    def bound(self) -> float:
        """The highest allowed rate, per second."""
        return self._bound

    @bound.setter
    def bound(self, bound: float) -> None:
        self._bound = bound
        self.most = bound * self.windows.full_s
        self._set_grain()

    def _set_grain(self) -> None:
        self.grain = self.most / GRAINS if self.total <= self.most else 0.0
        self.room = self.most - self.total - self.grain

    def charge(self, value: float, now_ms: float) -> int:
        """Record a value with all that is pending. Returns as `record` does."""
        value += self.pending
        self.pending = 0.0
        return self.record(value, now_ms)

    def record(self, value: float, now_ms: float) -> int:
        """Record a value. Returns the time in ms until the rate is within the bound again, or 0."""
        if now_ms < self._due_ms:
            current = self._current
            current.value += value
            current.last_ms = now_ms
            self.total = total = self.total + value
            self.room -= value
            if total <= self.most:
                return 0
        else:
            self._advance(value, now_ms)
            if self.total <= self.most:
                return 0
        return self._throttle_ms(now_ms)

    def take_back(self, value: float, now_ms: float) -> None:
        """Undo the record of a value in the present window."""
        if now_ms < self._due_ms:
            self._current.value -= value
            self._current.last_ms = now_ms
            self.total -= value
            self._set_grain()
        else:
            self._advance(-value, now_ms)

    def rate(self, now_ms: float) -> float:
        """The present rate, per second."""
        self._refresh(now_ms)
        return _divided(self.total, self._window_ms(now_ms) / 1_000)

    def is_idle(self, now_ms: float) -> bool:
        """Whether all recorded usage is too old to count: a new rate would be equal."""
        return all(now_ms - sample.last_ms >= self.windows.span_ms for sample in self._samples)

    def _throttle_ms(self, now_ms: float) -> int:
        self.grain = 0.0
        window_ms = self._window_ms(now_ms)
        rate = _divided(self.total, window_ms / 1_000)
        if rate <= self._bound:
            return 0
        return _rounded(_divided(rate - self._bound, self._bound) * window_ms)

    def _advance(self, value: float, now_ms: float) -> None:
        """Record a value when a window has ended, or samples have become too old."""
        size_ms = self.windows.size_ms
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        sample = self._samples[self._number]
        if now_ms - sample.start_ms >= size_ms:
            self._number = (self._number + 1) % (self.windows.number + 1)
            if self._number == len(self._samples):
                self._samples.append(_Sample(now_ms))
            sample = self._samples[self._number]
            sample.reset(now_ms)
        sample.value += value
        sample.last_ms = now_ms
        self._current = sample
        self._refresh(now_ms)

    def _refresh(self, now_ms: float) -> None:
        """Empty the samples that are too old, and sum up the others."""
        span_ms = self.windows.span_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= span_ms:
                sample.reset(now_ms)
        self.total = sum([sample.value for sample in self._samples])
        self._set_grain()
        if self._samples:
            self._current = self._samples[self._number]
            oldest_ms = min(sample.last_ms for sample in self._samples)
            self._due_ms = min(self._current.start_ms + self.windows.size_ms, oldest_ms + span_ms)

    def _window_ms(self, now_ms: float) -> float:
        """The time that the rate is measured over: at least all windows before the present one, and never nothing."""
        number, size_ms = self.windows
        elapsed_ms = now_ms - min([sample.start_ms for sample in self._samples], default=now_ms)
        missing = number - 1 - int(elapsed_ms / size_ms)
        return max(elapsed_ms + max(0, missing) * size_ms, 1)


class TokenBucket:
    """Tokens that come back at a rate, up to those of all windows. A debt is paid before there are any again."""

    __slots__ = ("_last_ms", "_tokens", "_windows", "bound")

    def __init__(self, windows: Windows, bound: float, now_ms: float) -> None:
        """`bound`: the tokens that come back in a second."""
        self._windows = windows
        self.bound = bound
        self._tokens = self.burst
        self._last_ms = now_ms

    @property
    def burst(self) -> float:
        """The most tokens that there can be."""
        return self._windows.number * (self._windows.size_ms / 1_000) * self.bound

    def tokens(self, now_ms: float) -> float:
        """The present tokens; a negative number is a debt."""
        self._tokens = min(self.burst, self._tokens + self.bound * (now_ms - self._last_ms) / 1_000)
        self._last_ms = now_ms
        return self._tokens

    def take(self, count: float, now_ms: float) -> None:
        """Take tokens, if need be on credit."""
        self._tokens = min(self.burst, self.tokens(now_ms) - count)

    def throttle_ms(self, now_ms: float) -> int:
        """The time in ms until a debt is paid; 0 without a debt."""
        tokens = self.tokens(now_ms)
        return _rounded(_divided(-tokens, self.bound) * 1_000) if tokens < 0 else 0

    def is_idle(self, now_ms: float) -> bool:
        """Whether the bucket is full, as a new one is."""
        return self.tokens(now_ms) >= self.burst


def _divided(dividend: float, divisor: float) -> float:
    """The quotient as of Java's doubles."""
    if divisor:
        return dividend / divisor
    return math.nan if not dividend else math.copysign(math.inf, dividend)


def _rounded(value: float) -> int:
    """A time in whole milliseconds, as Java's `Math.round` does, within what a response can have."""
    return 0 if math.isnan(value) else math.floor(min(max(value, 0), MAX_THROTTLE_MS) + 0.5)
