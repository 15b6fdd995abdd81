"""Bounds of the console's connections, by real sockets."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from starlette.types import Receive, Scope, Send

from headgate.tools.console.open_connections import OpenConnections
from headgate.tools.console.server import ServerConfig

pytestmark = pytest.mark.sockets

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LARGE = bytes(32 << 20)
LIMIT_S = 20


class Server:
    """A server, and its address. `/large` has 32 MB, `/fault` fails, others answer with two letters."""

    def __init__(self, **bounds: int) -> None:
        self.config = ServerConfig()
        self.connections = OpenConnections(self.answer, self.config, **bounds)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.stop = trio.Event()
        self.has_left = trio.Event()
        """The browser is gone, or has its answer."""
        self.clients: list[trio.SocketStream] = []

    async def connect(self) -> trio.SocketStream:
        self.clients.append(await trio.open_tcp_stream("127.0.0.1", self.listener.getsockname()[1]))
        return self.clients[-1]

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/fault":
            raise ValueError("a fault of a test")
        body = LARGE if scope["path"] == "/large" else b"ok"
        length = str(len(body)).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
        await send({"type": "http.response.body", "body": body})
        while (await receive())["type"] != "http.disconnect":
            pass
        self.has_left.set()


@asynccontextmanager
async def started(server: Server) -> AsyncIterator[None]:
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(server.connections.serve, [server.listener], [], None, server.stop)
            yield
            server.stop.set()
    for client in server.clients:
        await client.aclose()


def run(test: Callable[[], Any]) -> None:
    trio.run(test)


async def until_end(stream: trio.SocketStream) -> bytes:
    return b"".join([part async for part in stream])


async def until_count(server: Server, count: int) -> None:
    while server.connections.count != count:
        await trio.lowlevel.checkpoint()


def test_over_the_limit_connections_wait_until_one_ends(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        server = Server(limit=2)
        async with started(server):
            first, second = await server.connect(), await server.connect()
            await until_count(server, 2)
            third = await server.connect()
            await third.send_all(REQUEST)
            for other in (first, second):  # both are served, and the third is not accepted meanwhile
                await other.send_all(REQUEST)
                assert (await other.receive_some()).startswith(b"HTTP/1.1 200")
                assert server.connections.count == 2
            await first.aclose()
            assert (await third.receive_some()).startswith(b"HTTP/1.1 200")
            assert server.connections.count == 2
        assert server.connections.count == 0

    run(test)
    assert "2 connections of browsers are open" in caplog.text


@pytest.mark.parametrize("begin", [b"", b"GET / HT", REQUEST, REQUEST + b"GET"])
def test_idle_connections_and_unfinished_heads_end(begin: bytes) -> None:
    async def test() -> None:
        server = Server()
        server.config.keep_alive_timeout = 0.05
        async with started(server):
            stream = await server.connect()
            await stream.send_all(begin)
            assert (await until_end(stream)).count(b"200") == (1 if begin.startswith(REQUEST) else 0)
            await until_count(server, 0)

    run(test)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the bound is Linux's")
def test_a_browser_that_stops_reading_is_disconnected() -> None:
    async def test() -> None:
        server = Server(unread_ms=200)
        async with started(server):
            stream = await server.connect()
            await stream.send_all(REQUEST.replace(b"/ ", b"/large ", 1))
            await server.has_left.wait()

    run(test)


def test_the_end_does_not_wait_for_a_browser_that_stops_reading() -> None:
    async def test() -> None:
        server = Server()
        server.config.graceful_timeout = 0.05
        async with started(server):
            stream = await server.connect()
            await stream.send_all(REQUEST.replace(b"/ ", b"/large ", 1))
            await stream.receive_some(1)

    run(test)


def test_a_fault_ends_one_request_alone() -> None:
    async def test() -> None:
        server = Server()
        async with started(server):
            stream = await server.connect()
            await stream.send_all(REQUEST.replace(b"/ ", b"/fault ", 1))
            assert b" 500 " in await stream.receive_some()
            other = await server.connect()
            await other.send_all(REQUEST)
            assert (await other.receive_some()).startswith(b"HTTP/1.1 200")

    run(test)
