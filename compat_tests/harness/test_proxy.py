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
from compat_tests.harness.proxy import Proxy
from compat_tests.harness.waiting import until

HELD_S = 0.3


def address(listener: socket.socket) -> str:
    return f"127.0.0.1:{listener.getsockname()[1]}"


class Echo:
    """Answers each request with itself, and keeps it; `ends` counts connections that ended."""

    def __init__(self) -> None:
        self.requests: queue.Queue[bytes] = queue.Queue()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = address(self.listener)
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
def proxy(echo: Echo) -> Iterator[Proxy]:
    with Proxy(echo.address) as proxy:
        yield proxy


def request(key: int, client_id: str = "java-1") -> bytes:
    return wire.request_header(key, 0, 7, client_id) + b"rest"


def ask(stream: socket.socket, asked: bytes) -> float:
    """The seconds until the answer."""
    began_s = time.monotonic()
    stream.sendall(wire.frame(asked))
    assert wire.receive_frame(stream) == asked
    return time.monotonic() - began_s


def test_one_request_of_an_api_is_held(proxy: Proxy) -> None:
    proxy.hold(wire.END_TXN, HELD_S)
    with wire.connect(proxy.bootstrap) as stream:
        ask(stream, request(wire.FETCH))
        assert proxy.held == 0
        assert ask(stream, request(wire.END_TXN)) >= HELD_S
        ask(stream, request(wire.END_TXN))
    assert proxy.held == 1


def test_a_late_request_comes_after_its_client_is_gone(proxy: Proxy, echo: Echo) -> None:
    proxy.hold(wire.END_TXN, HELD_S, late_for="java")
    with wire.connect(proxy.bootstrap) as other, wire.connect(proxy.bootstrap) as stream:
        ask(other, request(wire.END_TXN, "librdkafka"))
        assert proxy.held == 0
        echo.requests.get(timeout=10)
        stream.sendall(wire.frame(request(wire.END_TXN)))
        assert stream.recv(1) == b""
        assert echo.requests.empty()
        assert echo.requests.get(timeout=10) == request(wire.END_TXN)


def test_no_request_is_held_once_the_proxy_lets_go(proxy: Proxy) -> None:
    proxy.hold(wire.END_TXN, 60)
    proxy.let_go()
    with wire.connect(proxy.bootstrap) as stream:
        ask(stream, request(wire.END_TXN))
    assert proxy.held == 0


def test_a_cut_ends_connections_and_the_next_one_opens(proxy: Proxy) -> None:
    with wire.connect(proxy.bootstrap) as stream:
        ask(stream, request(wire.FETCH))
        proxy.cut()
        assert stream.recv(1) == b""
    with wire.connect(proxy.bootstrap) as stream:
        ask(stream, request(wire.FETCH))


def test_a_broker_that_is_down_ends_a_connection(proxy: Proxy, echo: Echo) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        proxy.target = address(free)
    with wire.connect(proxy.bootstrap) as stream, suppress(ConnectionError):
        assert stream.recv(1) == b""
    proxy.target = echo.address

    def answers() -> bool:
        with wire.connect(proxy.bootstrap) as stream:
            return ask(stream, struct.pack(">hhih", wire.FETCH, 0, 1, -1)) >= 0

    until(answers, "an answer of the broker that is up again")
