"""Links: connections that this broker opens to other brokers, sans-IO.

    link = links.open(2, "broker-2", 9092, client_id="broker-1-fetcher")
    try:
        response = yield link.ask(FetchRequest(...))
    except LinkLost as error: ...

- A link connects at its first request. ApiVersions goes first, and its answer decides the versions. Then comes the
  login, if the listener between brokers asks for one. A session with an end is renewed before; requests wait meanwhile.
- Any number of requests may be in flight. The broker answers in order.
- Each request has one deadline, which includes the connection. A request without an answer at its deadline ends the
  connection, as later answers come behind the missing one. A silent peer, whose host may be off, ends there too.
- With a connection all its requests are lost, those that wait to be sent too: LinkLost. The link repeats nothing, as
  only the asker knows if a request may be repeated. The next request connects again, after a backoff.
- Answers reach their askers after the present turn, and own their bytes: the rest of a large answer is received where
  it stays. The other sockets of the process have their turn between two megabytes of it.

A transport moves the bytes: `link_socket.py` through the readiness engine, `link_stream.py` over any trio stream.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from headgate.gateway.runtime.backoff import Backoff
from headgate.gateway.runtime.broker_links import LinkLost
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.log_output import LimitedLog
from headgate.gateway.runtime.scheduler import Scheduler, Timer
from headgate.gateway.runtime.tasks import Ask
from headgate.protocol.client.connection import MAX_RESPONSE_SIZE, ClientConnection, Exchange
from headgate.protocol.errors import ErrorCode, MalformedRequest
from headgate.protocol.schema import Message

if TYPE_CHECKING:  # a broker without logins between brokers imports none of it
    from headgate.gateway.network.link_logins import LinkLogin, MakeLogin
    from headgate.protocol.security.sasl.login import LoginSession

logger = logging.getLogger("headgate.links")

REQUEST_TIMEOUT_MS: Final = 30_000.0
"""Kafka's default of `replica.socket.timeout.ms`, `controller.socket.timeout.ms` and `request.timeout.ms`."""
RECONNECT_BACKOFF_MS: Final = 50.0
RECONNECT_BACKOFF_MAX_MS: Final = 1_000.0
REFUSED_BACKOFF_MS: Final = 5_000.0
"""After a refusal by settings, as of a certificate or a password: people have to change something first."""
REFUSAL_EVERY_MS: Final = 60_000.0
"""The log has one line in this time for all links to one address."""
SLICE_BYTES: Final = 1 << 20
SOFTWARE_NAME: Final = "headgate"


class Transport(Protocol):
    """Moves the bytes of one connection of a link, until `Link.lost` or `abort`."""

    def start(self) -> None:
        """Begin to connect."""

    def wake(self) -> None:
        """`Link.outgoing` has bytes."""

    def abort(self) -> None:
        """Close the connection. This is the last call in either direction."""


class _Asked(NamedTuple):
    """A request that has no answer so far. Without a message, the asker waits for the connection alone."""

    message: Message | None
    version: int | None
    deadline_ms: float
    resume: Callable[[Any], None]


class Link:
    """The requests of this broker to one other broker, over one connection at a time. `Links.open` makes it."""

    has_more = False  # as `Connection.has_more`: no request of this broker waits for the reply to another one

    def __init__(
        self,
        node_id: int,
        host: str,
        port: int,
        client_id: str,
        max_response_bytes: int,
        timeout_ms: float,
        clock: Clock,
        scheduler: Scheduler,
        make_transport: Callable[[Link], Transport],
        log: LimitedLog,
        make_login: MakeLogin | None,
    ) -> None:
        self.node_id, self.host, self.port = node_id, host, port
        self.outgoing: list[bytes] = []
        """Frames that the transport has to send."""
        self.is_closed = False
        self._client_id = client_id
        self._max_response_bytes = max_response_bytes
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._scheduler = scheduler
        self._make_transport = make_transport
        self._log = log
        self._make_login = make_login
        self._transport: Transport | None = None
        self._peer = self._new_peer()
        self._negotiation: Exchange[int] | None = None
        self._login: LinkLogin | None = None
        self._own: Message | None = None  # the request of the negotiation, or of the login, without an answer so far
        self._is_ready = False  # the versions are known, and this broker has logged in
        self._unsent: deque[_Asked] = deque()
        self._sent: deque[_Asked] = deque()
        self._backoff = Backoff(RECONNECT_BACKOFF_MS, RECONNECT_BACKOFF_MAX_MS)
        self._connecting: Timer | None = None  # the end of the backoff
        self._deadline: Timer | None = None
        self._renewal: Timer | None = None

    def __str__(self) -> str:
        return f"broker {self.node_id} at {self.host}:{self.port}"

    def ask(self, request: Message, version: int | None = None, timeout_ms: float | None = None) -> Ask:
        """The answer to a request, in the latest version that both brokers have, unless `version` names another.

        Raises LinkLost, and KafkaError(UNSUPPORTED_VERSION) if there is no such version.
        """
        return partial(self._begin, request, version, self._timeout_ms if timeout_ms is None else timeout_ms)

    def versions(self) -> Ask:
        """The versions that the broker serves, by API key; the link connects first. Raises LinkLost."""
        return partial(self._begin, None, None, self._timeout_ms)

    def close(self) -> None:
        """End the connection. Requests without an answer, and all later ones, are lost."""
        self.is_closed = True
        self._end("this broker has closed the link")

    def _begin(
        self, message: Message | None, version: int | None, timeout_ms: float, resume: Callable[[Any], None]
    ) -> None:
        if self.is_closed:
            self._resume(resume, LinkLost(f"{self}: this broker has closed the link"))
            return
        asked = _Asked(message, version, self._clock.monotonic_ms() + timeout_ms, resume)
        self._unsent.append(asked)
        self._watch_deadline(asked.deadline_ms)
        if self._is_ready:
            self._send_asked()
        elif self._transport is None and self._connecting is None:
            self._connecting = self._scheduler.call_at(self._backoff.due_ms, self._connect)

    def _resume(self, resume: Callable[[Any], None], answer: object) -> None:
        self._scheduler.call_soon(partial(resume, answer))

    def _new_peer(self) -> ClientConnection:
        return ClientConnection(self._client_id, self._max_response_bytes)

    def _connect(self) -> None:
        self._connecting = None
        if self._unsent:
            self._peer = self._new_peer()
            self._transport = self._make_transport(self)
            self._transport.start()

    def _send_asked(self) -> None:
        while self._unsent:
            asked = self._unsent.popleft()
            if asked.message is None:
                self._resume(asked.resume, self._peer.served_versions)
                continue
            try:
                frame = self._peer.request(asked.message, asked.version)
            except Exception as error:  # noqa: BLE001  the asker decides what a failure means
                self._resume(asked.resume, error)
                continue
            self._sent.append(asked)
            self._write(frame)

    def _write(self, frame: bytes) -> None:
        assert self._transport is not None
        self.outgoing.append(frame)
        if len(self.outgoing) == 1:
            self._transport.wake()

    # For the transport

    def connected(self) -> None:
        """The connection is made."""
        self._negotiation = self._peer.negotiate(SOFTWARE_NAME)
        self._negotiate(None)

    def take(self) -> bytes:
        """All bytes to send."""
        frames = self.outgoing
        self.outgoing = []
        return frames[0] if len(frames) == 1 else b"".join(frames)

    def room(self) -> memoryview | None:
        """The buffer for the next bytes of the incomplete answer, at most a megabyte; None between answers."""
        return self._peer.get_buffer()[:SLICE_BYTES] if self._peer.incomplete_size else None

    def receive(self, data: bytes | bytearray | memoryview) -> None:
        """Take received bytes. They are copied: the caller may use their buffer again."""
        self._take(partial(self._peer.receive, bytes(data)))

    def received(self, count: int) -> None:
        """Take `count` bytes that the transport has received into `room()`."""
        self._take(partial(self._peer.buffer_updated, count))

    def refused(self, reason: str) -> None:
        """Settings of the two brokers do not allow a connection: log that. `lost` follows, and a longer backoff."""
        self._log.error(f"{self.host}:{self.port}", "this broker cannot connect to %s: %s", self, reason)
        self._backoff.wait_at_least(self._clock.monotonic_ms(), REFUSED_BACKOFF_MS)

    def lost(self, reason: str) -> None:
        """The connection has ended, or could not be made."""
        self._transport = self._negotiation = self._own = None
        self._is_ready = False
        if self._login is not None:
            self._login.end()
            self._login = None
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None
        self.outgoing.clear()
        self._backoff.postpone(self._clock.monotonic_ms())
        asked = [*self._sent, *self._unsent]
        self._sent.clear()
        self._unsent.clear()
        for each in asked:
            self._resume(each.resume, LinkLost(f"{self}: {reason}"))

    def _take(self, receive: Callable[[], list[tuple[Message, Any]]]) -> None:
        try:
            for request, answer in receive():
                if request is self._own:
                    self._take_own(answer)
                elif self._sent:
                    self._resume(self._sent.popleft().resume, answer)
        except MalformedRequest as error:
            self._end(f"it does not answer as a Kafka broker does: {error}")

    def _take_own(self, answer: Any) -> None:
        self._own = None
        if self._login is not None:
            self._login.advance(answer)
        else:
            self._negotiate(answer)

    def _negotiate(self, answer: Any) -> None:
        """Send the next request of the negotiation. After the last one comes the login."""
        assert self._negotiation is not None
        try:
            request, version = self._negotiation.send(answer)
        except StopIteration as end:
            self._negotiation = None
            if end.value != ErrorCode.NONE:
                self._end(f"it refuses ApiVersions: {ErrorCode(end.value).name}")
            elif self._make_login is None:
                self._begin_to_send()
            else:
                self._log_in(self._make_login)
        else:
            self._send_own(request, version)

    def _send_own(self, request: Message, version: int | None) -> None:
        self._own = request
        self._write(self._peer.request(request, version))

    def _log_in(self, make_login: MakeLogin) -> None:
        """Log in, or renew the session. Requests wait: a broker takes none between those of a login."""
        from headgate.gateway.network.link_logins import LinkLogin

        self._is_ready, self._renewal = False, None
        exchange = make_login(self._peer, self.host)
        self._login = LinkLogin(exchange, self._scheduler, self._send_own, self._logged_in)
        self._login.advance(None)

    def _logged_in(self, result: LoginSession | str) -> None:
        self._login = None
        if isinstance(result, str):
            self.refused(result)
            self._end(result)
            return
        if result.renew_after_ms is not None and self._make_login is not None:
            self._renewal = self._scheduler.call_after(result.renew_after_ms, partial(self._log_in, self._make_login))
        self._begin_to_send()

    def _begin_to_send(self) -> None:
        self._is_ready = True
        self._backoff.reset()
        self._send_asked()

    def _end(self, reason: str) -> None:
        """End the connection, and its requests."""
        for timer in filter(None, (self._connecting, self._deadline)):
            timer.cancel()
        self._connecting = self._deadline = None
        if self._transport is not None:
            self._transport.abort()
        self.lost(reason)

    # Deadlines

    def _watch_deadline(self, deadline_ms: float) -> None:
        """Wake up at this deadline. The timer stays when its request is answered: most deadlines never come."""
        if self._deadline is not None and self._deadline.when_ms <= deadline_ms:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._scheduler.call_at(deadline_ms, self._check_deadlines)

    def _check_deadlines(self) -> None:
        self._deadline = None
        first = min((*self._sent, *self._unsent), key=lambda asked: asked.deadline_ms, default=None)
        if first is None:
            return
        if first.deadline_ms > self._clock.monotonic_ms():
            self._watch_deadline(first.deadline_ms)
            return
        name = "connection" if first.message is None else type(first.message).__name__
        self._end(f"its answer to {name} did not come in time")


class Links:
    """The links of this broker to others."""

    def __init__(
        self,
        clock: Clock,
        scheduler: Scheduler,
        make_transport: Callable[[Link], Transport],
        make_login: MakeLogin | None = None,
    ) -> None:
        """`make_login`: for links whose listener asks for a login."""
        self._make_login = make_login
        self._clock = clock
        self._scheduler = scheduler
        self._make_transport = make_transport
        self._log = LimitedLog(logger, clock, lines=1, interval_ms=REFUSAL_EVERY_MS)
        self._opened: list[Link] = []

    def open(
        self,
        node_id: int,
        host: str,
        port: int,
        client_id: str,
        max_response_bytes: int = MAX_RESPONSE_SIZE,
        *,
        timeout_ms: float = REQUEST_TIMEOUT_MS,
    ) -> Link:
        """A link to a broker. An answer above `max_response_bytes`, or after `timeout_ms`, ends its connection."""
        link = Link(
            node_id,
            host,
            port,
            client_id,
            max_response_bytes,
            timeout_ms,
            self._clock,
            self._scheduler,
            self._make_transport,
            self._log,
            self._make_login,
        )
        self._opened = [opened for opened in self._opened if not opened.is_closed]
        self._opened.append(link)
        return link

    def close(self) -> None:
        """Close all links."""
        for link in self._opened:
            link.close()
