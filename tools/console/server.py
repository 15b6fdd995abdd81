"""The server: hypercorn's trio worker on sockets that are given, until SIGTERM or SIGINT.

`keep_alive_timeout` bounds the time from a connection's begin, or the end of an answer, to the end of the next
request's head: an idle connection and a head that is never finished end alike.
"""

from __future__ import annotations

import logging
import signal
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import trio
from hypercorn.config import Config

from headgate.tools.console.app import make_app
from headgate.tools.console.cluster_access import ClusterAccess
from headgate.tools.console.open_connections import OpenConnections

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from headgate.tools.console.visitors import Visitors

HEAD_BYTES: Final = 1 << 16
"""Of a request: a list of the rows in sight is a part of its address."""
GRACE_S: Final = 0.5
KEEP_ALIVE_S: Final = 20.0


class ListeningSockets(NamedTuple):
    """The sockets of the console, which listen already; `tls` is for the secure ones."""

    plain: Sequence[socket.socket]
    secure: Sequence[socket.socket] = ()
    tls: ssl.SSLContext | None = None

    def close(self) -> None:
        for listener in (*self.plain, *self.secure):
            listener.close()


class ServerConfig(Config):
    """Hypercorn's settings: sockets and TLS are made elsewhere."""

    accesslog = None
    errorlog = logging.getLogger("headgate.console.http")
    include_server_header = False
    graceful_timeout = GRACE_S
    keep_alive_timeout = KEEP_ALIVE_S
    ssl_handshake_timeout = 10
    h11_max_incomplete_size = HEAD_BYTES
    h2_max_concurrent_streams = 8  # no browser asks for HTTP/2 here, and a program needs no more


def run(
    access: ClusterAccess, sockets: ListeningSockets, ready: Callable[[], None], *, may_write: bool = False
) -> None:
    """Serve until SIGTERM or SIGINT. `ready` is called once requests are answered; `may_write`: visitors may change."""
    trio.run(_run, make_app(access, may_write=may_write), sockets, ready)


async def _run(made: tuple[ASGIApp, Visitors], sockets: ListeningSockets, ready: Callable[[], None]) -> None:
    app, visitors = made
    connections, is_stopping = OpenConnections(app, ServerConfig()), trio.Event()
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(visitors.sweep)
            async with trio.open_nursery() as serving:
                await serving.start(connections.serve, sockets.plain, sockets.secure, sockets.tls, is_stopping)
                ready()
                await anext(signals)
                is_stopping.set()
            nursery.cancel_scope.cancel()
