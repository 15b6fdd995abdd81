"""What OpenSSL holds after a receive, and no poll reports: turns of a driver that a test makes one by one."""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from headgate.gateway.api.context import Client
from headgate.gateway.network import connection as connections
from headgate.gateway.network import sockets
from headgate.gateway.network.connection import Connection
from headgate.gateway.network.epoll import HANGUP, READING
from headgate.gateway.network.socket_driver import RECEIVE_BYTES
from headgate.gateway.network.tests.test_connection import ScriptedDispatcher, framed
from headgate.gateway.network.tls.driver import TlsDriver
from headgate.gateway.network.tls.handshakes import TlsHandshakes
from headgate.gateway.network.tls.tests.fake_listener import HOST, client_context, listener_tls, wait_for_bytes
from headgate.gateway.network.tls.tls_socket import wrap
from headgate.gateway.runtime.memory_budget import MemoryBudget
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime

pytestmark = [pytest.mark.sockets, pytest.mark.skipif(not sockets.AVAILABLE, reason="there is no epoll here")]

LARGE = bytes(range(200)) * 700
"""More than two buffers of the engine: the rest is received into the request's own buffer."""


class Turns:
    """One driver with its client. In place of an engine, which the driver tells what to poll and whom to serve."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        time = ManualTime()
        self.clock, self.scheduler, self.now_ms = time.clock, time.scheduler, 0.0
        self.scratch = memoryview(bytearray(RECEIVE_BYTES))
        self.served: list[Any] = []
        self.poller = self
        self.is_marked = False
        self.interest = READING
        self.dispatcher = ScriptedDispatcher()
        dispatcher: Any = self.dispatcher
        address = Client("127.0.0.1", 40_000, "127.0.0.1", 9092)
        connection = Connection(address, dispatcher, 4_000_000, MemoryBudget(10_000_000), lambda *_: None)
        engine: Any = self
        self.driver = TlsDriver(engine, server, connection, listener_tls(), TlsHandshakes(self.scheduler), 30_000)
        self.client = wrap(client, client_context(), server_side=False, server_hostname=HOST)
        while not self.driver.is_open:
            with suppress(ssl.SSLWantReadError):
                self.client.do_handshake()
            wait_for_bytes(server if server.fileno() >= 0 else self.driver.socket, 1)
            self.turn(select.EPOLLIN)
        self.turn(0)
        assert not self.is_marked

    # What a driver asks of its engine

    def add(self, driver: TlsDriver, interest: int) -> None:
        self.interest = interest

    def modify(self, descriptor: int, interest: int) -> None:
        self.interest = interest

    def detach(self, driver: TlsDriver) -> bool:
        return True

    def mark(self, driver: TlsDriver) -> None:
        self.is_marked = True

    def is_late(self) -> bool:
        return False

    # What a test does

    def turn(self, events: int) -> None:
        """A turn of the engine, for one driver."""
        self.is_marked = False
        self.driver.serve(events)
        self.driver.advance()

    def send(self, data: bytes) -> None:
        """Send `data`, and wait until all records have arrived."""
        assert self.client.send(data) == len(data)
        wait_for_bytes(self.driver.socket, len(data))

    def read(self, size: int) -> bytes:
        buffer, received = bytearray(size), b""
        while len(received) < size:
            assert select.select([self.client], (), (), 5)[0] or self.client.pending(), f"{len(received)} of {size}"
            with suppress(BlockingIOError):
                received += buffer[: self.client.recv_into(buffer)]
        return received


@pytest.fixture
def turns(raw: tuple[socket.socket, socket.socket]) -> Iterator[Turns]:
    made = Turns(*raw)
    yield made
    made.client.close()
    made.driver.socket.close()


def test_a_request_in_the_record_of_a_large_one_is_served(turns: Turns) -> None:
    turns.send(framed(LARGE, b"behind"))
    turns.turn(select.EPOLLIN)
    assert turns.is_marked
    assert turns.read(len(LARGE)) == LARGE
    turns.turn(0)
    assert not turns.is_marked
    assert turns.read(6) == b"behind"


def test_what_is_held_waits_while_reading_is_paused(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_PENDING_BYTES", 100_000)
    turns.send(framed(b"park", LARGE, b"behind"))
    turns.turn(select.EPOLLIN)
    assert turns.interest == HANGUP
    assert not turns.is_marked, "the engine would spin"
    turns.dispatcher.parked[0]([b"ready"])
    assert turns.is_marked
    turns.turn(0)
    assert turns.interest == READING
    assert turns.is_marked
    turns.turn(0)
    assert not turns.is_marked
    assert turns.read(11 + len(LARGE)) == b"ready" + LARGE + b"behind"


def test_what_is_held_is_read_with_room_for_replies(turns: Turns) -> None:
    """An event without data comes first: the driver reads as if the poll had reported data."""
    turns.send(framed(LARGE, b"behind"))
    turns.turn(select.EPOLLIN)
    turns.turn(select.EPOLLOUT)
    assert turns.read(len(LARGE) + 6) == LARGE + b"behind"
