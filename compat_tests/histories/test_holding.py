"""The proxy holds one request, delivers it after its client is gone, and cuts connections."""

from __future__ import annotations

import queue
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from compat_tests.harness import wire
from compat_tests.harness.waiting import until
from compat_tests.histories.holding import END_TXN, FETCH, HoldingProxy

HELD_S = 0.3


class Echo:
    """Answers each request with itself, and keeps it; `ends` counts connections that ended."""

    def __init__(self) -> None:
        self.requests: queue.Queue[bytes] = queue.Queue()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                stream, _ = self.listener.accept()
                threading.Thread(target=self._answer, args=[stream], daemon=True).start()

    def _answer(self, stream: socket.socket) -> None:
        with closing(stream), suppress(OSError, ConnectionError):
            while True:
                request = wire.receive_frame(stream)
                self.requests.put(request)
                stream.sendall(wire.frame(request))


@pytest.fixture
def echo() -> Iterator[Echo]:
    made = Echo()
    yield made
    made.listener.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[HoldingProxy]:
    with HoldingProxy(echo.port) as proxy:
        yield proxy


def request(key: int, client_id: str = "java-1") -> bytes:
    return wire.request_header(key, 0, 7, client_id) + b"rest"


def ask(stream: socket.socket, asked: bytes) -> float:
    """The seconds until the answer."""
    began_s = time.monotonic()
    stream.sendall(wire.frame(asked))
    assert wire.receive_frame(stream) == asked
    return time.monotonic() - began_s


def test_one_request_of_an_api_is_held(proxy: HoldingProxy) -> None:
    proxy.hold(END_TXN, HELD_S)
    with wire.connect(proxy.address) as stream:
        ask(stream, request(FETCH))
        assert proxy.held == 0
        assert ask(stream, request(END_TXN)) >= HELD_S
        ask(stream, request(END_TXN))
    assert proxy.held == 1


def test_a_late_request_comes_after_its_client_is_gone(proxy: HoldingProxy, echo: Echo) -> None:
    proxy.hold(END_TXN, HELD_S, late_for="java")
    with wire.connect(proxy.address) as other, wire.connect(proxy.address) as stream:
        ask(other, request(END_TXN, "librdkafka"))
        assert proxy.held == 0
        echo.requests.get(timeout=10)
        stream.sendall(wire.frame(request(END_TXN)))
        assert stream.recv(1) == b""
        assert echo.requests.empty()
        assert echo.requests.get(timeout=10) == request(END_TXN)


def test_no_request_is_held_once_the_proxy_lets_go(proxy: HoldingProxy) -> None:
    proxy.hold(END_TXN, 60)
    proxy.let_go()
    with wire.connect(proxy.address) as stream:
        ask(stream, request(END_TXN))
    assert proxy.held == 0


def test_a_cut_ends_connections_and_the_next_one_opens(proxy: HoldingProxy) -> None:
    with wire.connect(proxy.address) as stream:
        ask(stream, request(FETCH))
        proxy.cut()
        assert stream.recv(1) == b""
    with wire.connect(proxy.address) as stream:
        ask(stream, request(FETCH))


def test_a_broker_that_is_down_ends_a_connection(proxy: HoldingProxy, echo: Echo) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        proxy.target = free.getsockname()[1]
    with wire.connect(proxy.address) as stream, suppress(ConnectionError):
        assert stream.recv(1) == b""
    proxy.target = echo.port

    def answers() -> bool:
        with wire.connect(proxy.address) as stream:
            return ask(stream, struct.pack(">hhih", FETCH, 0, 1, -1)) >= 0

    until(answers, "an answer of the broker that is up again")
