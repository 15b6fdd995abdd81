"""Visitors: the session of a browser, its login, and its connections to the cluster.

A session is a random id in a cookie. It has a few blocking `Cluster`s; each answers one question at a time, in a
thread. Sessions end after `IDLE_S` without a request; the longest idle one makes room for a new one.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import trio

from headgate.protocol.security.client_security import ClientSecurity
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.cluster_access import ClusterAccess, VisitorLogin

MOST_VISITORS: Final = 64
MOST_QUESTIONS: Final = 4
"""Of one visitor at a time; others wait."""
MOST_STREAMS: Final = 8
"""Of one visitor at a time; another one is refused."""
MOST_THREADS: Final = 32
IDLE_S: Final = 1_800.0
_SWEEP_S: Final = 60.0

T = TypeVar("T")


class NotLoggedIn(Exception):
    """The visitor has to log in first."""


class TooManyStreams(Exception):
    """The visitor has as many streams as are allowed."""


class VisitorStream:
    """A cluster that answers one question after another."""

    def __init__(self, cluster: Cluster, threads: trio.CapacityLimiter) -> None:
        self._cluster = cluster
        self._threads = threads

    async def ask(self, question: Callable[[Cluster], T]) -> T:
        """Answer a question in a thread. A question that is cancelled goes on, and closes the cluster."""
        is_abandoned = False

        def answer() -> T:
            try:
                return question(self._cluster)
            finally:
                if is_abandoned:
                    self._cluster.close()

        try:
            return await trio.to_thread.run_sync(answer, limiter=self._threads, abandon_on_cancel=True)
        except trio.Cancelled:
            is_abandoned = True
            raise


class Visitor:
    """One browser's session."""

    def __init__(self, access: ClusterAccess, threads: trio.CapacityLimiter) -> None:
        self.session_id = secrets.token_urlsafe(32)
        self.csrf_token = secrets.token_urlsafe(32)
        self.login: VisitorLogin | None = None
        self.last_seen_s = trio.current_time()
        self._access = access
        self._threads = threads
        self._questions = trio.CapacityLimiter(MOST_QUESTIONS)
        self._idle: list[Cluster] = []
        self._streams = 0
        self._epoch = 0

    @property
    def security(self) -> ClientSecurity | None:
        """None: the visitor has to log in."""
        return self._access.lent if self.login is None else self.login.security

    async def ask(self, question: Callable[[Cluster], T]) -> T:
        """Answer a question in a thread. Raises NotLoggedIn, and what the question raises."""
        async with self._questions:
            with self._cluster() as cluster:
                return await VisitorStream(cluster, self._threads).ask(question)

    @contextmanager
    def stream(self) -> Iterator[VisitorStream]:
        """A cluster for several questions in a row. Raises NotLoggedIn, TooManyStreams."""
        if self._streams >= MOST_STREAMS:
            raise TooManyStreams
        self._streams += 1
        try:
            with self._cluster() as cluster:
                yield VisitorStream(cluster, self._threads)
        finally:
            self._streams -= 1

    async def log_in(self, mechanism: str, user: str, password: str) -> None:
        """Raises ClientError."""
        login = await trio.to_thread.run_sync(
            self._access.log_in, mechanism, user, password, limiter=self._threads, abandon_on_cancel=True
        )
        self.close()
        self.login = login

    def close(self) -> None:
        """End the login and its connections; those that answer a question end after it."""
        self.login = None
        self._epoch += 1
        while self._idle:
            self._idle.pop().close()

    @contextmanager
    def _cluster(self) -> Iterator[Cluster]:
        security, epoch = self.security, self._epoch
        if security is None:
            raise NotLoggedIn
        cluster = self._idle.pop() if self._idle else self._access.cluster(security)
        cluster.drop_ended()  # or else the first question after a pause would fail
        is_free = True
        try:
            yield cluster
        except trio.Cancelled:
            is_free = False  # a thread may use it still
            raise
        finally:
            if is_free and epoch == self._epoch and len(self._idle) < MOST_QUESTIONS:
                self._idle.append(cluster)
            elif is_free:
                cluster.close()


class Visitors:
    """All sessions."""

    def __init__(self, access: ClusterAccess) -> None:
        self.access = access
        self._threads = trio.CapacityLimiter(MOST_THREADS)
        self._visitors: dict[str, Visitor] = {}

    def find(self, session_id: str | None) -> Visitor | None:
        """The visitor of a cookie."""
        visitor = None
        for known in self._visitors.values():  # all of them: the time must not depend on the id
            if session_id is not None and secrets.compare_digest(known.session_id.encode(), session_id.encode()):
                visitor = known
        if visitor is not None:
            visitor.last_seen_s = trio.current_time()
        return visitor

    def begin(self) -> Visitor:
        """A new session; if there are too many, the longest idle one ends, first of those without a login."""
        if len(self._visitors) >= MOST_VISITORS:
            self.end(min(self._visitors.values(), key=lambda each: (each.login is not None, each.last_seen_s)))
        visitor = Visitor(self.access, self._threads)
        self._visitors[visitor.session_id] = visitor
        return visitor

    def end(self, visitor: Visitor) -> None:
        visitor.close()
        self._visitors.pop(visitor.session_id, None)

    def end_idle(self) -> None:
        """End the sessions without a request for `IDLE_S`."""
        before_s = trio.current_time() - IDLE_S
        for visitor in [each for each in self._visitors.values() if each.last_seen_s < before_s]:
            self.end(visitor)

    async def sweep(self) -> None:
        """End idle sessions until cancelled."""
        while True:
            await trio.sleep(_SWEEP_S)
            self.end_idle()
