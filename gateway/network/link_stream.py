"""One connection of a link over a trio stream: for networks in memory, and for platforms without epoll."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import trio

from headgate.gateway.network.links import SLICE_BYTES, Link
from headgate.gateway.runtime.scheduler import Scheduler

logger = logging.getLogger("headgate.links")

OpenStream: TypeAlias = Callable[[str, int], Awaitable[trio.abc.Stream]]
"""(host, port) -> a connection. Raises OSError."""


class LinkStream:
    """A task of the scheduler connects, and receives; another one sends."""

    def __init__(
        self, link: Link, open_stream: OpenStream, scheduler: Scheduler, context: ssl.SSLContext | None = None
    ) -> None:
        """`context`: of connections over TLS."""
        self._context = context
        self._link = link
        self._open_stream = open_stream
        self._scheduler = scheduler
        self._scope = trio.CancelScope()
        self._has_outgoing = trio.Event()

    def start(self) -> None:
        self._scheduler.spawn(self._run, self._ended)

    def wake(self) -> None:
        """The link has bytes to send."""
        self._has_outgoing.set()

    def abort(self) -> None:
        """Close the connection; the link knows."""
        self._scope.cancel()

    async def _run(self) -> str:
        """Move bytes until the connection ends. Returns the reason."""
        reason = ""
        with self._scope:
            try:
                stream = await self._open_stream(self._link.host, self._link.port)
            except OSError as error:
                return f"it cannot be reached: {error.strerror or error}"
            if self._context is not None:
                from headgate.gateway.network.tls.streams import connect

                secure = await connect(stream, self._context, self._link)
                if isinstance(secure, str):
                    return secure
                stream = secure
            async with stream, trio.open_nursery() as nursery:
                self._link.connected()
                nursery.start_soon(self._send, stream)
                reason = await self._receive(stream)
                nursery.cancel_scope.cancel()
        return reason

    async def _receive(self, stream: trio.abc.Stream) -> str:
        try:
            while data := await stream.receive_some(SLICE_BYTES):
                self._link.receive(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            if isinstance(error.__cause__, ssl.SSLError):
                from headgate.gateway.network.tls.link_failures import explain, report

                return report(self._link, explain(error.__cause__))
            return f"the connection failed: {error.__cause__ or error}"
        return "it has closed the connection"

    async def _send(self, stream: trio.abc.Stream) -> None:
        try:
            while True:
                await self._has_outgoing.wait()
                self._has_outgoing = trio.Event()
                await stream.send_all(self._link.take())
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the receiver finds the connection broken too, and has the reason

    def _ended(self, result: str | BaseException) -> None:
        if self._scope.cancel_called:
            return
        if isinstance(result, BaseException):
            logger.error("the connection to %s failed", self._link, exc_info=result)
            result = "this broker failed to serve the connection"
        self._link.lost(result)
