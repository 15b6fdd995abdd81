"""The server: admits connections on its listeners, and keeps them from the first byte to shutdown."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import trio

from headgate.gateway.api.context import Client
from headgate.gateway.api.dispatch import Dispatcher
from headgate.gateway.config.addresses import IpNetwork
from headgate.gateway.network import sockets
from headgate.gateway.network.admission.connection_quotas import ConnectionQuotas, Limits
from headgate.gateway.network.admission.proxies import ProxySocket, is_trusted
from headgate.gateway.network.admission.proxy_header import MalformedProxyHeader
from headgate.gateway.network.admission.streams import read_header
from headgate.gateway.network.admission.unauthenticated import UnauthenticatedConnections
from headgate.gateway.network.connection import Connection
from headgate.gateway.network.epoll import READING
from headgate.gateway.network.link_socket import LinkSocket
from headgate.gateway.network.link_stream import LinkStream, OpenStream
from headgate.gateway.network.links import Link, Transport
from headgate.gateway.network.socket_driver import EngineSocket, SocketDriver
from headgate.gateway.network.sockets import CANNOT_ACCEPT, NO_DESCRIPTORS, PAUSE_MS, SocketEngine
from headgate.gateway.network.streams import StreamDriver
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.log_output import LimitedLog
from headgate.gateway.runtime.memory_budget import MemoryBudget
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.security.quotas.rates import USUAL_WINDOWS, Windows
from headgate.protocol.acls import ANONYMOUS

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
MAX_DELAYED_CLOSES = 1_000
"""Refused connections that may wait for their end; more are closed at once."""


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
        proxies: Mapping[str, Sequence[IpNetwork]] = MappingProxyType({}),
        windows: Windows = USUAL_WINDOWS,
        link_tls: ListenerTls | None = None,
    ) -> None:
        """`open_stream` makes the connections of links; None: TCP, by the engine where there is one.

        `tls`: the settings of the listeners that speak TLS, by name. `logins`: has clients log in. `proxies`: the
        networks of trusted proxies, by the name of a listener. `windows`: those of the rates of new connections.
        `link_tls`: the settings of the listener between brokers, if links speak TLS.
        """
        self.drivers: dict[Driver, None] = {}
        self.engine: SocketEngine | None = None
        self._open_stream = open_stream
        self._tls = tls
        self._logins = logins
        self._link_tls = link_tls
        self._handshakes: TlsHandshakes | None = None
        self._dispatcher = dispatcher
        self._limits = limits
        self._proxies = proxies
        self._quotas = ConnectionQuotas(limits, windows)
        self._unauthenticated = UnauthenticatedConnections()
        self._delayed_closes = 0
        self._clock = clock
        self._scheduler = scheduler
        self._log = LimitedLog(logger, clock)
        self.memory = MemoryBudget(limits.max_memory_bytes)
        self._put_first = self.put_first  # one object for all clients
        self._accepting = trio.CancelScope()
        self.stopped = trio.Event()
        self._all_gone = trio.Event()
        self.on_end: Callable[[Client], None] | None = None
        """Called with the client of each connection that has ended."""

    def limit(self, limits: Limits) -> None:
        """Admit new connections by these limits; open ones stay. The memory budget and open sockets do not change."""
        self._limits = self._quotas.limits = limits

    def follow_request_log(self) -> None:
        """Trace the requests of all open connections, or none; call this once the request log is on or off."""
        request_log = self._dispatcher.request_log
        if request_log is not None:
            for driver in self.drivers:
                driver.connection.trace = request_log.trace(driver.connection.client)

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
                            engine = self._open_engine(connections)
                            engine.listen(bound, partial(self._admit, name), partial(self._record, name))
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
        context = None if self._link_tls is None else self._link_tls.client_context
        if self.engine is None or self._open_stream is not None:
            return LinkStream(link, self._open_stream or trio.open_tcp_stream, self._scheduler, context)
        if context is None:
            return LinkSocket(self.engine, link)
        from headgate.gateway.network.tls.link_socket import TlsLinkSocket

        return TlsLinkSocket(self.engine, link, context, self._handshake_threads())

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
                    await trio.sleep(self._record(name) / 1000)

    def _record(self, name: str) -> int:
        """Account for an accepted connection. Returns for how many ms the listener accepts no other one."""
        return self._quotas.record(name, self._clock.monotonic_ms())

    # Sockets of the engine

    def _admit(self, name: str, engine: SocketEngine, sock: socket.socket) -> EngineSocket | None:
        """Make the driver of an engine's connection; None if the limits refuse it."""
        client = client_of(name, sock)
        if not self._make_room(client):
            return None
        self._tune(sock)
        self._quotas.opened(name)
        if not self._is_proxy(client):
            return self._open(engine, sock, client)

        def close(reason: str) -> None:
            self._scheduler.call_soon(partial(proxy.close, reason))

        def resume(sock: socket.socket, client: Client) -> None:
            unauthenticated.end()
            driver = None if self._accepting.cancel_called else self._open(engine, sock, client)
            if driver is None:
                sock.close()
                return
            try:
                engine.add(driver, READING)
            except OSError:
                engine.drop(sock)

        def gone() -> None:
            unauthenticated.end()
            self._quotas.closed(name)

        unauthenticated = self._unauthenticated.add(close, self._clock.monotonic_ms())
        timeout_ms = self._limits.authentication_timeout_ms
        proxy = ProxySocket(engine, sock, client, timeout_ms, resume, gone, self._report_fault)
        return proxy

    def _open(self, engine: SocketEngine, sock: socket.socket, client: Client) -> SocketDriver | None:
        """Make the driver of a client that is known by its address; None if the limits refuse it."""
        throttle_ms = self._refuse_address(client)
        if throttle_ms is not None:
            self._quotas.closed(client.listener)
            self._close_later(sock, throttle_ms)
            return None
        connection = self._connect(client)
        tls = self._tls.get(client.listener)
        driver = SocketDriver(engine, sock, connection) if tls is None else self._secure(engine, sock, connection, tls)
        if tls is not None or connection.needs_login:
            self._note_unauthenticated(connection, lambda: self._scheduler.call_soon(driver.abort))
        self._remember(driver)
        return driver

    def _secure(self, engine: SocketEngine, sock: socket.socket, connection: Connection, tls: ListenerTls) -> TlsDriver:
        from headgate.gateway.network.tls.driver import TlsDriver

        timeout_ms = self._limits.authentication_timeout_ms
        return TlsDriver(engine, sock, connection, tls, self._handshake_threads(), timeout_ms)

    def _handshake_threads(self) -> TlsHandshakes:
        if self._handshakes is None:
            from headgate.gateway.network.tls.handshakes import TlsHandshakes

            self._handshakes = TlsHandshakes(self._scheduler, self._report_login)
        return self._handshakes

    def _close_later(self, sock: socket.socket, throttle_ms: int) -> None:
        """Take a refused socket over for a while: a client that is refused at once returns at once."""
        room = min(MAX_DELAYED_CLOSES, self._limits.max_descriptors - self._quotas.total)
        if throttle_ms and self._delayed_closes < room:
            self._delayed_closes += 1
            held = socket.socket(fileno=sock.detach())

            def close() -> None:
                self._delayed_closes -= 1
                held.close()

            self._scheduler.call_after(throttle_ms, close)

    # Streams

    def _report_login(self, client: Client) -> None:
        """Report a client that a certificate names, unless the client has yet to log in by SASL."""
        audit, has_logins = (
            self._dispatcher.audit,
            self._logins is not None and client.listener in self._logins.listeners,
        )
        if audit is not None and client.principal != ANONYMOUS and not has_logins:
            audit.report_login(client, "TLS")

    async def _handle(self, name: str, stream: trio.abc.Stream) -> None:
        """Serve one connection of a stream listener to its end."""
        sock = socket_of(stream)
        client = client_of(name, sock)
        if not self._make_room(client):
            await trio.aclose_forcefully(stream)
            return
        if sock is not None:
            self._tune(sock)
        self._quotas.opened(name)
        try:
            known = await self._read_header(stream, client) if self._is_proxy(client) else client
            throttle_ms = None if known is None else self._refuse_address(known)
            if throttle_ms is not None:
                await trio.sleep(throttle_ms / 1000)
            elif known is not None:
                await self._serve_stream(stream, known)
        finally:
            self._quotas.closed(name)
            await trio.aclose_forcefully(stream)

    async def _read_header(self, stream: trio.abc.Stream, proxy: Client) -> Client | None:
        """The client behind a proxy; None after a failure."""

        def close(reason: str) -> None:
            self._report_fault(proxy, reason)
            scope.cancel()

        with trio.CancelScope() as scope:
            unauthenticated = self._unauthenticated.add(close, self._clock.monotonic_ms())
            try:
                return await read_header(stream, proxy, self._limits.authentication_timeout_ms)
            except MalformedProxyHeader as error:
                self._report_fault(proxy, str(error))
            finally:
                unauthenticated.end()
        return None

    async def _serve_stream(self, stream: trio.abc.Stream, client: Client) -> None:
        connection, tls = self._connect(client), self._tls.get(client.listener)
        if tls is not None:
            stream = trio.SSLStream(stream, tls.context, server_side=True, https_compatible=True)
        driver = StreamDriver(stream, connection, self._clock, self._log, stall_watch=self._dispatcher.stall_watch)
        self._remember(driver)
        self._count_stream(1)
        with trio.CancelScope() as scope:
            if tls is not None or connection.needs_login:
                self._note_unauthenticated(connection, scope.cancel)
            try:
                if tls is None or await self._shake_hands(cast("trio.SSLStream[Any]", stream), connection, tls):
                    await driver.run()
            finally:
                self._count_stream(-1)
                connection.finish()
                self._forget(driver)

    async def _shake_hands(self, stream: trio.SSLStream[Any], connection: Connection, tls: ListenerTls) -> bool:
        """Do the TLS handshake of a stream. False after a failure: the connection is closed."""
        from headgate.gateway.network.tls.streams import shake_hands
        from headgate.gateway.network.tls.tls_socket import TlsError

        try:
            timeout_ms = self._limits.authentication_timeout_ms
            connection.client.principal = await shake_hands(stream, tls, timeout_ms)
            self._report_login(connection.client)
        except (TlsError, trio.BrokenResourceError) as error:
            connection.close(str(error) if isinstance(error, TlsError) else None)
            connection.finish()
            await trio.aclose_forcefully(stream)
            return False
        if not connection.needs_login:
            connection.authenticated()
        return True

    def _count_stream(self, change: int) -> None:
        if self.engine is not None:
            self.engine.stream_count += change

    # What every connection needs

    def _is_proxy(self, client: Client) -> bool:
        networks = self._proxies.get(client.listener)
        return networks is not None and is_trusted(client.remote_host, networks)

    def _make_room(self, client: Client) -> bool:
        """Whether a new connection may be open; if need be, another one ends for it."""
        quotas, name = self._quotas, client.listener
        refusal = quotas.refuse_listener(name) or quotas.refuse_broker()
        if refusal is not None and quotas.is_protected(name) and quotas.refuse_listener(name) is None:
            refusal = None if self._close_idlest() else refusal
        if refusal is None and (name in self._tls or name in self._proxies or self._has_logins(name)):
            now_ms, most = self._clock.monotonic_ms(), self._limits.max_unauthenticated
            refusal = self._unauthenticated.make_room(most, now_ms)
            refusal = None if quotas.is_protected(name) else refusal
        if refusal is not None:
            self._refuse(client, refusal)
        return refusal is None

    def _has_logins(self, name: str) -> bool:
        return self._logins is not None and name in self._logins.listeners

    def _close_idlest(self) -> bool:
        """Have the connection end that has been idle for longest, to make room for a broker. False without one."""
        others = [
            driver
            for driver in self.drivers
            if not self._quotas.is_protected(driver.connection.client.listener) and not driver.connection.closing
        ]
        if not others:
            return False
        idlest = min(others, key=lambda driver: (driver.awaits_broker, driver.connection.active_ms))
        idlest.connection.close("max.connections are open, and a broker needs this one")
        self._scheduler.call_soon(idlest.abort)
        return True

    def _refuse_address(self, client: Client) -> int | None:
        """After how many ms to close a new connection of an address that is beyond its limits; None: serve it."""
        address = client.remote_host
        refusal, throttle_ms = self._quotas.refuse_address(address), 0
        if refusal is None and self._dispatcher.quotas is not None:
            throttle_ms, refusal = self._dispatcher.quotas.refuse_connection(address, self._clock.monotonic_ms())
        if refusal is None:
            return None
        self._refuse(client, refusal)
        return throttle_ms

    def _refuse(self, client: Client, refusal: str) -> None:
        self._log.warning(f"refused {client.remote_host}", "refused a connection from %s: %s", client, refusal)

    def _connect(self, client: Client) -> Connection:
        limits = self._limits
        connection = Connection(client, self._dispatcher, limits.max_frame_bytes, self.memory, self._report_fault)
        connection.opened_ms = connection.active_ms = self._clock.monotonic_ms()
        client.put_first = self._put_first
        if self._logins is not None:
            self._logins.begin(connection, self._dispatcher)
        client.connection = connection
        if self._dispatcher.request_log is not None:
            connection.trace = self._dispatcher.request_log.trace(client)
        return connection

    def _note_unauthenticated(self, connection: Connection, abort: Callable[[], object]) -> None:
        def close(reason: str) -> None:
            connection.close(reason)
            abort()

        connection.unauthenticated = self._unauthenticated.add(close, self._clock.monotonic_ms())

    def _remember(self, driver: Driver) -> None:
        self.drivers[driver] = None
        self._quotas.opened_from(driver.connection.client.remote_host)

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
        client = driver.connection.client
        if self.on_end is not None:
            self.on_end(client)
        self._quotas.closed_from(client.remote_host)
        if isinstance(driver, SocketDriver):
            self._quotas.closed(client.listener)
        if not self.drivers and self._accepting.cancel_called:
            self._all_gone.set()

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
