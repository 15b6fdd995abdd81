"""A TCP proxy before a broker: it notes the APIs that clients use, holds one request by its API, and cuts connections.

The broker advertises the proxy's address, so that all that clients say comes through here.

    with Proxy() as proxy:
        proxy.target = broker.bootstrap              # of a broker that advertises proxy.bootstrap
        with proxy.recording("sarama v1.10.1"):      # connections accepted from now on are of this client
            ...
        proxy.used["sarama v1.10.1"]                 # {(3, 0), (0, 0), ...}: API keys and versions that were answered
        proxy.hold(END_TXN, 2.0)                     # the next EndTxn, and all behind it on its connection, wait 2 s
        proxy.hold(END_TXN, 2.0, late_for="java")    # its client loses the connection at once, and the broker
                                                     # gets the request all the same, 2 s later
        proxy.cut()                                  # every connection ends
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from types import TracebackType
from typing import Final, NamedTuple, Self

from compat_tests.harness import wire

# An ApiVersions request of an unknown version is answered with this error: the version was not served
UNSUPPORTED_VERSION: Final = 35
# A late request is answered within this time: the connection to the broker ends after it
ANSWER_LIMIT_S: Final = 5.0


class Hold(NamedTuple):
    """What happens to the next request of an API; `late_for` is the beginning of a client id."""

    key: int
    hold_s: float
    late_for: str | None

    def is_of(self, request: bytes) -> bool:
        key, _version, _correlation, size = struct.unpack_from(">hhih", request)
        client_id = request[10 : 10 + max(size, 0)].decode()
        return self.key == key and client_id.startswith(self.late_for or "")


class Connection:
    """One client's connection and ours to the broker; a thread for each direction, which passes frame by frame."""

    def __init__(self, proxy: Proxy, client: socket.socket) -> None:
        """Raises OSError if the broker is down."""
        self.proxy, self.client = proxy, client
        self.broker = wire.connect(proxy.target)
        self.broker.settimeout(None)
        self.used = set() if proxy.name is None else proxy.used[proxy.name]
        self.asked: dict[bytes, tuple[int, int]] = {}
        for one in (self.client, self.broker):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ways = (self.pass_requests, self.pass_responses)
        self.threads = [threading.Thread(target=way, name="proxy", daemon=True) for way in ways]
        for thread in self.threads:
            thread.start()

    def pass_requests(self) -> None:
        # A reset is an end like any other
        with contextlib.suppress(OSError):
            while True:
                request = wire.receive_frame(self.client)
                self.asked[request[4:8]] = int.from_bytes(request[:2], "big"), int.from_bytes(request[2:4], "big")
                hold = self.proxy.take_hold(request)
                is_late = hold is not None and hold.late_for is not None
                if is_late:
                    shut(self.client)
                if hold is not None:
                    self.proxy.is_closed.wait(hold.hold_s)
                self.broker.sendall(wire.frame(request))
                if is_late:
                    self.proxy.is_closed.wait(ANSWER_LIMIT_S)
        shut(self.broker)

    def pass_responses(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                response = wire.receive_frame(self.broker)
                self.note(response)
                # The answer to a client that is gone is read all the same
                with contextlib.suppress(OSError):
                    self.client.sendall(wire.frame(response))
        shut(self.client)

    def note(self, response: bytes) -> None:
        asked = self.asked.pop(response[:4], None)
        if asked is None:
            return
        is_refused = asked[0] == wire.API_VERSIONS and int.from_bytes(response[4:6], "big") == UNSUPPORTED_VERSION
        if not is_refused:
            self.used.add(asked)

    def parked(self, key: int) -> set[bytes]:
        """Correlation ids of the requests of this API that were not answered yet."""
        if not self.threads[0].is_alive():
            return set()
        return {number for number, asked in tuple(self.asked.items()) if asked[0] == key}

    @property
    def is_over(self) -> bool:
        """Whether either side has hung up, and all is passed on."""
        return not any(thread.is_alive() for thread in self.threads)

    def cut(self) -> None:
        shut(self.client)
        shut(self.broker)

    def close(self) -> None:
        self.cut()
        for thread in self.threads:
            thread.join(60)
        self.client.close()
        self.broker.close()


class Proxy:
    """Listens on a port of its own; `target` is the address of the broker, `held` counts requests that were held."""

    def __init__(self, target: str = "") -> None:
        self.target = target
        self.used: dict[str, set[tuple[int, int]]] = defaultdict(set)
        self.name: str | None = None
        self.held = 0
        self.is_closed = threading.Event()
        self.connections: list[Connection] = []
        self._hold: Hold | None = None
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.bootstrap = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, name="proxy", daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        # Closing the listener ends it
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._sweep()
                try:
                    self.connections.append(Connection(self, client))
                except OSError:  # the broker is not there: neither are we
                    client.close()

    def _sweep(self) -> None:
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

    def hold(self, key: int, hold_s: float, late_for: str | None = None) -> None:
        with self._lock:
            self._hold = Hold(key, hold_s, late_for)

    def let_go(self) -> None:
        """Hold no request that comes from now on; what is held comes in its time."""
        with self._lock:
            self._hold = None

    def take_hold(self, request: bytes) -> Hold | None:
        """What was asked for this request, once."""
        with self._lock:
            hold = self._hold
            if hold is None or not hold.is_of(request):
                return None
            self._hold = None
            self.held += 1
        return hold

    def cut(self) -> None:
        """End every connection."""
        for connection in tuple(self.connections):
            connection.cut()

    def close(self) -> None:
        self.is_closed.set()
        shut(self._listener)
        self._listener.close()
        self._thread.join(60)
        for connection in self.connections:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def shut(one: socket.socket) -> None:
    """Both ways: a thread that waits in either direction goes on."""
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
