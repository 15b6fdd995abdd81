"""Bounds on the events that a peer can cause: an equal event once a minute, and a number of different ones. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final, NamedTuple

INTERVAL_MS: Final = 60_000.0
EVENTS: Final = 50
"""Of one kind, principal and address in an interval."""
PEERS: Final = 2_000
"""More peers than that share one bound."""


class PeerKey(NamedTuple):
    """Events of a kind, by a principal at an address."""

    kind: str
    principal: str
    address: str


OTHERS: Final = "(others)"


class _Window:
    __slots__ = ("begun_ms", "seen", "suppressed")

    def __init__(self, begun_ms: float) -> None:
        self.begun_ms = begun_ms
        self.seen: set[Hashable] = set()
        self.suppressed = 0


class RepeatLimits:
    """Decides which events are written, and counts the others."""

    def __init__(self) -> None:
        self._windows: dict[PeerKey, _Window] = {}

    def admits(self, key: PeerKey, identity: Hashable, now_ms: float) -> bool:
        """Whether an event is written. `identity`: equal for equal events of the peer."""
        window = self._windows.get(key)
        if window is None:
            if len(self._windows) >= PEERS:
                key = PeerKey(key.kind, OTHERS, OTHERS)
            window = self._windows.setdefault(key, _Window(now_ms))
        if identity in window.seen or len(window.seen) >= EVENTS:
            window.suppressed += 1
            return False
        window.seen.add(identity)
        return True

    @property
    def is_idle(self) -> bool:
        """Whether no interval is open."""
        return not self._windows

    def ended(self, now_ms: float | None) -> Iterator[tuple[PeerKey, int]]:
        """End the intervals that are over, or all (None). Yields the numbers of suppressed events."""
        for key, window in [*self._windows.items()]:
            if now_ms is None or now_ms - window.begun_ms >= INTERVAL_MS:
                del self._windows[key]
                if window.suppressed:
                    yield key, window.suppressed
