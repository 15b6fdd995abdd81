"""The server: admits connections on its listeners, and keeps them from the first byte to shutdown."""

from __future__ import annotations

import logging
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import trio

from headgate.gateway.api.context import Client
from headgate.gateway.api.dispatch import Dispatcher
from headgate.gateway.network import sockets
from headgate.gateway.network.connection import Connection
from headgate.gateway.network.link_socket import LinkSocket
from headgate.gateway.network.link_stream import LinkStream, OpenStream
from headgate.gateway.network.links import Link, Transport
from headgate.gateway.network.socket_driver import SocketDriver
from headgate.gateway.network.sockets import CANNOT_ACCEPT, NO_DESCRIPTORS, PAUSE_MS, SocketEngine
from headgate.gateway.network.streams import StreamDriver
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.log_output import LimitedLog
from headgate.gateway.runtime.memory_budget import MemoryBudget
from headgate.gateway.runtime.scheduler import Scheduler

if TYPE_CHECKING:  # a broker without TLS and logins imports neither
    from headgate.gateway.network.logins import Logins
    from headgate.gateway.network.tls.driver import TlsDriver
    from headgate.gateway.network.tls.handshakes import TlsHandshakes
    from headgate.gateway.security.tls.listener_tls import ListenerTls

logger = logging.getLogger("headgate.server")

# A frame that grows by less than a megabyte in this time holds memory for nothing.
FRAME_DEADLINE_MS = 30_000
SWEEP_INTERVAL_S = 5.0
SHOWN_REASON = 300
# trio lowers this for every stream; with its 16 KiB a fetch would wake the event loop for each 16 KiB.
_NOTSENT_LOWAT = getattr(socket, "TCP_NOTSENT_LOWAT", 25)


Driver = StreamDriver | SocketDriver
Socket = socket.socket | trio.socket.SocketType


class Limits(NamedTuple):
    """Limits on peers, in bytes and counts. 0 or less for a socket buffer means the system's own size."""

    max_frame_bytes: int
    max_memory_bytes: int
    max_connections: int
    max_connections_per_ip: int
    max_idle_ms: int
    send_buffer_bytes: int
    receive_buffer_bytes: int
    max_descriptors: int  # for connections; the other descriptors of the process are reserved for files
    authentication_timeout_ms: float = 10_000.0


class Server:
    """Accepts connections on any number of listeners: with epoll, TCP by one engine for all; otherwise as streams."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        limits: Limits,
        clock: Clock,
        scheduler: Scheduler,
        open_stream: OpenStream | None = None,
        tls: Mapping[str, ListenerTls] = MappingProxyType({}),
        logins: Logins | None = None,
    ) -> None:
        """`open_stream` makes the connections of links; None: TCP, by the engine where there is one.

        `tls`: the settings of the listeners that speak TLS, by name. `logins`: has clients log in.
        """
        self.drivers: dict[Driver, None] = {}
        self.engine: SocketEngine | None = None
        self._open_stream = open_stream
        self._tls = tls
        self._logins = logins
        self._handshakes: TlsHandshakes | None = None
        self._dispatcher = dispatcher
        self._limits = limits
        self._clock = clock
        self._scheduler = scheduler
        self._log = LimitedLog(logger, clock)
        self._memory = MemoryBudget(limits.max_memory_bytes)
        self._by_address: Counter[str] = Counter()
        self._put_first = self.put_first  # one object for all clients
        self._accepting = trio.CancelScope()
        self.stopped = trio.Event()
        self._all_gone = trio.Event()

    def limit(self, limits: Limits) -> None:
        """Admit new connections by these limits; open ones stay. The memory budget and open sockets do not change."""
        self._limits = limits

    async def serve(
        self,
        listeners: Sequence[tuple[str, trio.abc.Listener[Any]]],
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve `(listener name, listener)` pairs until `stop` has closed the last connection."""
        async with trio.open_nursery() as connections:
            connections.start_soon(self._sweep)
            task_status.started()
            with self._accepting:
                async with trio.open_nursery() as accepting:
                    for name, listener in listeners:
                        if sockets.AVAILABLE and isinstance(listener, trio.SocketListener):
                            bound = socket.socket(fileno=listener.socket.detach())
                            self._open_engine(connections).listen(bound, partial(self._admit, name))
                        else:
                            accepting.start_soon(self._accept, name, listener, connections)
            await self.stopped.wait()
            connections.cancel_scope.cancel()

    def _open_engine(self, connections: trio.Nursery) -> SocketEngine:
        """The engine of all sockets; the first call makes it."""
        if self.engine is None:
            batcher = self._dispatcher.batcher
            self.engine = SocketEngine(
                self._forget,
                self._clock,
                self._scheduler,
                self._log,
                batcher,
                stall_watch=self._dispatcher.stall_watch,
            )
            connections.start_soon(self.engine.run)
        return self.engine

    def make_transport(self, link: Link) -> Transport:
        """What will move the bytes of a link's next connection."""
        if self.engine is not None and self._open_stream is None:
            return LinkSocket(self.engine, link)
        return LinkStream(link, self._open_stream or trio.open_tcp_stream, self._scheduler)

    async def _accept(self, name: str, listener: trio.abc.Listener[Any], connections: trio.Nursery) -> None:
        """Accept the connections of a listener of streams."""
        async with listener:
            while True:
                try:
                    stream = await listener.accept()
                except OSError as error:
                    if error.errno not in NO_DESCRIPTORS:
                        raise
                    self._log.error("cannot accept", CANNOT_ACCEPT, error.strerror, PAUSE_MS)
                    await trio.sleep(PAUSE_MS / 1000)
                else:
                    connections.start_soon(self._handle, name, stream)

    def _admit(self, name: str, engine: SocketEngine, sock: socket.socket) -> SocketDriver | None:
        """Make the driver of an engine's connection; None if the limits refuse it."""
        connection = self._connect(client_of(name, sock))
        if connection is None:
            return None
        self._tune(sock)
        tls = self._tls.get(name)
        driver = SocketDriver(engine, sock, connection) if tls is None else self._secure(engine, sock, connection, tls)
        self._remember(driver)
        return driver

    def _secure(self, engine: SocketEngine, sock: socket.socket, connection: Connection, tls: ListenerTls) -> TlsDriver:
        from headgate.gateway.network.tls.driver import TlsDriver
        from headgate.gateway.network.tls.handshakes import TlsHandshakes

        if self._handshakes is None:
            self._handshakes = TlsHandshakes(self._scheduler)
        return TlsDriver(engine, sock, connection, tls, self._handshakes, self._limits.authentication_timeout_ms)

    async def _handle(self, name: str, stream: trio.abc.Stream) -> None:
        """Serve one connection of a stream listener to its end."""
        sock = socket_of(stream)
        connection = self._connect(client_of(name, sock))
        if connection is None:
            await trio.aclose_forcefully(stream)
            return
        if sock is not None:
            self._tune(sock)
        tls = self._tls.get(name)
        if tls is not None:
            stream = trio.SSLStream(stream, tls.context, server_side=True, https_compatible=True)
        driver = StreamDriver(stream, connection, self._clock, self._log, stall_watch=self._dispatcher.stall_watch)
        self._remember(driver)
        self._count_stream(1)
        try:
            if tls is None or await self._shake_hands(cast("trio.SSLStream[Any]", stream), connection, tls):
                await driver.run()
        finally:
            self._count_stream(-1)
            self._forget(driver)

    async def _shake_hands(self, stream: trio.SSLStream[Any], connection: Connection, tls: ListenerTls) -> bool:
        """Do the TLS handshake of a stream. False after a failure: the connection is closed."""
        from headgate.gateway.network.tls.streams import shake_hands
        from headgate.gateway.network.tls.tls_socket import TlsError

        try:
            timeout_ms = self._limits.authentication_timeout_ms
            connection.client.principal = await shake_hands(stream, tls, timeout_ms)
        except (TlsError, trio.BrokenResourceError) as error:
            connection.close(str(error) if isinstance(error, TlsError) else None)
            connection.finish()
            await trio.aclose_forcefully(stream)
            return False
        return True

    def _count_stream(self, change: int) -> None:
        if self.engine is not None:
            self.engine.stream_count += change

    def _connect(self, client: Client) -> Connection | None:
        refusal = self._refusal(client.remote_host)
        if refusal is not None:
            self._log.warning(f"refused {client.remote_host}", "refused a connection from %s: %s", client, refusal)
            return None
        limits = self._limits
        connection = Connection(client, self._dispatcher, limits.max_frame_bytes, self._memory, self._report_fault)
        connection.active_ms = self._clock.monotonic_ms()
        client.put_first = self._put_first
        if self._logins is not None:
            self._logins.begin(connection, self._dispatcher)
        if self._dispatcher.has_quota:
            client.mute = partial(connection.mute, self._scheduler)
        return connection

    def _remember(self, driver: Driver) -> None:
        self.drivers[driver] = None
        self._by_address[driver.connection.client.remote_host] += 1

    def put_first(self, client: Client) -> None:
        """Serve the connection of another broker before those of clients."""
        for driver in self.drivers:
            if driver.connection.client is client and isinstance(driver, SocketDriver):
                driver.put_first()

    def _report_fault(self, client: Client, reason: str) -> None:
        shown = reason if len(reason) <= SHOWN_REASON else reason[:SHOWN_REASON] + "..."
        shown = shown.encode("unicode_escape").decode("ascii")  # a client's text cannot forge a log line of ours
        self._log.warning(f"closed {client.remote_host}", "closing the connection of %s: %s", client, shown)

    def _forget(self, driver: Driver) -> None:
        del self.drivers[driver]
        address = driver.connection.client.remote_host
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
        if not self.drivers and self._accepting.cancel_called:
            self._all_gone.set()

    def _refusal(self, address: str) -> str | None:
        if len(self.drivers) >= self._limits.max_descriptors:
            kept = f"{len(self.drivers)} are open; the other descriptors of this process are reserved for files"
            return f"{kept}; raise the limit on open files (`ulimit -Hn`), or close some connections"
        if len(self.drivers) >= self._limits.max_connections:
            return f"max.connections={self._limits.max_connections} are open; raise it, or close some"
        if self._by_address[address] >= self._limits.max_connections_per_ip:
            return f"max.connections.per.ip={self._limits.max_connections_per_ip} are open from that address"
        quotas = self._dispatcher.quotas
        return None if quotas is None else quotas.refuse_connection(address, self._clock.monotonic_ms())

    def _tune(self, sock: Socket) -> None:
        if self._limits.send_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._limits.send_buffer_bytes)
        if self._limits.receive_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._limits.receive_buffer_bytes)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, _NOTSENT_LOWAT, 0x7FFF_FFFF)
        except OSError:
            logger.debug("TCP_NOTSENT_LOWAT cannot be set here")

    async def _sweep(self) -> None:
        """Close connections that are idle too long, or hold an incomplete frame too long."""
        while True:
            await trio.sleep(SWEEP_INTERVAL_S)
            self._log.report_suppressed()
            now_ms = self._clock.monotonic_ms()
            for driver in list(self.drivers):
                reason = self.overdue(driver, now_ms)
                if reason is not None:
                    driver.connection.close(reason)
                    driver.abort()

    def overdue(self, driver: Driver, now_ms: float) -> str | None:
        """The reason to close a connection, or None. Only the client's delays count, not time that the broker takes."""
        connection = driver.connection
        since_ms = connection.incomplete_since_ms
        if since_ms is not None and driver.is_reading and now_ms - since_ms > FRAME_DEADLINE_MS:
            return f"a request did not grow for {FRAME_DEADLINE_MS // 1000} s"
        if not driver.awaits_broker and 0 < self._limits.max_idle_ms < now_ms - connection.active_ms:
            return f"idle for longer than connections.max.idle.ms={self._limits.max_idle_ms}"
        return None

    async def stop(self, grace_s: float) -> None:
        """Accept nothing more, let every connection send its replies for at most `grace_s` seconds, then close all."""
        self._accepting.cancel()
        if self.engine is not None:
            self.engine.stop_accepting()
        for driver in list(self.drivers):
            driver.drain()
        if self.drivers:
            with trio.move_on_after(grace_s):
                await self._all_gone.wait()
        self.stopped.set()


def socket_of(stream: trio.abc.Stream) -> trio.socket.SocketType | None:
    """The socket below a stream, through all TLS layers; None for a stream in memory."""
    while isinstance(stream, trio.SSLStream):
        stream = stream.transport_stream
    return stream.socket if isinstance(stream, trio.SocketStream) else None


def client_of(listener: str, sock: Socket | None) -> Client:
    """The client at the other end of a socket. `sock` is None for a stream in memory."""
    if sock is None:
        return Client("memory", 0, "memory", 0, listener)
    try:
        remote, local = sock.getpeername(), sock.getsockname()
    except OSError:  # the client disconnected already
        return Client("unknown", 0, "unknown", 0, listener)
    return Client(_host(remote[0]), remote[1], _host(local[0]), local[1], listener)


def _host(address: str) -> str:
    """The usual form of an address: an IPv4 client of a dual-stack socket has an IPv4 address in logs and replies."""
    return address.removeprefix("::ffff:") if "." in address else address
