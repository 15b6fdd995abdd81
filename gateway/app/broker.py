"""The broker: owns the nursery and the listeners, starts and stops the parts (`composition.py`)."""

from __future__ import annotations

import gc
import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence, Sized
from typing import TYPE_CHECKING

import trio

from headgate.gateway.app.composition import BrokerParts, Seams
from headgate.gateway.app.ready_line import ready_line
from headgate.gateway.app.serving_state import ServingState
from headgate.gateway.config import BrokerConfig
from headgate.gateway.network.addresses import Addresses, listen
from headgate.storage.errors import StorageError

if TYPE_CHECKING:  # a broker without a service manager imports none of it
    from headgate.gateway.service.service_manager import ServiceManager

logger = logging.getLogger("headgate.broker")

# The time at a stop for requests in flight to be answered and sent.
SHUTDOWN_GRACE_S = 1.0
# The garbage collector runs after so many new objects. A parked fetch has thirty: with Python's 700, the collector
# scanned the fetches of 500 waiting consumers again and again, for a seventh of their cost.
YOUNG_OBJECTS = 20_000
# After so many new partitions the collector freezes them: a scan of the partitions of 10,000 topics took 170 ms.
FREEZE_PARTITIONS = 100
MAX_BACKLOG = 0xFFFF  # some systems take no more than 16 bits of it


STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def serve(
    config: BrokerConfig, started: Callable[[], None], addresses: Addresses, service: ServiceManager | None = None
) -> None:
    """Run a broker until SIGTERM or SIGINT; a second one ends the process at once.

    `service`: the service manager that has started the process. Raises the error that prevents a start, before
    `started` is called.
    """
    trio.run(_serve, config, started, addresses, service)


async def _serve(
    config: BrokerConfig, started: Callable[[], None], addresses: Addresses, service: ServiceManager | None
) -> None:
    gc.disable()  # most objects of a start stay: repeated scans of them take a tenth of the start
    broker = Broker(config, addresses=addresses)
    with trio.open_signal_receiver(*STOP_SIGNALS, *_reload_signals(broker.parts, service)) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_obey, signals, broker, service, nursery.cancel_scope)
            if service is not None:
                service.follow(broker.services.scheduler, broker.describe)
            await nursery.start(broker.run)
            started()
            print(broker.ready_line(), flush=True)  # noqa: T201  the only output on stdout
            if service is not None:
                service.ready()
            gc.collect()
            gc.freeze()  # the objects so far stay: the collector need not scan them again
            broker.parts.log_loader.when_done(gc.freeze)
            broker.services.metadata.on_change(freezing(broker.services.partitions))
            gc.set_threshold(YOUNG_OBJECTS)
            gc.enable()


async def _obey(
    signals: AsyncIterator[int], broker: Broker, service: ServiceManager | None, start: trio.CancelScope
) -> None:
    """Reload stores, and stop; `start` is cancelled if the broker does not serve yet."""
    async for number in signals:
        if number not in STOP_SIGNALS:
            _reload(broker.parts, service)
            continue
        for stop_signal in STOP_SIGNALS:  # the system ends the process then, whatever its loop does
            signal.signal(stop_signal, signal.SIG_DFL)
        name = signal.Signals(number).name
        logger.info("stopping: %s; a second one ends the process at once", name)
        if service is not None:
            service.stopping(name)
        if broker.state.is_open:
            await broker.stop()
        else:
            start.cancel()
        if service is not None:
            service.closing()
        return


def _check_console(config: BrokerConfig) -> None:
    """Check the files of the console's settings. Raises ConfigError."""
    if config.headgate_console_listeners and (
        config.headgate_console_schemas or config.headgate_console_descriptor_set
    ):
        from headgate.gateway.console.console_listener import check_files

        check_files(config)


def _reload(parts: BrokerParts, service: ServiceManager | None) -> None:
    if service is None:
        parts.reload_tls()
        return
    service.reloading()
    parts.reload_tls(service.ready)


def _reload_signals(parts: BrokerParts, service: ServiceManager | None) -> list[signal.Signals]:
    """The signals that reload stores of TLS, or come from the rotation of an audit log, which needs none.

    Without both, and without a service manager, SIGHUP ends the process, as the system has it.
    """
    return [signal.SIGHUP] if (parts.tls or parts.audit or service) and hasattr(signal, "SIGHUP") else []


def freezing(partitions: Sized) -> Callable[..., None]:
    """A callback that excludes partitions from garbage collection, whenever there are many new ones.

    No partition needs the collector: the last reference frees a deleted one.
    """
    frozen = len(partitions)

    def freeze(*_: object) -> None:
        nonlocal frozen
        count = len(partitions)
        if count >= frozen + FREEZE_PARTITIONS:
            gc.freeze()
        elif count > frozen:
            return
        frozen = count

    return freeze


class Broker:
    """One node: its parts, their nursery, and its listeners."""

    def __init__(self, config: BrokerConfig, seams: Seams | None = None, addresses: Addresses | None = None) -> None:
        """Bind `addresses` before anything is written; without them, `run` binds them. Raises StorageError, OSError."""
        self.config = config
        self._addresses = Addresses.of(config) if addresses is None else addresses
        self._ports: dict[str, int] = {}
        try:
            _check_console(config)
            self.parts = BrokerParts(config, seams or Seams(), self._addresses.bind if addresses else lambda: None)
        except BaseException:
            self._addresses.close()
            raise
        self.services = self.parts.services
        self.server = self.parts.server
        self.state = ServingState.begin(self.parts.clock)

    @property
    def endpoints(self) -> list[str]:
        """The addresses that clients connect to, with their ports."""
        return self.state.endpoints

    async def run(
        self,
        listeners: Sequence[tuple[str, trio.abc.Listener[trio.abc.Stream]]] | None = None,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve on `listeners`, or the configured ones, until `stop` or cancelled; then close the log manager."""
        try:
            if listeners is None:
                listeners = self._listen()
            else:
                self._addresses = Addresses((), self.config.headgate_http_listeners if self.config.wants_http else ())
                self._addresses.bind()
            async with trio.open_nursery() as nursery:
                await nursery.start(self.services.scheduler.run)
                self._serve_http(nursery)
                self._serve_console(nursery)
                self.parts.start()
                await nursery.start(self.server.serve, listeners)
                await self._announce()
                self.state.is_open = True
                task_status.started()
                await self.server.stopped.wait()
                nursery.cancel_scope.cancel()
        finally:
            self._addresses.close()
            self.parts.close()

    async def _announce(self) -> None:
        """Register this broker where clients look for brokers. Raises StorageError."""
        ended, errors = trio.Event(), list[StorageError | None]()

        def announced(error: StorageError | None) -> None:
            errors.append(error)
            ended.set()

        self.parts.announce(self._ports, announced)
        await ended.wait()
        for error in filter(None, errors):
            raise error

    def _serve_http(self, nursery: trio.Nursery) -> None:
        """Serve HTTP where that is configured. Raises OSError if nothing can listen there."""
        if not self._addresses.http:
            return
        from headgate.gateway.app.http_resources import make_resources
        from headgate.gateway.http.http_listener import BACKLOG, HttpListener, Security

        opened: dict[bool, list[trio.SocketListener]] = {}
        for address, bound in self._addresses.listen_http(BACKLOG):
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(bound))
            opened.setdefault(address.has_tls, []).append(listener)
            self.state.http_endpoints.append(str(address._replace(port=listener.socket.getsockname()[1])))
        if not opened:
            return
        logger.info("metrics, health and JSON are served at %s", ", ".join(self.state.http_endpoints))
        resources = make_resources(self.parts, self.state)
        self.parts.lag.start()
        for has_tls, listeners in opened.items():
            security = Security(self.parts.http_access(), self.services.clock) if has_tls else None
            nursery.start_soon(HttpListener(resources, security).serve, listeners)

    def _serve_console(self, nursery: trio.Nursery) -> None:
        """Hold the console's addresses. Raises OSError if nothing can listen there."""
        console = self._addresses.console
        if console is None or not console.http:
            return
        from headgate.gateway.console import console_listener

        if not console_listener.is_installed():
            level = logging.WARNING if self.config.wants_console else logging.INFO
            logger.log(level, "%s", console_listener.MISSING)
            console.close()
            return
        sockets = []
        for address, bound in console.listen_http(console_listener.BACKLOG):
            sockets.append(bound)
            self.state.console_endpoints.append(str(address._replace(port=bound.getsockname()[1])))
        if sockets:
            logger.info("the console is at %s", ", ".join(self.state.console_endpoints))
            command = console_listener.make_command(self.config, self.endpoints, self.state.http_endpoints)
            nursery.start_soon(console_listener.ConsoleListener(sockets, command).serve)

    def ready_line(self) -> str:
        """The line that says where this broker serves."""
        return ready_line(self.config, self.endpoints, self.state.http_endpoints, self.state.console_endpoints)

    def describe(self) -> tuple[str, bool]:
        """The state in one line, and whether it may change within seconds."""
        loader = self.parts.log_loader
        opening = None if loader.is_done else loader.progress
        return self.state.describe(len(self.server.drivers), opening, self.parts.clock.monotonic_ms())

    async def stop(self) -> None:
        """Let other brokers lead, answer the requests in flight, then end `run`."""
        self.state.is_stopping = True
        has_left = trio.Event()
        self.parts.leave(lambda _: has_left.set())
        await has_left.wait()
        self.parts.stop()
        await self.server.stop(SHUTDOWN_GRACE_S)

    def _listen(self) -> list[tuple[str, trio.SocketListener]]:
        self._addresses.bind()
        opened: list[tuple[str, trio.SocketListener]] = []
        for name, bound in self._addresses.sockets:
            listener = _listening(bound, self.config.socket_listen_backlog_size)
            opened.append((name, listener))
            host, port = listener.socket.getsockname()[:2]
            self._ports.setdefault(name, port)  # a name with several addresses opens several
            self.endpoints.append(f"{name}://{f'[{host}]' if ':' in host else host}:{port}")
        return opened


def _listening(bound: socket.socket, backlog: int) -> trio.SocketListener:
    listen(bound, min(backlog, MAX_BACKLOG))
    return trio.SocketListener(trio.socket.from_stdlib_socket(bound))
