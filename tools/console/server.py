"""The server: hypercorn's trio worker on sockets that are given, until SIGTERM or SIGINT."""

from __future__ import annotations

import logging
import signal
import socket
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import trio
from hypercorn.config import Config, Sockets
from hypercorn.trio.run import worker_serve
from hypercorn.utils import wrap_app

from headgate.tools.console.app import make_app
from headgate.tools.console.cluster_access import ClusterAccess

if TYPE_CHECKING:
    from hypercorn.typing import ASGIFramework
    from starlette.types import ASGIApp

    from headgate.tools.console.visitors import Visitors

BACKLOG: Final = 64
HEAD_BYTES: Final = 1 << 16
"""Of a request: a list of the rows in sight is a part of its address."""
GRACE_S: Final = 0.5


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
    shutdown_timeout = 1.0
    keep_alive_timeout = 60
    ssl_handshake_timeout = 10
    h11_max_incomplete_size = HEAD_BYTES
    backlog = BACKLOG

    def __init__(self, sockets: ListeningSockets) -> None:
        self._sockets = sockets

    def create_sockets(self) -> Sockets:
        return Sockets(list(self._sockets.secure), list(self._sockets.plain), [])

    def create_ssl_context(self) -> ssl.SSLContext | None:
        return self._sockets.tls


def run(
    access: ClusterAccess, sockets: ListeningSockets, ready: Callable[[], None], *, may_write: bool = False
) -> None:
    """Serve until SIGTERM or SIGINT. `ready` is called once requests are answered; `may_write`: visitors may change."""
    trio.run(_run, make_app(access, may_write=may_write), sockets, ready)


async def _run(made: tuple[ASGIApp, Visitors], sockets: ListeningSockets, ready: Callable[[], None]) -> None:
    app, visitors = made
    config = ServerConfig(sockets)
    is_stopping = trio.Event()
    serve = partial(
        worker_serve, wrap_app(cast("ASGIFramework", app), 0, "asgi"), config, shutdown_trigger=is_stopping.wait
    )
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(visitors.sweep)
            async with trio.open_nursery() as serving:
                await serving.start(serve)
                ready()
                await anext(signals)
                is_stopping.set()
            nursery.cancel_scope.cancel()
