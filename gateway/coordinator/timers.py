"""The timers of a shard: the keys that want a tick, and their times."""

from __future__ import annotations

import heapq

from headgate.gateway.coordinator.decision import NEVER


class Timers:
    """One timer for each key. Times are monotonic milliseconds.

    A timer may fire too early, never too late: a later time does not replace an earlier one. The shard ignores an early
    tick, and sets the timer again.
    """

    __slots__ = ("_heap", "due_ms", "times")

    def __init__(self) -> None:
        self.due_ms = NEVER
        """The time of the first timer; `NEVER` if there is none."""
        self._heap: list[tuple[float, str]] = []
        self.times: dict[str, float] = {}
        """Key -> time, for each timer that is set."""

    def set(self, key: str, when_ms: float) -> None:
        """Have `take` give the key at that time, if no earlier time is set."""
        if when_ms < self.times.get(key, NEVER):
            self.times[key] = when_ms
            heapq.heappush(self._heap, (when_ms, key))
            self.due_ms = self._heap[0][0]

    def take(self, now_ms: float) -> str | None:
        """Remove the first timer that is due and return its key; None if no timer is due."""
        heap, found = self._heap, None
        while found is None and heap and heap[0][0] <= now_ms:
            when_ms, key = heapq.heappop(heap)
            if self.times.get(key) == when_ms:
                del self.times[key]
                found = key
        self.due_ms = heap[0][0] if heap else NEVER
        return found
