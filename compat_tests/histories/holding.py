"""A proxy between clients and a broker that holds one request by its API, delivers it late, or cuts connections.

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
from types import TracebackType
from typing import Final, NamedTuple, Self

from compat_tests.harness import wire

PIECE: Final = 1 << 16
PRODUCE, FETCH, OFFSET_FETCH, ADD_PARTITIONS_TO_TXN, END_TXN, TXN_OFFSET_COMMIT = 0, 1, 9, 24, 26, 28
NAMES: Final = {
    PRODUCE: "Produce",
    FETCH: "Fetch",
    OFFSET_FETCH: "OffsetFetch",
    ADD_PARTITIONS_TO_TXN: "AddPartitionsToTxn",
    END_TXN: "EndTxn",
    TXN_OFFSET_COMMIT: "TxnOffsetCommit",
}
ANSWER_LIMIT_S: Final = 5.0


class Hold(NamedTuple):
    """What happens to the next request of an API; `late_for` is the beginning of a client id."""

    key: int
    hold_s: float
    late_for: str | None


class HoldingProxy:
    """Listens on a port of its own, for the length of a with-block; `target` is the port of the broker."""

    def __init__(self, target: int = 0) -> None:
        self.target = target
        self.held = 0
        self._hold: Hold | None = None
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._is_closed = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="holding proxy", daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def hold(self, key: int, hold_s: float, late_for: str | None = None) -> None:
        with self._lock:
            self._hold = Hold(key, hold_s, late_for)

    def let_go(self) -> None:
        """Hold no request that comes from now on; what is held comes in its time."""
        with self._lock:
            self._hold = None

    def cut(self) -> None:
        with self._lock:
            found = tuple(self._sockets)
        for one in found:
            shut(one)

    def close(self) -> None:
        self._is_closed.set()
        shut(self._listener)
        self._listener.close()
        self.cut()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    broker = socket.create_connection(("127.0.0.1", self.target))
                except OSError:  # the broker is down
                    client.close()
                    continue
                for one in (client, broker):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with self._lock:
                    self._sockets |= {client, broker}
                answers = threading.Thread(target=self._pass_answers, args=(broker, client), daemon=True)
                answers.start()
                threading.Thread(target=self._pass_requests, args=(client, broker, answers), daemon=True).start()

    def _pass_answers(self, broker: socket.socket, client: socket.socket) -> None:
        """Answers to a client that is gone are read all the same."""
        with contextlib.suppress(OSError):
            while data := broker.recv(PIECE):
                with contextlib.suppress(OSError):
                    client.sendall(data)
        shut(client)

    def _pass_requests(self, client: socket.socket, broker: socket.socket, answers: threading.Thread) -> None:
        with contextlib.suppress(OSError, ConnectionError):
            while True:
                request = wire.receive_frame(client)
                hold = self._take(request)
                if hold is not None and hold.late_for is not None:
                    shut(client)
                if hold is not None:
                    self._is_closed.wait(hold.hold_s)
                broker.sendall(wire.frame(request))
                if hold is not None and hold.late_for is not None:
                    self._is_closed.wait(ANSWER_LIMIT_S)
        shut(broker)
        answers.join()
        for one in (client, broker):
            one.close()
        with self._lock:
            self._sockets -= {client, broker}

    def _take(self, request: bytes) -> Hold | None:
        """What was asked for this request, once."""
        key, _version, _correlation, size = struct.unpack_from(">hhih", request)
        client_id = request[10 : 10 + max(size, 0)].decode()
        with self._lock:
            hold = self._hold
            if hold is None or hold.key != key or not client_id.startswith(hold.late_for or ""):
                return None
            self._hold = None
            self.held += 1
        return hold


def shut(one: socket.socket) -> None:
    """Both ways: a thread that waits in either direction goes on."""
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
