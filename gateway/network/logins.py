"""Logins: what stands between a connection and the dispatcher until the client is known, and at its renewals (SASL).

`gateway.security.sasl.server_exchange` decides; here its events move bytes. After a login without an end, the
connection has the broker's dispatcher, so that a request costs no more than on a listener without logins.
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from headgate.gateway.api.context import Client, HandlerContext, Services
from headgate.gateway.api.dispatch import Dispatcher, Done, Parked, Piece, Reply
from headgate.gateway.api.handlers.api_versions import api_versions, unsupported_version
from headgate.gateway.audit.audit_log import AuditLog
from headgate.gateway.network.connection import Closing, Connection
from headgate.gateway.runtime.scheduler import Timer
from headgate.gateway.runtime.tasks import Task, sleep
from headgate.gateway.runtime.workers import BoundedExecutor
from headgate.gateway.security.sasl.server_exchange import (
    Close,
    LoggedIn,
    RunComputation,
    SaslEvent,
    SaslListener,
    SaslServerExchange,
    SendReply,
)
from headgate.protocol.messages.api_versions import ApiVersionsRequest
from headgate.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from headgate.protocol.messages.sasl_handshake import SaslHandshakeRequest
from headgate.protocol.schema import Message

logger = logging.getLogger("headgate.sasl")

MAX_THREADS: Final = 2
"""Each computes: more threads would take the loop's share of the cores."""
READING_MS: Final = 50
"""A refused client has so long to read the answer: kafka-python drops one that comes with the end of the connection."""
_HEAD: Final = struct.Struct(">hh")
_COUNTED: Final = {
    request.api_key: request.versions.last
    for request in (ApiVersionsRequest, SaslHandshakeRequest, SaslAuthenticateRequest)
}
"""The requests of a login, each with its latest version."""
TIMED_OUT: Final = "the client did not log in within headgate.authentication.timeout.ms"


class Logins:
    """The logins of all listeners. `listeners`: the present SASL settings by name; the owner may replace values."""

    def __init__(
        self, services: Services, listeners: Mapping[str, SaslListener], timeout_ms: Callable[[], float]
    ) -> None:
        self.services = services
        self.listeners = listeners
        self.threads = BoundedExecutor(services.scheduler, MAX_THREADS)
        self._timeout_ms = timeout_ms

    def begin(self, connection: Connection, dispatcher: Dispatcher) -> None:
        """Have the client of a new connection log in, if its listener asks for that."""
        listener = self.listeners.get(connection.client.listener)
        if listener is not None:
            timer = self.services.scheduler.call_after(self._timeout_ms(), partial(self._time_out, connection))
            connection.login = Login(self, connection, dispatcher, listener, timer)

    def _time_out(self, connection: Connection) -> None:
        if self.services.audit is not None:
            self.services.audit.report_failed_login(connection.client, TIMED_OUT)
        connection.close(TIMED_OUT)
        connection.wake()


class Login:
    """The dispatcher of a connection whose client has to log in, or whose session ends at a time."""

    __slots__ = ("_connection", "_dispatcher", "_end", "_exchange", "_logins", "_max_frame_bytes", "_timer")

    def __init__(
        self, logins: Logins, connection: Connection, dispatcher: Dispatcher, listener: SaslListener, timer: Timer
    ) -> None:
        self._logins = logins
        self._connection = connection
        self._dispatcher = dispatcher
        self._timer: Timer | None = timer
        self._max_frame_bytes = connection.max_frame_bytes
        self._exchange = SaslServerExchange(listener, self._answer_api_versions, logins.services.clock)
        self._end: Close | None = None
        connection.use(self, self._exchange.max_frame_bytes or self._max_frame_bytes)

    def dispatch(self, frame: memoryview, client: Client, resume: Done) -> Reply | Parked:
        """As `Dispatcher.dispatch`."""
        if not self._exchange.takes(frame):
            return self._dispatcher.dispatch(frame, client, resume)
        self._count(frame, client)
        events = self._exchange.receive(frame)
        if self._exchange.is_delayed:
            return self._park(events, resume)
        return self._taken(events)

    def _count(self, frame: memoryview, client: Client) -> None:
        """Count a request of the login. A raw token is none."""
        if len(frame) >= _HEAD.size:
            api_key, version = _HEAD.unpack_from(frame)
            if _COUNTED.get(api_key, -1) >= version >= 0:
                self._dispatcher.request_counts.count(client, api_key, version)

    @property
    def _audit(self) -> AuditLog | None:
        return self._logins.services.audit

    def _answer_api_versions(self, request: ApiVersionsRequest | None, version: int) -> Message:
        services, client = self._logins.services, self._connection.client
        if request is None:
            return unsupported_version(services.served_versions)
        return api_versions(request, HandlerContext(services, client, version, None))

    def _taken(self, events: Iterable[SaslEvent]) -> list[Piece]:
        reply: list[Piece] = []
        for event in events:
            if isinstance(event, SendReply):
                reply.append(event.data)
            elif isinstance(event, LoggedIn):
                self._admit(event)
        return reply

    def _admit(self, login: LoggedIn) -> None:
        """The client is known: other requests are served from now on."""
        client = self._connection.client
        client.principal, client.is_by_delegation_token = login.principal, login.is_by_delegation_token
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._connection.authenticated()
        if not login.is_renewal:
            logger.debug("%s logged in as %s by %s", client, login.principal, login.mechanism)
        if self._audit is not None:
            self._audit.report_login(client, login.mechanism, is_renewal=login.is_renewal)
        has_end = login.session_expires_ms is not None
        self._connection.use(self if has_end else self._dispatcher, self._max_frame_bytes)

    def _park(self, events: Iterable[SaslEvent], resume: Done) -> Parked:
        """Answer later: a thread computes, or a refused login waits."""
        unauthenticated, clock = self._connection.unauthenticated, self._logins.services.clock
        if unauthenticated is not None:
            unauthenticated.work_begins(clock.monotonic_ms())

        def finish(result: Reply | Exception) -> None:
            if unauthenticated is not None:
                unauthenticated.work_ends(clock.monotonic_ms())
            if self._end is None:
                resume(result)
                return
            # Now: the client may leave before the close
            self._connection.report(self._end.reason)
            self._connection.mute(self._logins.services.scheduler, 2 * READING_MS)
            resume(result)
            self._close(READING_MS if result else 0)

        return Parked(self._logins.services.tasks.start_later(self._steps(events), finish).cancel)

    def _close(self, delay_ms: int) -> None:
        def close() -> None:
            self._connection.close(None, Closing.LINGERING)
            self._connection.wake()

        if delay_ms:
            self._logins.services.scheduler.call_after(delay_ms, close)
        else:
            close()

    def _steps(self, events: Iterable[SaslEvent]) -> Task[Reply]:
        reply, waiting = list[Piece](), deque(events)
        while waiting:
            event = waiting.popleft()
            if isinstance(event, RunComputation):
                result: object
                try:
                    result = yield partial(self._logins.threads.in_thread, event.run, is_wanted=self._is_wanted)
                except Exception as error:  # noqa: BLE001  the exchange decides what a failure means
                    result = error
                waiting.extend(self._exchange.resume(result))
            elif isinstance(event, Close):
                if event.delay_ms:
                    yield sleep(self._logins.services.scheduler, event.delay_ms)
                self._end = event
                if self._audit is not None:
                    self._audit.report_failed_login(self._connection.client, event.reason, event.user)
                reply += [event.last_reply] if event.last_reply else []
            else:
                reply += self._taken([event])
        return reply

    def _is_wanted(self) -> bool:
        return not self._connection.closing
