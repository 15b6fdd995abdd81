"""The connections whose clients are not authenticated yet, and which one ends when they are too many.

A flood of half-open connections would keep known clients out, if a new connection were refused: the flood takes each
free place first. If the oldest one ended instead, a cluster of clients that reconnects at once would never finish: the
oldest is the next to be done. So the oldest of those ends that have kept this broker waiting for
`MAX_DELAY_MS` in all: their own delays count, not the queue for a thread that computes. Without such a connection, all
make progress, and the new one is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

MAX_DELAY_MS: Final = 1_000
"""A client that means to log in takes a few round trips."""
COMPARED: Final = 32
"""How many of the oldest connections are compared: a flood must not cost time for each that it has opened."""


class UnauthenticatedConnection:
    """One connection, and how long this broker has waited for its client."""

    __slots__ = ("_all", "_since_ms", "_waited_ms", "close")

    def __init__(
        self, everyone: dict[UnauthenticatedConnection, None], close: Callable[[str], None], now_ms: float
    ) -> None:
        """`everyone` has this connection until its end; `close(reason)` closes it."""
        self.close = close
        self._all = everyone
        self._since_ms: float | None = now_ms
        self._waited_ms = 0.0

    def work_begins(self, now_ms: float) -> None:
        """The client's turn is over: this broker computes, or its work is queued."""
        if self._since_ms is not None:
            self._waited_ms += now_ms - self._since_ms
            self._since_ms = None

    def work_ends(self, now_ms: float) -> None:
        """It is the client's turn."""
        if self._since_ms is None:
            self._since_ms = now_ms

    def end(self) -> None:
        """The client is known, or has gone."""
        self._all.pop(self, None)

    def is_late(self, now_ms: float) -> bool:
        """Whether this broker waits for the client, and has waited too long in all."""
        return self._since_ms is not None and self._waited_ms + now_ms - self._since_ms >= MAX_DELAY_MS


class UnauthenticatedConnections:
    """All of them, the oldest first."""

    def __init__(self) -> None:
        self._connections: dict[UnauthenticatedConnection, None] = {}

    def __len__(self) -> int:
        return len(self._connections)

    def add(self, close: Callable[[str], None], now_ms: float) -> UnauthenticatedConnection:
        """A connection is accepted."""
        connection = UnauthenticatedConnection(self._connections, close, now_ms)
        self._connections[connection] = None
        return connection

    def make_room(self, most: int, now_ms: float) -> str | None:
        """Have one end if there are `most`. Returns the reason to refuse a new one instead, or None."""
        if len(self._connections) < most:
            return None
        late = next((each for each in islice(self._connections, COMPARED) if each.is_late(now_ms)), None)
        if late is None:
            return f"{most} connections are not authenticated yet; see headgate.max.connections.unauthenticated"
        late.end()
        late.close(
            f"it kept this broker waiting for {MAX_DELAY_MS // 1000} s, and {most} connections are not authenticated;"
            " see headgate.max.connections.unauthenticated"
        )
        return None
