"""Connections in memory: the bytes of requests arrive in pieces of any size, and replies come back in order.

The broker's side is the real `Connection` over the real `Dispatcher`, so framing, pipelining, parked requests and the
commit of batched writes are those of a server. A driver is missing: `deliver` stands for what the network does.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from headgate.gateway.network.connection import Connection
from headgate.gateway.runtime.memory_budget import MemoryBudget
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.client.connection import ClientConnection
from headgate.protocol.schema import Message
from headgate.storage.segment.file_slice import FileSlice

MAX_FRAME_BYTES = 1 << 20
MEMORY_BYTES = 1 << 24


class Wire:
    """One connection of a client. `answered(response)` is called for each request, in order."""

    def __init__(self, node: HandlerBroker, random: Random) -> None:
        self.answered: Callable[[Any], None] = _nobody
        self._node = node
        self._random = random
        self._peer = ClientConnection("history")
        self._underway = bytearray()
        memory = MemoryBudget(MEMORY_BYTES)
        self._connection = Connection(node.client, node.parts.dispatcher, MAX_FRAME_BYTES, memory, _report)
        self._connection.wake = self._wake

    @property
    def is_idle(self) -> bool:
        """Whether no bytes are under way to the broker."""
        return not self._underway

    def send(self, request: Message, version: int) -> None:
        """Send a request; `deliver` has it arrive."""
        self._underway += self._peer.request(request, version)

    def deliver(self, *, is_whole: bool) -> None:
        """Everything that is under way arrives, or some of it."""
        while self._underway:
            size = self._random.randint(1, len(self._underway))
            piece = bytearray(self._underway[:size])
            del self._underway[:size]
            self._connection.receive(memoryview(piece), self._node.time.clock.monotonic_ms())
            piece[:] = bytes(len(piece))  # a driver uses its buffer again
            self._drain()
            if not is_whole:
                break

    def cut(self) -> None:
        """The connection breaks: nobody hears the replies."""
        self._underway.clear()
        self.answered = _nobody
        self._connection.finish()

    def _wake(self) -> None:
        self._node.time.scheduler.call_soon(self._drain)

    def _drain(self) -> None:
        connection = self._connection
        received = bytearray()
        while connection.outgoing or connection.has_more:
            if connection.has_more:
                connection.proceed()
            while connection.outgoing:
                piece = connection.take()
                if isinstance(piece, FileSlice):
                    received += piece.read()
                    piece.release()
                else:
                    received += piece  # type: ignore[arg-type]
            connection.release_answered()
        for _, response in self._peer.receive(received):
            self.answered(response)


def _report(_client: object, reason: str) -> None:
    raise AssertionError(f"the broker ends a connection: {reason}")


def _nobody(_response: object) -> None:
    """There is no client any more."""
