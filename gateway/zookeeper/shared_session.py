"""The session that all parts of a broker share, and the order of the listeners of its events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from headgate.gateway.zookeeper.session import Session, SessionEvent


class SessionTimer(Protocol):
    """A function that runs later."""

    def cancel(self) -> None:
        """Drop the function."""


class SessionScheduling(Protocol):
    """The part of `gateway.runtime.scheduler.Scheduler` that a session uses."""

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run `callback` after the present turn, in the order of the calls."""

    def call_from_thread(self, callback: Callable[[], None]) -> None:
        """Run `callback` on the loop. Any thread may call this."""

    def call_after(self, delay_ms: float, callback: Callable[[], None]) -> SessionTimer:
        """Run `callback` after `delay_ms`."""


OpenSession = Callable[[str, int, SessionScheduling, Callable[[SessionEvent], None]], Session]
"""(zookeeper.connect, session timeout in ms, scheduling, listener of events) -> a session that is not started."""


class SharedSession:
    """A session and the listeners of its events; each listener gets every event, in the order of the list."""

    def __init__(
        self, connect: str, session_timeout_ms: int, scheduling: SessionScheduling, open_session: OpenSession
    ) -> None:
        """Raises ValueError for an invalid `connect`."""
        self.connect = connect
        self.listeners: list[Callable[[SessionEvent], None]] = []
        self.when_whole: list[Callable[[], None]] = []
        """Called when the session is back, and this broker is in the same cluster as before."""
        self.session_timeout_ms = session_timeout_ms
        self.session = open_session(connect, session_timeout_ms, scheduling, self._report)

    def _report(self, event: SessionEvent) -> None:
        for listener in list(self.listeners):
            listener(event)
