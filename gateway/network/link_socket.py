"""One connection of a link over a socket of the readiness engine, from the name of the host to the end."""

from __future__ import annotations

import os
import select
import socket
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias

from headgate.gateway.network.epoll import READING, WRITING
from headgate.gateway.network.links import Link
from headgate.gateway.network.socket_driver import CLOSED, OPEN, Engine
from headgate.gateway.runtime.scheduler import Timer

CONNECT_TIMEOUT_MS: Final = 10_000.0
"""For each address of the host. Kafka's default of `socket.connection.setup.timeout.ms`."""

_Address: TypeAlias = tuple[int, Any]
_Socket: TypeAlias = socket.socket  # the class below has a property of this name


def _addresses(host: str, port: int, flags: int = 0) -> list[_Address]:
    """The addresses of a host, each with its family. Raises socket.gaierror."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, address) for family, _, _, _, address in found]


class LinkSocket:
    """Connects a link to the first address of its host that accepts, then moves its bytes."""

    __slots__ = (
        "_addresses",
        "_engine",
        "_interest",
        "_is_connected",
        "_reason",
        "_socket",
        "_timeout",
        "_unsent",
        "connection",
        "phase",
        "queued",
    )

    def __init__(self, engine: Engine, link: Link) -> None:
        self.connection = link
        self.phase = OPEN
        self.queued: int | None = None
        self._engine = engine
        self._addresses: list[_Address] = []  # not tried so far
        self._socket: socket.socket | None = None  # of the present address
        self._timeout: Timer | None = None
        self._is_connected = False
        self._interest = WRITING
        self._unsent: memoryview | None = None
        self._reason = "it has no address"

    @property
    def socket(self) -> _Socket:
        assert self._socket is not None, "the engine knows this driver by its socket"
        return self._socket

    @property
    def peer(self) -> object:
        return self.connection

    def start(self) -> None:
        """Find the addresses of the host. The resolver may wait for the network, so a thread resolves a name."""
        link = self.connection
        try:
            addresses = _addresses(link.host, link.port, socket.AI_NUMERICHOST)
        except (OSError, ValueError):  # a name, or no address at all: the thread has the reason
            self._engine.scheduler.in_thread(partial(_addresses, link.host, link.port), self._resolved)
        else:
            self._resolved(addresses)

    def _resolved(self, result: list[_Address] | BaseException) -> None:
        if self.phase is CLOSED:
            return
        if isinstance(result, BaseException):
            self._lose(f"its address cannot be resolved: {result}")
            return
        self._addresses = result
        self._connect()

    def _connect(self) -> None:
        """Begin to connect to the next address; without one, the last failure is the reason."""
        while self._addresses:
            family, address = self._addresses.pop(0)
            try:
                self._begin(self._engine.make_socket(family, socket.SOCK_STREAM), address)
            except OSError as error:
                self._reason = f"it cannot be reached: {error.strerror}"
            else:
                self._timeout = self._engine.scheduler.call_after(CONNECT_TIMEOUT_MS, self._time_out)
                return
        self._lose(self._reason)

    def _begin(self, sock: _Socket, address: Any) -> None:
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with suppress(BlockingIOError):
                sock.connect(address)
            self._socket = sock
            self._engine.add(self, WRITING)
            self._engine.brokers[self] = None
        except OSError:
            sock.close()
            raise

    def _time_out(self) -> None:
        self._fail_address(f"it did not accept a connection within {CONNECT_TIMEOUT_MS / 1000:.0f} s")

    def _fail_address(self, reason: str) -> None:
        self._reason = reason
        self._close_socket()
        self._connect()

    def _finish_connecting(self) -> None:
        sock = self.socket
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        try:
            # The system may give a port of this host without a listener to this very socket: it connects to itself.
            is_own = not code and sock.getsockname() == sock.getpeername()
        except OSError as error:
            self._fail_address(f"it cannot be reached: {error.strerror}")
            return
        if code or is_own:
            self._fail_address(
                f"it cannot be reached: {os.strerror(code) if code else 'its port is the own port of the new socket'}"
            )
            return
        self._stop_timeout()
        self._open()

    def _open(self) -> None:
        """The socket is connected: the link may send."""
        self._is_connected = True
        self._engine.served.append(self)
        self.connection.connected()

    def wake(self) -> None:
        """The link has bytes to send. After a receive of this round the engine sends them in any case."""
        if self not in self._engine.served:
            self._engine.mark(self)

    def serve(self, events: int) -> None:
        """Process poll events; 0 means that the driver was marked. `advance` sends the requests."""
        if not self._is_connected:
            if events:
                self._finish_connecting()
            return
        self._engine.served.append(self)
        if events & ~select.EPOLLOUT:
            self._receive()

    def _receive(self) -> None:
        """Receive once, a megabyte at most: other sockets come before the next one."""
        link = self.connection
        room = link.room()
        buffer = self._engine.scratch if room is None else room
        try:
            count = self.socket.recv_into(buffer)
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(error)
            return
        if not count:
            self._lose("it has closed the connection")
        elif room is None:
            link.receive(buffer[:count])
        else:
            link.received(count)

    def _fail(self, error: OSError) -> None:
        """The connection has ended with an error."""
        self._lose(f"the connection failed: {error.strerror}")

    def advance(self) -> None:
        """Send the requests, as far as the socket takes them."""
        if not self._is_connected:
            return
        link = self.connection
        try:
            while self._unsent is not None or link.outgoing:
                if self._unsent is None:
                    self._unsent = memoryview(link.take())
                self._unsent = self._unsent[self.socket.send(self._unsent) :] or None
        except BlockingIOError:
            pass
        except OSError as error:
            self._fail(error)
            return
        interest = READING if self._unsent is None else READING | WRITING
        if interest != self._interest:
            self._interest = interest
            self._engine.poller.modify(self.socket.fileno(), interest)

    def abort(self) -> None:
        """Close the connection; the link knows."""
        self.phase = CLOSED
        self._close_socket()

    def release(self) -> None:
        """The engine has closed the socket."""
        self._lose("this broker closes its connections")

    def _lose(self, reason: str) -> None:
        if self.phase is not CLOSED:
            self.abort()
            self.connection.lost(reason)

    def _close_socket(self) -> None:
        self._stop_timeout()
        if self._socket is not None:
            self._engine.forget(self)

    def _stop_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None
