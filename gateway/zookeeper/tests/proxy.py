"""A proxy between a client and ZooKeeper that loses connections on demand, at a request or at its answer.

It knows of the protocol that each frame begins with its size, and that requests and answers have a number behind it.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress

from headgate.gateway.zookeeper.tests.model import Fault

HOST = "127.0.0.1"
PING_XID = -2


class Proxy:
    """Forwards connections while `is_open`; `faults` are those of the next requests, as in the model."""

    def __init__(self, target_port: int) -> None:
        self.is_open = True
        self.faults: deque[Fault | None] = deque()
        self._target_port = target_port
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End all connections."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for one in pair:
                _end(one)

    def close(self) -> None:
        _end(self._listener)
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = self._connect()
                if server is None:
                    _end(client)
                    continue
                with self._lock:
                    self._pairs.append((client, server))
                lost = set[int]()  # the requests whose answers are lost
                threading.Thread(target=self._forward_requests, args=(client, server, lost), daemon=True).start()
                threading.Thread(target=self._forward_answers, args=(server, client, lost), daemon=True).start()

    def _connect(self) -> socket.socket | None:
        with suppress(OSError):
            return socket.create_connection((HOST, self._target_port)) if self.is_open else None
        return None

    def _forward_requests(self, client: socket.socket, server: socket.socket, lost: set[int]) -> None:
        is_first = True
        for xid, frame in _frames(client):
            is_request, is_first = not is_first and xid != PING_XID, False
            fault = self.faults.popleft() if is_request and self.faults else None
            if fault is Fault.BEFORE:
                break
            if fault is Fault.AFTER:
                lost.add(xid)
            if not _send(server, frame):
                break
        _end(client)
        _end(server)

    def _forward_answers(self, server: socket.socket, client: socket.socket, lost: set[int]) -> None:
        for xid, frame in _frames(server):
            if xid in lost or not _send(client, frame):
                break
        _end(client)
        _end(server)


def _frames(source: socket.socket) -> Iterator[tuple[int, bytes]]:
    buffer = b""
    while data := _receive(source):
        buffer += data
        while len(buffer) >= 8:
            size, xid = struct.unpack_from(">ii", buffer)
            if len(buffer) < 4 + size:
                break
            frame, buffer = buffer[: 4 + size], buffer[4 + size :]
            yield xid, frame


def _receive(source: socket.socket) -> bytes:
    try:
        return source.recv(65536)
    except OSError:
        return b""


def _send(target: socket.socket, frame: bytes) -> bool:
    try:
        target.sendall(frame)
    except OSError:
        return False
    return True


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
