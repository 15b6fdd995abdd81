"""What every driver of connections is put to: one harness for both, over simulated sockets and over real ones.

A scenario is written once, against `Served` and `Client`. On simulated sockets it runs on trio's mock clock, and
`until` looks once, when nothing moves any more: what is not so then will never be. On real ones `until` has to wait.
"""

from __future__ import annotations

import logging
import os
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from headgate.gateway.api import context
from headgate.gateway.network import sockets
from headgate.gateway.network.admission.connection_quotas import Limits
from headgate.gateway.network.connection import Connection
from headgate.gateway.network.server import Server
from headgate.gateway.network.socket_driver import SocketDriver
from headgate.gateway.network.sockets import SocketEngine
from headgate.gateway.network.streams import StreamDriver
from headgate.gateway.network.tests.kernel import FakeListener, FakeSocket, FakeStream, Kernel
from headgate.gateway.network.tests.test_connection import ScriptedDispatcher
from headgate.gateway.network.tls.driver import TlsDriver
from headgate.gateway.network.tls.handshakes import TlsHandshakes
from headgate.gateway.network.tls.tests.fake_listener import HOST, client_context, listener_tls
from headgate.gateway.runtime.clock import Clock, SystemClock
from headgate.gateway.runtime.log_output import LimitedLog
from headgate.gateway.runtime.memory_budget import MemoryBudget
from headgate.gateway.runtime.scheduler import Scheduler, TrioClock
from headgate.gateway.runtime.tests.fake_scheduler import FakeScheduler

MAX_FRAME_BYTES = 4_000_000
BUDGET_BYTES = 10_000_000
HEAVY_MS = 5.0

Driver = SocketDriver | StreamDriver


class PoisonedConnection(Connection):
    """Spoils what it was given as soon as it has returned: a view that outlives its time shows 0xDD."""

    def receive(self, data: memoryview, now_ms: float) -> None:
        super().receive(data, now_ms)
        data[:] = b"\xdd" * len(data)


class Piece:
    """A piece of a file. `fileno` and `position` are what sendfile takes, `read` what is used where it cannot be.

    It is on a disk that is as slow as a test wants: `cached` is how much of it, from its beginning, is in memory. What
    reads beyond that on the loop's thread fails.
    """

    def __init__(self, served: Served, size: int) -> None:
        self.position, self.disk = 100, "/disk"
        self.released = False
        self._served = served
        self.cached = size
        self.warmed: list[tuple[int, int]] = []
        self._data = os.urandom(size)
        self.fileno = served.open_file(bytes(self.position) + self._data)
        served.pieces[self.fileno] = self

    def __len__(self) -> int:
        return len(self._data)

    @property
    def data(self) -> bytes:
        return self._data

    def read(self, start: int = 0, length: int | None = None) -> bytes:
        assert length is not None
        if start + length > self.cached:
            self.warm(start, length)
        return self._data[start : start + length]

    def is_cached(self, start: int, length: int) -> bool:
        assert not self.released
        return start + length <= self.cached

    def read_cached(self, start: int, length: int) -> bytes | None:
        return self.read(start, length) if self.is_cached(start, length) else None

    def warm(self, start: int, length: int) -> None:
        assert self._served.in_thread, "the loop would wait for the disk"
        assert not self.released, "given back while a thread reads it"
        self.warmed.append((start, length))
        self.cached = max(self.cached, start + length)

    def release(self) -> None:
        assert not self.released, "released twice"
        self.released = True


class Client(ABC):
    """The other end of a connection."""

    @abstractmethod
    async def send(self, data: bytes) -> None: ...

    @abstractmethod
    async def receive(self, most: int) -> bytes:
        """Something, b"" at the end. Raises trio.BrokenResourceError after a reset."""

    @abstractmethod
    async def send_eof(self) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    async def reset(self) -> None: ...

    async def read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            portion = await self.receive(size - len(data))
            assert portion, f"the stream ended after {len(data)} of {size} bytes"
            data += portion
        return bytes(data)

    async def is_closed(self) -> bool:
        """Whether the broker has hung up, once it has said all."""
        try:
            return await self.receive(10) == b""
        except trio.BrokenResourceError:
            return True


class Served(ABC):
    """A running driver, what it dispatches to, and ways to connect."""

    in_thread = False  # whether what is done now is done by a thread; only simulated ones are told

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.dispatcher = ScriptedDispatcher()
        self.memory = MemoryBudget(BUDGET_BYTES)
        self.drivers: list[Driver] = []
        self.gone = 0
        self.clients: list[Client] = []
        self.log = LimitedLog(logging.getLogger("headgate.test"), self.clock)
        self.pieces: dict[int, Piece] = {}

    @abstractmethod
    async def serve(self, nursery: trio.Nursery) -> None:
        """Start what has to run beside the scenario."""

    @abstractmethod
    async def new_client(self) -> Client: ...

    @abstractmethod
    def open_file(self, data: bytes) -> int:
        """A descriptor for sendfile."""

    @abstractmethod
    async def until(self, condition: Callable[[], object]) -> None: ...

    async def connect(self) -> Client:
        client = await self.new_client()
        self.clients.append(client)
        await self.until(lambda: len(self.drivers) == len(self.clients))
        return client

    async def park(self, *more: bytes) -> Client:
        """A client whose request is parked, with more requests behind it."""
        client, before = await self.connect(), len(self.dispatcher.parked)
        await client.send(b"".join(struct.pack(">i", len(body)) + body for body in (b"park", *more)))
        await self.until(lambda: len(self.dispatcher.parked) > before)
        return client

    def new_connection(self) -> Connection:
        client = context.Client("127.0.0.1", 40_000, "127.0.0.1", 9092)
        dispatcher: Any = self.dispatcher
        return PoisonedConnection(client, dispatcher, MAX_FRAME_BYTES, self.memory, self.dispatcher.complain)

    def forget(self, driver: Driver) -> None:
        self.gone += 1

    def overdue(self, max_idle_ms: int = 0) -> list[str | None]:
        """What the server's sweep has against each connection now."""
        dispatcher: Any = self.dispatcher
        limits = Limits(MAX_FRAME_BYTES, BUDGET_BYTES, 1_000, 1_000, max_idle_ms, 0, 0, 1_000)
        server = Server(dispatcher, limits, self.clock, Scheduler(self.clock))
        return [server.overdue(driver, self.clock.monotonic_ms()) for driver in self.drivers]


class SimulatedClient(Client):
    """The other end of a `FakeSocket`."""

    def __init__(self, sock: FakeSocket) -> None:
        self.socket = sock

    async def send(self, data: bytes) -> None:
        self.socket.client_sends(data)
        await trio.testing.wait_all_tasks_blocked()

    async def receive(self, most: int) -> bytes:
        await trio.testing.wait_all_tasks_blocked()
        return self.socket.client_takes(most)

    async def send_eof(self) -> None:
        self.socket.client_half_closes()
        await trio.testing.wait_all_tasks_blocked()

    async def close(self) -> None:
        await self.send_eof()

    async def reset(self) -> None:
        self.socket.client_resets()
        await trio.testing.wait_all_tasks_blocked()

    async def is_closed(self) -> bool:
        return await self.receive(10) == b"" and self.socket.is_closed


class Threads:
    """Work that was given to a thread, and stays there until the test lets it end."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []
        self.is_running = False

    def in_thread(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.waiting.append(lambda: done(work()))

    async def run(self, work: Callable[[], Any], disk: str) -> Any:
        ended, results = trio.Event(), list[Any]()

        def end() -> None:
            results.append(work())
            ended.set()

        self.waiting.append(end)
        with trio.CancelScope(shield=True):  # as trio waits for a thread, whoever is cancelled
            await ended.wait()
        await trio.lowlevel.checkpoint_if_cancelled()
        return results[0]

    def end_one(self) -> None:
        """The work is done now; the loop hears of it."""
        self.is_running = True
        self.waiting.pop(0)()
        self.is_running = False


class CostingClock(TrioClock):
    """Requests cost what a test says: the clock goes on by that while they are answered."""

    def __init__(self) -> None:
        super().__init__()
        self.spent_ms = 0.0

    def monotonic_ms(self) -> float:
        return super().monotonic_ms() + self.spent_ms


class Simulated(Served):
    """On sockets that a test scripts. A request `heavy` costs `HEAVY_MS`."""

    def __init__(self) -> None:
        self.costs = CostingClock()
        super().__init__(self.costs)
        self.dispatcher.when_heavy = self._spend
        self.kernel = Kernel()
        self.portion = 1 << 30
        self.room: int | None = None
        self.threads = Threads()

    @property
    def in_thread(self) -> bool:  # type: ignore[override]
        return self.threads.is_running

    def _spend(self) -> None:
        self.costs.spent_ms += HEAVY_MS

    def open_file(self, data: bytes) -> int:
        descriptor = self.kernel.descriptor()
        self.kernel.files[descriptor] = data
        return descriptor

    async def until(self, condition: Callable[[], object]) -> None:
        await trio.testing.wait_all_tasks_blocked()
        assert condition(), "nothing moves any more, and it has not come to this"

    def scripted(self, sock: FakeSocket) -> SimulatedClient:
        sock.portion = self.portion
        sock.room = self.room or sock.room
        return SimulatedClient(sock)


class SimulatedEngine(Simulated):
    """The engine, polling a kernel of ours."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses = False
        self.listener = FakeListener(self.kernel)
        self.scheduler = FakeScheduler(self.clock, threads=self.threads.in_thread)
        self.kernel.sendfile_hook = self._check_cached
        listener: Any = self.listener
        batcher: Any = self.dispatcher.batcher
        self.engine = SocketEngine(
            self.forget,
            self.clock,
            self.scheduler,
            self.log,
            batcher,
            self.kernel,
            self.kernel.sendfile,
            stall_watch=self.dispatcher.stall_watch,
        )
        self.engine.stream_count = 1
        self.engine.listen(listener, self.admit)

    async def serve(self, nursery: trio.Nursery) -> None:
        await nursery.start(self.scheduler.run)
        nursery.start_soon(self.engine.run)

    def admit(self, engine: SocketEngine, sock: socket.socket) -> SocketDriver | None:
        if self.refuses:
            return None
        driver = SocketDriver(engine, sock, self.new_connection())
        self.drivers.append(driver)
        return driver

    async def new_client(self) -> Client:
        return self.scripted(self.listener.connect())

    def _check_cached(self, file: int, position: int, length: int) -> None:
        piece = self.pieces.get(file)
        if piece is not None:
            assert position + length - piece.position <= piece.cached, "the loop would wait for the disk"


class SimulatedStreams(Simulated):
    """A task for each stream, over sockets of ours."""

    async def serve(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery

    async def new_client(self) -> Client:
        sock = FakeSocket(self.kernel)
        driver = StreamDriver(
            FakeStream(sock), self.new_connection(), self.clock, self.log, self.threads.run, self.dispatcher.stall_watch
        )
        self.drivers.append(driver)
        self._nursery.start_soon(self._run, driver)
        return self.scripted(sock)

    async def _run(self, driver: StreamDriver) -> None:
        await driver.run()
        self.forget(driver)


class TcpClient(Client):
    """The other end of a TCP connection."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def receive(self, most: int) -> bytes:
        return bytes(await self.stream.receive_some(most))

    async def send_eof(self) -> None:
        await self.stream.send_eof()

    async def close(self) -> None:
        await trio.aclose_forcefully(self.stream)

    async def reset(self) -> None:
        self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await self.close()


class Tcp(Served):
    """On loopback."""

    in_thread = True  # threads are real, and nobody tells which one it is

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self._files: list[int] = []

    def open_file(self, data: bytes) -> int:
        descriptor = os.memfd_create("piece")
        self._files.append(descriptor)
        os.write(descriptor, data)
        return descriptor

    def close_files(self) -> None:
        for descriptor in self._files:
            os.close(descriptor)

    async def until(self, condition: Callable[[], object]) -> None:
        while not condition():  # noqa: ASYNC110  what is waited for happens in the driver, which tells nobody
            await trio.sleep(0.001)


class TcpEngine(Tcp):
    """The engine as it is used."""

    def __init__(self) -> None:
        super().__init__()
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)  # what a scenario sends, TLS records too
        self.address = listener.getsockname()
        self.scheduler = Scheduler(self.clock)
        batcher: Any = self.dispatcher.batcher
        self.engine = SocketEngine(
            self.forget, self.clock, self.scheduler, self.log, batcher, stall_watch=self.dispatcher.stall_watch
        )
        self.engine.listen(listener, self._admit)

    async def serve(self, nursery: trio.Nursery) -> None:
        await nursery.start(self.scheduler.run)
        nursery.start_soon(self.engine.run)

    def _admit(self, engine: SocketEngine, sock: socket.socket) -> SocketDriver | None:
        driver = self.make_driver(engine, sock)
        self.drivers.append(driver)
        return driver

    def make_driver(self, engine: SocketEngine, sock: socket.socket) -> SocketDriver:
        return SocketDriver(engine, sock, self.new_connection())

    async def new_client(self) -> Client:
        return TcpClient(await trio.open_tcp_stream(*self.address))


class TcpStreams(Tcp):
    """A task for each TCP stream, as where there is no epoll."""

    async def serve(self, nursery: trio.Nursery) -> None:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.address = listener.socket.getsockname()
        nursery.start_soon(trio.serve_listeners, self._handle, [listener])

    async def _handle(self, stream: trio.abc.Stream) -> None:
        driver = StreamDriver(
            stream, self.new_connection(), self.clock, self.log, stall_watch=self.dispatcher.stall_watch
        )
        self.drivers.append(driver)
        await driver.run()
        self.forget(driver)

    async def new_client(self) -> Client:
        return TcpClient(await trio.open_tcp_stream(*self.address))


class TlsClient(Client):
    """The other end of a TLS connection."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._tcp = TcpClient(stream)
        self._tls = trio.SSLStream(stream, client_context(), server_hostname=HOST)

    async def send(self, data: bytes) -> None:
        await self._tls.send_all(data)

    async def receive(self, most: int) -> bytes:
        return bytes(await self._tls.receive_some(most))

    async def send_eof(self) -> None:
        """The end of the TCP connection, as from a client that has died: many clients end a connection so."""
        await self._tcp.send_eof()

    async def close(self) -> None:
        await self._tcp.close()

    async def reset(self) -> None:
        await self._tcp.reset()


class TlsEngine(TcpEngine):
    """The engine, for a TLS listener."""

    def __init__(self) -> None:
        super().__init__()
        self.handshakes = TlsHandshakes(self.scheduler)

    def make_driver(self, engine: SocketEngine, sock: socket.socket) -> SocketDriver:
        return TlsDriver(engine, sock, self.new_connection(), listener_tls(), self.handshakes, 30_000)

    async def new_client(self) -> Client:
        return TlsClient(await trio.open_tcp_stream(*self.address))


class TlsStreams(TcpStreams):
    """A task for each TLS stream."""

    async def _handle(self, stream: trio.abc.Stream) -> None:
        await super()._handle(trio.SSLStream(stream, listener_tls().context, server_side=True, https_compatible=True))

    async def new_client(self) -> Client:
        return TlsClient(await trio.open_tcp_stream(*self.address))


Scenario = Callable[[Any], Awaitable[None]]
SIMULATED: list[Any] = [SimulatedStreams]
TCP: list[Any] = [pytest.param(kind, marks=pytest.mark.sockets) for kind in (TcpStreams, TlsStreams)]
if sockets.AVAILABLE:
    SIMULATED.append(SimulatedEngine)
    TCP += [pytest.param(kind, marks=pytest.mark.sockets) for kind in (TcpEngine, TlsEngine)]
everywhere = pytest.mark.parametrize("kind", [*SIMULATED, *TCP])
simulated = pytest.mark.parametrize("kind", SIMULATED)


def run(kind: Callable[[], Served], scenario: Scenario) -> Any:
    """Run `scenario` beside a driver of this kind; afterwards nothing of a connection is left."""

    async def main() -> Served:
        served = kind()
        with trio.fail_after(10_000 if kind in SIMULATED else 60):
            async with trio.open_nursery() as nursery:
                await served.serve(nursery)
                await scenario(served)
                for client in served.clients:
                    await client.close()
                nursery.cancel_scope.cancel()
        return served

    clock = trio.testing.MockClock(autojump_threshold=0) if kind in SIMULATED else None
    served = trio.run(main, clock=clock)
    if isinstance(served, Tcp):
        served.close_files()
    assert served.memory.used_bytes == 0, "what connections had reserved was not given back"
    return served
