"""What both transports of links are put to: over simulated sockets and over real ones, as in `conformance.py`.

A scenario is written once, against `Linked`, which asks, and `Peer`, the other broker.
"""

from __future__ import annotations

import logging
import socket
import ssl
import struct
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
import trio
import trio.testing

from headgate.gateway.network import sockets
from headgate.gateway.network.link_logins import MakeLogin
from headgate.gateway.network.link_socket import LinkSocket
from headgate.gateway.network.link_stream import LinkStream
from headgate.gateway.network.links import Link, Links, Transport
from headgate.gateway.network.sockets import SocketEngine
from headgate.gateway.network.tests.conformance import Client, SimulatedClient, TcpClient
from headgate.gateway.network.tests.kernel import FakeStream, Kernel
from headgate.gateway.network.tests.test_connection import ScriptedDispatcher
from headgate.gateway.network.tls.handshakes import TlsHandshakes
from headgate.gateway.network.tls.link_socket import TlsLinkSocket
from headgate.gateway.network.tls.tests.fake_listener import client_context, listener_tls
from headgate.gateway.runtime.clock import Clock, SystemClock
from headgate.gateway.runtime.log_output import LimitedLog
from headgate.gateway.runtime.scheduler import Scheduler, TrioClock
from headgate.gateway.runtime.tasks import Ask, Running, Task, Tasks
from headgate.gateway.runtime.tests.fake_scheduler import FakeScheduler
from headgate.protocol.client.tests.scripted_peer import Answer, respond
from headgate.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from headgate.protocol.messages.metadata import MetadataRequest, MetadataResponse
from headgate.protocol.schema import Message

MAX_RESPONSE_BYTES = 5_000_000
TABLE = ApiVersionsResponse(api_keys=[ApiVersion(1, 4, 12), ApiVersion(3, 0, 9), ApiVersion(18, 0, 3)])


class Asked:
    """A request of this broker, and what came of it."""

    def __init__(self, linked: Linked, ask: Ask) -> None:
        self.results: list[Any] = []
        self._until = linked.until
        self.running: Running[Any] = linked.tasks.start(_ask(ask), self.results.append)

    async def result(self) -> Any:
        """The answer, or the exception that was raised."""
        await self._until(lambda: self.results)
        (result,) = self.results
        return result


def _ask(ask: Ask) -> Task[Any]:
    return (yield ask)


class Peer:
    """The broker at the other end of one connection."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def request(self) -> bytes:
        """The next request, with its size."""
        head = await self.client.read(4)
        return head + await self.client.read(*struct.unpack(">i", head))

    async def answer(self, response: Message | Answer) -> bytes:
        """Answer the next request. Returns the sent bytes."""
        data = respond(await self.request(), response if callable(response) else lambda *_: response)
        await self.client.send(data)
        return data


class Linked(ABC):
    """A link, what it asks, and the other broker. `make_login`: of links that log in."""

    make_login: MakeLogin | None = None

    def __init__(self, clock: Clock, scheduler: Scheduler) -> None:
        self.clock, self.scheduler = clock, scheduler
        self.tasks = Tasks(clock, scheduler)
        self.links = Links(clock, scheduler, self.make_transport, self.make_login)
        self._accepted = 0

    @abstractmethod
    def make_transport(self, link: Link) -> Transport: ...

    @abstractmethod
    async def serve(self, nursery: trio.Nursery) -> None: ...

    @abstractmethod
    def peers(self) -> list[Client]:
        """The other ends of all connections so far."""

    @abstractmethod
    def address(self) -> tuple[str, int]: ...

    @abstractmethod
    async def until(self, condition: Callable[[], object]) -> None: ...

    def open(self) -> None:
        self.link = self.links.open(2, *self.address(), "broker-1", MAX_RESPONSE_BYTES)

    def ask(self, request: Message | None = None, version: int | None = None, timeout_ms: float | None = None) -> Asked:
        return Asked(self, self.link.ask(request or MetadataRequest(), version, timeout_ms))

    async def accept(self) -> Peer:
        """The next connection that the link makes."""
        await self.until(lambda: len(self.peers()) > self._accepted)
        self._accepted += 1
        return Peer(self.peers()[self._accepted - 1])

    def skip(self, count: int) -> None:
        """The next `accept` comes after so many connections."""
        self._accepted = count

    async def connect(self) -> Peer:
        """A peer that has answered a first request, and has no other."""
        asked, peer = self.ask(), await self.accept()
        await peer.answer(TABLE)
        await peer.answer(MetadataResponse(cluster_id="first"))
        assert (await asked.result()).cluster_id == "first"
        return peer


def _engine(linked: Linked, *seams: Any) -> SocketEngine:
    batcher: Any = ScriptedDispatcher().batcher
    log = LimitedLog(logging.getLogger("headgate.test"), linked.clock)
    return SocketEngine(lambda _: None, linked.clock, linked.scheduler, log, batcher, *seams)


class Simulated(Linked):
    """On sockets that a test scripts."""

    def __init__(self) -> None:
        self.kernel = Kernel()
        clock = TrioClock()
        super().__init__(clock, FakeScheduler(clock))

    def address(self) -> tuple[str, int]:
        return "127.0.0.1", 9092

    def peers(self) -> list[Client]:
        return [SimulatedClient(sock) for sock in self.kernel.opened]

    async def until(self, condition: Callable[[], object]) -> None:
        for _ in range(120):
            await trio.testing.wait_all_tasks_blocked()
            if condition():
                return
            await trio.sleep(0.01)  # the link waits for the end of its backoff
        raise AssertionError("nothing moves any more, and it has not come to this")

    async def serve(self, nursery: trio.Nursery) -> None:
        await nursery.start(self.scheduler.run)


class SimulatedSocket(Simulated):
    """By the engine, polling a kernel of ours."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = _engine(self, self.kernel, self.kernel.sendfile, self.kernel.make_socket)
        self.engine.stream_count = 1
        self.engine_scope = trio.CancelScope()

    def make_transport(self, link: Link) -> Transport:
        return LinkSocket(self.engine, link)

    async def serve(self, nursery: trio.Nursery) -> None:
        await super().serve(nursery)
        nursery.start_soon(self._run_engine)

    async def _run_engine(self) -> None:
        with self.engine_scope:
            await self.engine.run()


class SimulatedStream(Simulated):
    """By tasks, over streams of ours."""

    def make_transport(self, link: Link) -> Transport:
        return LinkStream(link, self._open, self.scheduler)

    async def _open(self, host: str, port: int) -> trio.abc.Stream:
        sock = self.kernel.make_socket()
        try:
            with suppress(BlockingIOError):
                sock.connect((host, port))
            while sock.is_connecting:
                await self.kernel.until_changed()
        except trio.Cancelled:
            sock.close()
            raise
        if sock.getsockopt():
            sock.close()
            raise ConnectionRefusedError(sock.getsockopt(), "Connection refused")
        return FakeStream(sock)


class Tcp(Linked):
    """On loopback."""

    def __init__(self) -> None:
        clock = SystemClock()
        super().__init__(clock, Scheduler(clock))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._peers: list[Client] = []

    def address(self) -> tuple[str, int]:
        host, port = self._listening.getsockname()
        return host, port

    def peers(self) -> list[Client]:
        return self._peers

    async def until(self, condition: Callable[[], object]) -> None:
        while not condition():  # noqa: ASYNC110  what is waited for happens in the transport, which tells nobody
            await trio.sleep(0.001)

    async def serve(self, nursery: trio.Nursery) -> None:
        await nursery.start(self.scheduler.run)
        nursery.start_soon(self._accept)

    async def _accept(self) -> None:
        with self._listening:
            listener = trio.socket.from_stdlib_socket(self._listening)
            while True:
                accepted, _ = await listener.accept()
                self._peers.append(self.accepted(trio.SocketStream(accepted)))

    def accepted(self, stream: trio.SocketStream) -> Client:
        return TcpClient(stream)


class TcpSocket(Tcp):
    """By the engine, as it is used."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = _engine(self)

    def make_transport(self, link: Link) -> Transport:
        return LinkSocket(self.engine, link)

    async def serve(self, nursery: trio.Nursery) -> None:
        await super().serve(nursery)
        nursery.start_soon(self.engine.run)


class TcpStream(Tcp):
    """By tasks, as where there is no epoll."""

    def make_transport(self, link: Link) -> Transport:
        return LinkStream(link, trio.open_tcp_stream, self.scheduler)


class TlsClient(TcpClient):
    """The other end of a TLS connection. `tls` has its handshake done by the first use."""

    def __init__(self, stream: trio.SocketStream, context: ssl.SSLContext) -> None:
        super().__init__(stream)
        self.tls = trio.SSLStream(stream, context, server_side=True, https_compatible=True)

    async def send(self, data: bytes) -> None:
        await self.tls.send_all(data)

    async def receive(self, most: int) -> bytes:
        return bytes(await self.tls.receive_some(most))


class Tls(Tcp):
    """On loopback, over TLS. A test may have other contexts."""

    server_context, link_context = staticmethod(lambda: listener_tls().context), staticmethod(client_context)

    def accepted(self, stream: trio.SocketStream) -> Client:
        return TlsClient(stream, self.server_context())


class TlsSocketLink(Tls, TcpSocket):
    """By the engine, with handshakes in threads."""

    def make_transport(self, link: Link) -> Transport:
        return TlsLinkSocket(self.engine, link, self.link_context(), TlsHandshakes(self.scheduler))


class TlsStreamLink(Tls):
    """By tasks."""

    def make_transport(self, link: Link) -> Transport:
        return LinkStream(link, trio.open_tcp_stream, self.scheduler, self.link_context())


SIMULATED: list[Any] = [SimulatedStream]
TCP: list[Any] = [pytest.param(TcpStream, marks=pytest.mark.sockets)]
TLS: list[Any] = [TlsStreamLink]
if sockets.AVAILABLE:
    SIMULATED.append(SimulatedSocket)
    TCP.append(pytest.param(TcpSocket, marks=pytest.mark.sockets))
    TLS.append(TlsSocketLink)
TCP += [pytest.param(kind, marks=pytest.mark.sockets) for kind in TLS]
over_tls = pytest.mark.parametrize("kind", TLS)
everywhere = pytest.mark.parametrize("kind", [*SIMULATED, *TCP])
simulated = pytest.mark.parametrize("kind", SIMULATED)


def run(kind: Callable[[], Linked], scenario: Callable[[Any], Awaitable[None]]) -> Any:
    """Run `scenario` beside a link of this kind; afterwards all connections are closed."""
    is_simulated = isinstance(kind, type) and issubclass(kind, Simulated)

    async def main() -> Linked:
        linked = kind()
        with trio.fail_after(10_000 if is_simulated else 60):
            async with trio.open_nursery() as nursery:
                await linked.serve(nursery)
                linked.open()
                await scenario(linked)
                linked.links.close()
                for peer in linked.peers():
                    await peer.close()
                await trio.testing.wait_all_tasks_blocked()
                if isinstance(linked, Simulated):
                    assert all(sock.is_closed for sock in linked.kernel.opened), "a connection is left"
                nursery.cancel_scope.cancel()
        return linked

    clock = trio.testing.MockClock(autojump_threshold=0) if is_simulated else None
    return trio.run(main, clock=clock)
