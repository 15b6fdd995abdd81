"""After a stall of the loop: does this broker's session with ZooKeeper live on?

An answer of ZooKeeper shows that it does. If it has ended, the client learns so when it connects, and the broker gives
up its leads (`session_life.py`) before the check ends.
"""

from __future__ import annotations

from collections.abc import Callable

from headgate.gateway.zookeeper.session import KeeperError, SessionEvent
from headgate.gateway.zookeeper.shared_session import SharedSession


class SessionCheck:
    """Checks the session, again after each interruption. Its place among the listeners is behind the session's life."""

    def __init__(self, shared: SharedSession) -> None:
        self._shared = shared
        self._waiting: list[Callable[[], None]] = []
        shared.listeners.append(self._follow_session)

    def begin(self, resume: Callable[[], None]) -> None:
        """Call `resume` once ZooKeeper has answered, or has ended the session."""
        self._waiting.append(resume)
        self._ask()

    def _ask(self) -> None:
        if self._shared.session.is_connected:
            self._shared.session.sync("/", self._answered)

    def _answered(self, answer: KeeperError | None) -> None:
        if answer is None:  # otherwise an event follows
            self._end()

    def _follow_session(self, event: SessionEvent) -> None:
        """A session that is connected again has not ended."""
        if event in {SessionEvent.EXPIRED, SessionEvent.CONNECTED, SessionEvent.RECONNECTED}:
            self._end()

    def _end(self) -> None:
        waiting, self._waiting = self._waiting, []
        for resume in waiting:
            resume()
