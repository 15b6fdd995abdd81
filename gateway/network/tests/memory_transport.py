"""Links between whole brokers without a loop: the bytes of a link go through a connection of the other broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from headgate.gateway.api.context import Client
from headgate.gateway.network.connection import Connection
from headgate.gateway.network.links import Link
from headgate.gateway.runtime.memory_budget import MemoryBudget
from headgate.gateway.runtime.scheduler import Scheduler

if TYPE_CHECKING:
    from headgate.gateway.app.composition import BrokerParts

MAX_FRAME_BYTES = 100 << 20


class MemoryTransport:
    """The transport of one connection of a link to the broker that listens at the link's port."""

    def __init__(self, link: Link, listening: Mapping[int, BrokerParts], scheduler: Scheduler) -> None:
        self._link = link
        self._listening = listening
        self._scheduler = scheduler
        self._connection: Connection | None = None
        self._parts: BrokerParts | None = None

    def start(self) -> None:
        self._scheduler.call_soon(self._connect)

    def _connect(self) -> None:
        parts = self._parts = self._listening.get(self._link.port)
        if parts is None:
            self._link.lost("no broker listens there")
            return
        client = Client("127.0.0.1", 1, "127.0.0.1", self._link.port)
        self._connection = Connection(
            client, parts.dispatcher, MAX_FRAME_BYTES, MemoryBudget(MAX_FRAME_BYTES), self._fault
        )
        self._connection.wake = self._wake_soon(parts.scheduler)
        self._link.connected()

    def _wake_soon(self, scheduler: Scheduler) -> Callable[[], None]:
        return lambda: scheduler.call_soon(self._answer)

    def _fault(self, _client: Client, reason: str) -> None:
        raise AssertionError(reason)

    def wake(self) -> None:
        self._scheduler.call_soon(self._send)

    def _send(self) -> None:
        data = self._link.take()
        if self._connection is not None and self._listening.get(self._link.port) is not self._parts:
            self.abort()
            self._link.lost("the connection was cut")
        elif self._connection is not None and data:
            self._connection.receive(memoryview(bytearray(data)), 0.0)
            self._answer()

    def _answer(self) -> None:
        while self._connection is not None and (self._connection.outgoing or self._connection.has_more):
            while self._connection is not None and self._connection.outgoing:
                piece = self._connection.take()
                if isinstance(piece, bytes | bytearray | memoryview):
                    self._link.receive(bytes(piece))
                else:
                    self._link.receive(piece.read())
                    piece.release()
            if self._connection is not None:
                self._connection.proceed()

    def abort(self) -> None:
        if self._connection is not None:
            self._connection.finish()
        self._connection = None
