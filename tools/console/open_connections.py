"""Connections of the console's server, each served by hypercorn's trio worker, and bounds of theirs.

Hypercorn bounds the time of TLS handshakes, of requests' heads and of idle connections, but neither the number of
connections nor the time of a visitor that stops reading. So the loop that accepts is here:

- With `limit` open connections no other is accepted until one ends: new ones wait in the system's queue.
- A visitor that has acknowledged nothing for a minute while an answer waits is disconnected by the system.
- At the end, answers have `config.graceful_timeout`; then each connection is closed, also while hypercorn sends.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import trio
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState
from hypercorn.utils import wrap_app

if TYPE_CHECKING:
    from hypercorn.config import Config
    from hypercorn.typing import ASGIFramework
    from starlette.types import ASGIApp

LIMIT: Final = 256
UNREAD_MS: Final = 60_000
_WARNING_S: Final = 60.0

logger = logging.getLogger("headgate.console")


class OpenConnections:
    """The connections of a server; at most `limit` are open."""

    def __init__(self, app: ASGIApp, config: Config, limit: int = LIMIT, unread_ms: int = UNREAD_MS) -> None:
        self._app = wrap_app(cast("ASGIFramework", app), 0, "asgi")
        self._config = config
        self._limit = limit
        self._unread_ms = unread_ms
        self._context = WorkerContext(None)
        self._free = trio.Semaphore(limit)
        self._open: set[trio.SocketStream] = set()
        self._next_warning = 0.0

    @property
    def count(self) -> int:
        """The number of open connections."""
        return len(self._open)

    async def serve(
        self,
        plain: Sequence[socket.socket],
        secure: Sequence[socket.socket],
        tls: ssl.SSLContext | None,
        stop: trio.Event,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve the listening sockets until `stop`; they are closed then. `tls` is for the secure ones."""
        listeners: list[trio.abc.Listener[Any]] = [_BoundedListener(one, self) for one in plain]
        if tls is not None:
            listeners += (trio.SSLListener(_BoundedListener(one, self), tls, https_compatible=True) for one in secure)
        async with trio.open_nursery() as closing:
            async with trio.open_nursery() as connections:
                async with trio.open_nursery() as accepting:
                    accepting.start_soon(
                        partial(trio.serve_listeners, self._serve_one, listeners, handler_nursery=connections)
                    )
                    task_status.started()
                    await stop.wait()
                    accepting.cancel_scope.cancel()
                await self._context.terminated.set()  # idle connections end
                connections.cancel_scope.deadline = trio.current_time() + self._config.graceful_timeout
                closing.start_soon(self._close_late)
            closing.cancel_scope.cancel()

    async def accept(self, listener: trio.SocketListener) -> trio.SocketStream:
        """The next connection, once there is place for it."""
        if self.count >= self._limit and trio.current_time() >= self._next_warning:
            self._next_warning = trio.current_time() + _WARNING_S
            logger.warning("%s connections of browsers are open: further ones wait until one ends", self._limit)
        await self._free.acquire()
        try:
            stream = await listener.accept()
        except BaseException:
            self._free.release()
            raise
        self._open.add(stream)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # of Linux
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, self._unread_ms)
        return stream

    async def _serve_one(self, stream: trio.SSLStream[trio.SocketStream]) -> None:
        """Serve a connection. A fault of one ends no other."""
        try:
            await _Connection(self._app, self._config, self._context, ConnectionState({}), stream)
        except Exception:
            logger.exception("a connection of a browser failed")
        finally:
            plain = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
            self._open.discard(plain)
            self._free.release()

    async def _close_late(self) -> None:
        """Close what is open after the time of grace: hypercorn shields what it sends from a cancellation."""
        await trio.sleep(self._config.graceful_timeout)
        for stream in self._open:
            stream.socket.close()


class _Connection(TCPServer):
    """A connection that ends with its browser: hypercorn 0.18 keeps an idle one until its time is over."""

    async def _read_data(self) -> None:
        await super()._read_data()
        await self.idle_task.stop()


class _BoundedListener(trio.abc.Listener[trio.SocketStream]):
    """A listening socket that accepts when there is place."""

    def __init__(self, listener: socket.socket, connections: OpenConnections) -> None:
        self._listener = trio.SocketListener(trio.socket.from_stdlib_socket(listener))
        self._connections = connections

    async def accept(self) -> trio.SocketStream:
        return await self._connections.accept(self._listener)

    async def aclose(self) -> None:
        await self._listener.aclose()
