"""Connections of trusted proxies (`headgate.proxy.trusted`) until the PROXY header has named the client."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from ipaddress import ip_address
from typing import Final

from headgate.gateway.api.context import Client
from headgate.gateway.config.addresses import IpNetwork
from headgate.gateway.network.admission.proxy_header import MalformedProxyHeader, ProxiedConnection, ProxyHeaderReader
from headgate.gateway.network.socket_driver import CLOSED, OPEN, Engine, Phase
from headgate.gateway.runtime.scheduler import Timer

TIMED_OUT: Final = "its PROXY header took longer than headgate.authentication.timeout.ms"
CUT: Final = "the proxy disconnected in the middle of its PROXY header"


def is_trusted(address: str, networks: Sequence[IpNetwork]) -> bool:
    """Whether an address lies in one of the networks."""
    try:
        parsed = ip_address(address)
    except ValueError:  # a stream in memory
        return False
    return any(parsed in network for network in networks)


def client_behind(proxy: Client, connection: ProxiedConnection | None) -> Client:
    """The client that a header names. Without one the proxy itself is the client, as with its checks of health."""
    return proxy if connection is None else replace(proxy, **connection._asdict())


class _NoReplies:
    has_more = False


class ProxySocket:
    """One socket of an engine whose first bytes are a PROXY header."""

    __slots__ = ("_engine", "_gone", "_reader", "_report", "_resume", "_timer", "client", "phase", "queued", "socket")
    connection = _NoReplies()

    def __init__(
        self,
        engine: Engine,
        sock: socket.socket,
        client: Client,
        timeout_ms: float,
        resume: Callable[[socket.socket, Client], None],
        gone: Callable[[], None],
        report: Callable[[Client, str], None],
    ) -> None:
        """`resume(socket, client)` takes the socket over once its client is known; `gone()`: the socket is closed.

        `report(client, reason)` reports the peer's fault.
        """
        self.socket = sock
        self.client = client
        self.phase: Phase = OPEN
        self.queued: int | None = None
        self._engine = engine
        self._reader = ProxyHeaderReader()
        self._resume, self._gone, self._report = resume, gone, report
        self._timer: Timer | None = engine.scheduler.call_after(timeout_ms, lambda: self.close(TIMED_OUT))

    @property
    def peer(self) -> object:
        return self.client

    def serve(self, events: int) -> None:
        """Read what has arrived of the header."""
        reader = self._reader
        if not events:
            return
        try:
            while not reader.is_done:
                buffer = self._engine.scratch[: reader.wanted]
                count = self.socket.recv_into(buffer)
                if not count:
                    self.close(CUT if reader.has_begun else None)
                    return
                reader.feed(bytes(buffer[:count]))
        except BlockingIOError:
            return
        except MalformedProxyHeader as error:
            self.close(str(error))
            return
        self._end()
        self._engine.detach(self)
        self._resume(self.socket, client_behind(self.client, reader.connection))

    def advance(self) -> None:
        """There is nothing to send."""

    def close(self, reason: str | None) -> None:
        """Close the socket. Without a reason, the peer has gone before its first byte."""
        if self.phase is CLOSED:
            return
        if reason is not None:
            self._report(self.client, reason)
        self._engine.remove(self)

    def release(self) -> None:
        """The socket is closed."""
        self._end()
        self._gone()

    def _end(self) -> None:
        self.phase = CLOSED
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
