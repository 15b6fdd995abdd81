"""One socket of a TLS listener: the handshake, then a driver as for plain TCP, with records in place of bytes.

    DETECTING    the first byte is TLS's or Kafka's                HANDSHAKING, or PLAIN with `headgate.ssl.optional`
    HANDSHAKING  a thread does one step, or the peer has its turn  ENCRYPTED
    ENCRYPTED, PLAIN: the driver serves requests

OpenSSL may hold decrypted bytes that no poll reports. So a driver that stops to receive before the end of them marks
itself. A piece of a file is read into the engine's buffer and encrypted from there, in portions: after a send that
found no room, the same portion is read again.
"""

from __future__ import annotations

import select
import socket
from contextlib import suppress
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, cast

from headgate.gateway.network.admission.proxy_header import BEGINNINGS
from headgate.gateway.network.connection import Closing, Connection
from headgate.gateway.network.epoll import READING, WRITING
from headgate.gateway.network.protocol_detection import UNTRUSTED_PROXY
from headgate.gateway.network.socket_driver import CLOSED, LINGERING, PROBED_BYTES, Engine, SocketDriver
from headgate.gateway.network.tls.handshakes import Awaits, TlsHandshakes
from headgate.gateway.network.tls.tls_socket import TIMED_OUT, TlsError, TlsSocket, wrap
from headgate.protocol.compiler import Splice

if TYPE_CHECKING:
    from headgate.gateway.security.tls.listener_tls import ListenerTls

TLS_HANDSHAKE: Final = 22
"""The first byte of a TLS connection: the type of its first record (RFC 8446, 5.1). A Kafka request begins with 0."""


_DATA: Final = select.EPOLLIN
_FIRST_BYTE: Final = bytes((TLS_HANDSHAKE,))


class _Stage(Enum):
    DETECTING = auto()
    HANDSHAKING = auto()
    ENCRYPTED = auto()
    PLAIN = auto()


_DETECTING, _HANDSHAKING, _ENCRYPTED, _PLAIN = _Stage


class TlsDriver(SocketDriver):
    """A connection of a TLS listener."""

    __slots__ = ("_handshakes", "_is_in_thread", "_stage", "_tls")
    receives_all = False

    def __init__(
        self,
        engine: Engine,
        sock: socket.socket,
        connection: Connection,
        tls: ListenerTls,
        handshakes: TlsHandshakes,
        timeout_ms: float,
    ) -> None:
        """`timeout_ms` from now, the handshake must be done."""
        super().__init__(engine, sock, connection)
        self._tls = tls
        self._handshakes = handshakes
        self._stage = _DETECTING
        self._is_in_thread = False
        self._deadline = engine.scheduler.call_after(timeout_ms, self._time_out)

    @property
    def is_open(self) -> bool:
        """Whether the handshake is done, or none is needed."""
        return self._stage is _ENCRYPTED or self._stage is _PLAIN

    def drain(self) -> None:
        if self.is_open:
            super().drain()
        else:
            self.abort()

    def abort(self) -> None:
        if not self._is_in_thread:
            super().abort()
        elif self.phase is not CLOSED:
            self.release()  # the socket is closed once the thread has returned

    def serve(self, events: int) -> None:
        try:
            if events == _DATA and self._stage is _ENCRYPTED and self.phase is not LINGERING:  # the usual case
                self._engine.served.append(self)
                self._receive()
            elif self.phase is LINGERING:
                super().serve(events)
            elif self._stage is _ENCRYPTED:
                if not events & _DATA and self._sock.holds_more and self._may_receive():
                    events |= _DATA
                super().serve(events)
            elif self._stage is _PLAIN:
                super().serve(events)
            elif events:  # also after a reset: an alert before it has the reason
                self._begin_step()
        except TlsError as error:
            self._fail(str(error))

    def advance(self) -> None:
        if self._stage is _ENCRYPTED:
            SocketDriver.advance(self)  # `super()` makes an object each time
            if self.socket.holds_more and self._may_receive():  # type: ignore[attr-defined]
                self._engine.mark(self)
        elif self._stage is _PLAIN:
            super().advance()

    def _may_receive(self) -> bool:
        return self.is_reading and self.phase is not LINGERING

    # The handshake

    def _begin_step(self) -> None:
        if self._stage is _DETECTING and not self._detect():
            return
        self._engine.detach(self)
        if self._stage is _DETECTING:
            try:
                self.socket = wrap(self.socket, self._tls.context, server_side=True)
            except (OSError, ValueError):  # the client has gone
                self.release()
                return
            self._stage = _HANDSHAKING
        self._is_in_thread = True
        if self.connection.unauthenticated is not None:
            self.connection.unauthenticated.work_begins(self._engine.clock.monotonic_ms())
        self._handshakes.step(self._sock, self._identify, self._resume, lambda: self.phase is not CLOSED)

    def _detect(self) -> bool:
        """Whether the connection begins as TLS does."""
        try:
            first = self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        if first and first[0] != TLS_HANDSHAKE and self._tls.is_optional:
            self._open(_PLAIN)
            super().serve(select.EPOLLIN)
            return False
        if not first:
            self._fail(None)
        elif first[0] != TLS_HANDSHAKE:
            self._refuse(self._reason_of_other_beginning())
        return first[:1] == _FIRST_BYTE

    def _reason_of_other_beginning(self) -> str:
        with suppress(OSError):
            if self.socket.recv(4, socket.MSG_PEEK) in BEGINNINGS:
                return UNTRUSTED_PROXY
        setting = f"set security.protocol={self._tls.security_protocol} in the client"
        return f"the client does not begin with TLS, as this listener needs: {setting}"

    @property
    def _sock(self) -> TlsSocket:
        return cast("TlsSocket", self.socket)

    def _identify(self, sock: TlsSocket) -> str:
        return self._tls.principal_of(sock.getpeercert(binary_form=True))

    def _resume(self, outcome: str | Awaits | BaseException) -> None:
        self._is_in_thread = False
        if self.phase is CLOSED:
            self.socket.close()
            return
        if self.connection.unauthenticated is not None:
            self.connection.unauthenticated.work_ends(self._engine.clock.monotonic_ms())
        self._interest = WRITING if outcome is Awaits.ROOM else READING
        self._engine.add(self, self._interest)
        if isinstance(outcome, str):
            self.connection.client.principal = outcome
            self._handshakes.report_login(self.connection.client)
            self._open(_ENCRYPTED)
            self._engine.mark(self)
        elif isinstance(outcome, BaseException):
            if not isinstance(outcome, OSError):
                raise outcome
            if isinstance(outcome, TlsError):
                self._refuse(str(outcome))
            else:
                self._fail(None)

    def _open(self, stage: _Stage) -> None:
        self._stage = stage
        if not self.connection.needs_login:
            self.connection.authenticated()
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _time_out(self) -> None:
        self._fail(TIMED_OUT)

    def _fail(self, reason: str | None) -> None:
        """Close the connection. Without a reason, the client has gone."""
        self._deadline = None
        self.connection.close(reason)
        self.abort()

    def _refuse(self, reason: str) -> None:
        """Close the connection once the client has had time to read the alert, or the end.

        The client may have sent requests by now: a close with unread data would reset the connection, which
        clients take for a fault of the network.
        """
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self.connection.close(reason, Closing.LINGERING)
        self._close_gracefully()

    # Records

    def _send_together(self, run: list[bytes | bytearray | memoryview], size: int) -> bool:
        return super()._send_together(run, size) if self._stage is _PLAIN else self._send_bytes(b"".join(run))

    def _send_piece(self, piece: Splice) -> bool:
        if self._stage is _PLAIN:
            return super()._send_piece(piece)
        buffer, sent, size, send = self._engine.scratch, self._piece_sent, len(piece), self._sock.send
        while sent < size:
            if sent == self._piece_warm and not self._find_warm(piece, min(PROBED_BYTES, size - sent)):
                return False
            part = buffer[: min(len(buffer), self._piece_warm - sent)]
            if self._engine.read_into(piece.fileno, [part], piece.position + sent) < len(part):
                raise EOFError(f"a segment file ends {size - sent} bytes before the end of the piece to be sent")
            try:
                send(part)
            except BlockingIOError:
                return False
            sent += len(part)
            self._piece_sent = sent
        self._piece = None
        piece.release()
        return True
