"""A TCP proxy in front of a broker, which notes who asked for which API in which version, and was answered.

The broker advertises the proxy's address, so that everything that a client says comes through here.

    with Proxy() as proxy:
        proxy.target = broker.bootstrap           # of a broker that advertises proxy.bootstrap
        with proxy.recording("sarama v1.10.1"):   # connections accepted from now on are of this client
            ...
        proxy.used["sarama v1.10.1"]              # {(3, 0), (0, 0), ...}
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final, Self

from compat_tests.harness import wire
from compat_tests.matrix.usage import Used

PIECE: Final = 1 << 16
# An ApiVersions request of an unknown version is answered with this error: the version was not served
UNSUPPORTED_VERSION: Final = 35


class Heads:
    """The beginnings of the length-prefixed frames of a stream that comes in pieces."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.held = b""
        self.rest = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Of each frame that begins in what came until now: so many bytes of it, fewer where it is shorter."""
        while data:
            passed, data = min(self.rest, len(data)), data[self.rest :]
            self.rest -= passed
            self.held += data
            length = int.from_bytes(self.held[:4], "big")
            end = 4 + min(length, self.size)
            if len(self.held) < end:
                return
            head, data, self.held = self.held[4:end], self.held[end:], b""
            self.rest = length - len(head)
            yield head


class Connection:
    """One client's connection and ours to the broker; a thread for each direction."""

    def __init__(self, client: socket.socket, target: str, used: Used) -> None:
        self.client = client
        self.broker = wire.connect(target)
        self.broker.settimeout(None)
        self.used = used
        self.asked: dict[bytes, tuple[int, int]] = {}
        for one in (self.client, self.broker):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ways = ((self.client, self.broker, Heads(8), self.request), (self.broker, self.client, Heads(6), self.response))
        self.threads = [threading.Thread(target=self.pass_on, args=way, name="proxy", daemon=True) for way in ways]
        for thread in self.threads:
            thread.start()

    def pass_on(self, source: socket.socket, sink: socket.socket, heads: Heads, note: Callable[[bytes], None]) -> None:
        # A reset is an end like any other
        with contextlib.suppress(OSError):
            while data := source.recv(PIECE):
                for head in heads.feed(data):
                    note(head)
                sink.sendall(data)
        self.shut()

    def request(self, head: bytes) -> None:
        self.asked[head[4:8]] = int.from_bytes(head[:2], "big"), int.from_bytes(head[2:4], "big")

    def response(self, head: bytes) -> None:
        asked = self.asked.pop(head[:4], None)
        if asked is None:
            return
        is_refused = asked[0] == wire.API_VERSIONS and int.from_bytes(head[4:6], "big") == UNSUPPORTED_VERSION
        if not is_refused:
            self.used.add(asked)

    def shut(self) -> None:
        """Both ways: who waits in either direction goes on."""
        for one in (self.client, self.broker):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def parked(self, key: int) -> set[bytes]:
        """Correlation ids of the requests of this API that were not answered yet."""
        if not self.threads[0].is_alive():
            return set()
        return {number for number, asked in tuple(self.asked.items()) if asked[0] == key}

    @property
    def is_over(self) -> bool:
        """Whether either side has hung up, and all is passed on."""
        return not any(thread.is_alive() for thread in self.threads)

    def close(self) -> None:
        self.shut()
        for thread in self.threads:
            thread.join(60)
        self.client.close()
        self.broker.close()


class Proxy:
    """Listens on a port of its own. `used`: of each client by name, the (API key, version) that it was answered."""

    def __init__(self) -> None:
        self.target = ""
        self.used: dict[str, Used] = defaultdict(set)
        self.name: str | None = None
        self.connections: list[Connection] = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.bootstrap = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self.accept, name="proxy", daemon=True)
        self.thread.start()

    def accept(self) -> None:
        # Closing the listener ends it
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                self.sweep()
                try:
                    used = set() if self.name is None else self.used[self.name]
                    self.connections.append(Connection(client, self.target, used))
                except OSError:  # the broker is not there: neither are we
                    client.close()

    def sweep(self) -> None:
        """Close what is over: clients make thousands of connections, and some libraries only bear a thousand files."""
        for connection in [connection for connection in self.connections if connection.is_over]:
            connection.close()
            self.connections.remove(connection)

    @contextlib.contextmanager
    def recording(self, name: str) -> Iterator[None]:
        """Connections that are made in the block are those of this client."""
        self.name = name
        try:
            yield
        finally:
            self.name = None

    def is_parked(self, key: int, for_s: float = 0.02) -> bool:
        """Whether a request of this API is not answered for so long."""
        before = [connection.parked(key) for connection in self.connections]
        time.sleep(for_s)
        return any(known & connection.parked(key) for known, connection in zip(before, self.connections, strict=False))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(60)
        for connection in self.connections:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
