"""The network of a simulated cluster: connections between hosts, with delays and cuts.

A cut has a direction. Bytes on a cut way wait, as TCP sends them again, and arrive once the way is whole. Where a host
dies, the other side of a connection learns of it by a reset; behind a cut it does not, until the way is whole again:
the connection is half open. `break_connections` resets what stands between two hosts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from headgate.gateway.api.context import Client
from headgate.gateway.network.connection import Connection
from headgate.gateway.network.links import Link, Transport
from headgate.gateway.runtime.memory_budget import MemoryBudget
from headgate.gateway.tests.simulation.world import Host, World
from headgate.storage.segment.file_slice import FileSlice

if TYPE_CHECKING:
    from headgate.gateway.app.composition import BrokerParts

MAX_FRAME_BYTES = 100 << 20


class Listening(Protocol):
    """A host that takes connections."""

    parts: BrokerParts


class Network:
    """All ways between hosts, by their names."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.listening: dict[int, tuple[Host, BrokerParts]] = {}
        """The brokers, by port."""
        self.cut_ways: set[tuple[str, str]] = set()
        self.delay_ms = 0.5
        self.keeper_delay_ms = 0.0
        """How much longer ZooKeeper takes than the others."""
        self._connections: list[MemoryConnection] = []

    def transports(self, host: Host) -> Callable[[Link], Transport]:
        """What makes the transports of a host's links."""
        return partial(MemoryConnection, self, host)

    def delay(self) -> float:
        """How long something is under way."""
        return self.delay_ms * (0.2 + self.world.random.random())

    def is_cut(self, sender: str, receiver: str) -> bool:
        return (sender, receiver) in self.cut_ways

    def cut(self, sender: str, receiver: str) -> None:
        self.cut_ways.add((sender, receiver))

    def heal(self, sender: str, receiver: str) -> None:
        """Make a way whole: what has waited goes on."""
        self.cut_ways.discard((sender, receiver))
        for connection in list(self._connections):
            connection.go_on(sender, receiver)

    def break_connections(self, one: str, other: str) -> None:
        """Reset the connections between two hosts."""
        for connection in list(self._connections):
            if {connection.client.name, connection.server_name} == {one, other}:
                connection.reset_both()

    def host_died(self, host: Host) -> None:
        """Nothing comes from a host any more; the others get a reset, if one gets through."""
        for connection in list(self._connections):
            connection.host_died(host)

    def opened(self, connection: MemoryConnection) -> None:
        self._connections.append(connection)

    def closed(self, connection: MemoryConnection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)


class _Way:
    """One direction of a connection."""

    def __init__(self, sender: str, receiver: str, arrive: Callable[[Callable[[], None]], None]) -> None:
        self.sender, self.receiver = sender, receiver
        self.arrive = arrive
        self.queue: deque[Callable[[], None]] = deque()
        self.is_waiting = False


class MemoryConnection:
    """One connection of a link: its transport, and the connection of the broker at the other end."""

    def __init__(self, network: Network, client: Host, link: Link) -> None:
        self.client = client
        self.server: Host | None = None
        self.server_name = f"broker {link.port - 9_100}"
        self._network = network
        self._link = link
        self._connection: Connection | None = None
        self._is_open = True  # at the client's end
        self._to_server = _Way(client.name, self.server_name, self._at_server)
        self._to_client = _Way(self.server_name, client.name, client.deliver)
        network.opened(self)

    # The client's end

    def start(self) -> None:
        self._send(self._to_server, self._accept)

    def wake(self) -> None:
        self._link_scheduler_call(self._take)

    def abort(self) -> None:
        self._is_open = False
        self._send(self._to_server, self._finish)

    def _link_scheduler_call(self, callback: Callable[[], None]) -> None:
        self.client.scheduler.call_soon(callback)

    def _take(self) -> None:
        data = self._link.take() if self._is_open else b""
        if data:
            self._send(self._to_server, partial(self._receive, data))

    def _connected(self) -> None:
        if self._is_open:
            self._link.connected()

    def _answered(self, data: bytes) -> None:
        if self._is_open:
            self._link.receive(data)

    def _lost(self) -> None:
        if self._is_open:
            self._is_open = False
            self._forget()
            self._link.lost("the connection was reset")

    # The ways

    def _send(self, way: _Way, arrive: Callable[[], None]) -> None:
        way.queue.append(arrive)
        self._network.world.after(self._network.delay(), partial(self._arrive, way))

    def _arrive(self, way: _Way) -> None:
        """The oldest of this way arrives, if the way is whole."""
        if self._network.is_cut(way.sender, way.receiver):
            way.is_waiting = True
        elif way.queue and not way.is_waiting:
            way.arrive(way.queue.popleft())

    def go_on(self, sender: str, receiver: str) -> None:
        """A way is whole again."""
        for way in (self._to_server, self._to_client):
            if way.is_waiting and (way.sender, way.receiver) == (sender, receiver):
                way.is_waiting = False
                for _ in range(len(way.queue)):
                    self._network.world.after(self._network.delay(), partial(self._arrive, way))

    def _at_server(self, arrive: Callable[[], None]) -> None:
        if self.server is None:
            arrive()
        elif self.server.is_running:
            self.server.deliver(arrive)
        else:  # what arrives at a host that knows no such connection is answered by a reset
            self._reset()

    def _reset(self) -> None:
        self._forget()
        self._send(self._to_client, self._lost)

    def reset_both(self) -> None:
        """Both ends learn that the connection is gone."""
        self._to_server.queue.clear()
        self._to_client.queue.clear()
        self._send(self._to_server, self._finish)
        self._reset()

    def host_died(self, host: Host) -> None:
        """A process at one end is gone."""
        if host is self.client:
            self._is_open = False
            self._send(self._to_server, self._finish)
        elif host is self.server:
            self._to_client.queue.clear()
            self._connection = None
            self._reset()

    # The broker's end

    def _accept(self) -> None:
        found = self._network.listening.get(self._link.port)
        if found is None:
            self._reset()
            return
        self.server, parts = found
        self.server.deliver(partial(self._open, parts))

    def _open(self, parts: BrokerParts) -> None:
        assert self.server is not None
        client = Client("127.0.0.1", 1, "127.0.0.1", self._link.port)
        self._connection = Connection(
            client, parts.dispatcher, MAX_FRAME_BYTES, MemoryBudget(MAX_FRAME_BYTES), self._refuse
        )
        self._connection.wake = partial(self.server.scheduler.call_soon, self._answer)
        self._send(self._to_client, self._connected)

    def _refuse(self, _client: Client, reason: str) -> None:
        raise AssertionError(f"{self.server_name} refuses a request of {self.client.name}: {reason}")

    def _receive(self, data: bytes) -> None:
        if self._connection is not None:
            self._connection.receive(memoryview(bytearray(data)), self._network.world.now_ms)
            self._answer()

    def _answer(self) -> None:
        connection = self._connection
        pieces = bytearray()
        while connection is not None and (connection.outgoing or connection.has_more):
            while connection.outgoing:
                piece = connection.take()
                if isinstance(piece, FileSlice):
                    data, length = piece.read(), piece.length
                    piece.release()
                    if len(data) < length:  # the file was cut since: a server ends the connection
                        self.reset_both()
                        return
                    pieces += data
                else:
                    assert isinstance(piece, bytes | bytearray | memoryview)
                    pieces += piece
            connection.release_answered()
            connection.proceed()
        if pieces:
            self._send(self._to_client, partial(self._answered, bytes(pieces)))

    def _finish(self) -> None:
        if self._connection is not None:
            self._connection.finish()
            self._connection = None
        self._forget()

    def _forget(self) -> None:
        """Both ends know that the connection is gone."""
        is_served = self._connection is not None and self.server is not None and self.server.is_running
        if not (self._is_open or is_served):
            self._network.closed(self)
