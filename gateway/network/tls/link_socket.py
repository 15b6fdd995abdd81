"""One connection of a link over TLS: a socket of the engine, whose handshake runs in threads as those of clients do.

    connecting ──> handshake: a thread does one step, or the other broker has its turn ──> records in place of bytes

OpenSSL may hold decrypted bytes that no poll reports: then the socket marks itself.
"""

from __future__ import annotations

import select
import ssl
from typing import Any, cast

from headgate.gateway.network.epoll import READING, WRITING
from headgate.gateway.network.link_socket import LinkSocket
from headgate.gateway.network.links import Link
from headgate.gateway.network.socket_driver import CLOSED, Engine
from headgate.gateway.network.tls.handshakes import Awaits, TlsHandshakes
from headgate.gateway.network.tls.link_failures import HANDSHAKE_TIMEOUT_MS, TIMED_OUT, explain, report
from headgate.gateway.network.tls.tls_socket import TlsError, TlsSocket, wrap


class TlsLinkSocket(LinkSocket):
    """A link's socket that speaks TLS."""

    __slots__ = ("_context", "_handshakes", "_is_handshaking", "_is_in_thread")

    def __init__(self, engine: Engine, link: Link, context: ssl.SSLContext, handshakes: TlsHandshakes) -> None:
        super().__init__(engine, link)
        self._context = context
        self._handshakes = handshakes
        self._is_handshaking = self._is_in_thread = False

    @property
    def _tls(self) -> TlsSocket:
        return cast("TlsSocket", self.socket)

    def _open(self) -> None:
        self._engine.detach(self)
        name = self.connection.host if self._context.check_hostname else None
        sock, self._socket = self.socket, None
        try:
            self._socket = wrap(sock, self._context, server_side=False, server_hostname=name)
        except (OSError, ValueError) as error:  # ValueError: the other end has gone
            sock.close()
            self._engine.brokers.pop(self, None)
            self._lose(f"the TLS handshake failed: {error}")
            return
        self._is_handshaking = True
        self._timeout = self._engine.scheduler.call_after(HANDSHAKE_TIMEOUT_MS, self._end_handshake)
        self._step()

    def _end_handshake(self) -> None:
        self._lose(TIMED_OUT)

    def _step(self) -> None:
        """Do the next step of the handshake. The engine does not poll the socket meanwhile."""
        self._engine.detach(self)
        self._is_in_thread = True
        self._handshakes.step(self._tls, _version, self._resume, lambda: self.phase is not CLOSED, explain)

    def _resume(self, outcome: str | Awaits | BaseException) -> None:
        self._is_in_thread = False
        if self.phase is CLOSED:
            self.socket.close()
            return
        self._interest = WRITING if outcome is Awaits.ROOM else READING
        self._engine.add(self, self._interest)
        if isinstance(outcome, str):
            self._stop_timeout()
            self._is_handshaking, self._is_connected = False, True
            self.connection.connected()
        elif isinstance(outcome, OSError):
            self._fail(outcome)
        elif isinstance(outcome, BaseException):
            raise outcome

    def serve(self, events: int) -> None:
        """See `LinkSocket.serve`. During the handshake an event begins the next step."""
        if self._is_handshaking:
            if events:
                self._step()
            return
        if self._is_connected and not events & select.EPOLLIN and self._tls.holds_more:
            events |= select.EPOLLIN
        super().serve(events)

    def _receive(self) -> None:
        super()._receive()
        if self.phase is not CLOSED and self._tls.holds_more:
            self._engine.mark(self)

    def _fail(self, error: OSError) -> None:
        if isinstance(error, TlsError):
            self._lose(report(self.connection, error))
        else:
            super()._fail(error)

    def _close_socket(self) -> None:
        if self._is_in_thread:  # the socket is closed once the thread has returned
            self._stop_timeout()
            self._engine.brokers.pop(self, None)
        else:
            super()._close_socket()


def _version(sock: Any) -> str:
    return sock.version() or ""
