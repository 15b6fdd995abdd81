"""Exponential backoff: the wait doubles after each failure, up to a maximum."""

from __future__ import annotations


class Backoff:
    """The waits between the attempts of one work. Times in milliseconds."""

    __slots__ = ("_first_ms", "_max_ms", "_next_ms", "due_ms")

    def __init__(self, first_ms: float, max_ms: float) -> None:
        self._first_ms = self._next_ms = first_ms
        self._max_ms = max_ms
        self.due_ms = 0.0
        """The earliest time of the next attempt, by the clock of `postpone`; 0 without a failure."""

    def next_wait_ms(self) -> float:
        """The wait after one more failure."""
        wait_ms = self._next_ms
        self._next_ms = min(2 * wait_ms, self._max_ms)
        return wait_ms

    def postpone(self, now_ms: float) -> float:
        """Move the next attempt behind the wait after one more failure. Returns the wait."""
        wait_ms = self.next_wait_ms()
        self.due_ms = max(self.due_ms, now_ms + wait_ms)
        return wait_ms

    def wait_at_least(self, now_ms: float, wait_ms: float) -> None:
        """Attempt nothing before this wait is over: the failure will not end by itself."""
        self.due_ms = max(self.due_ms, now_ms + wait_ms)

    def reset(self) -> None:
        """Forget all failures."""
        self._next_ms, self.due_ms = self._first_ms, 0.0
