"""The brokers that are registered in a ZooKeeper, as its own protocol says: five requests a row need no library.

A frame is an int32, its size, and fields in big-endian order. The first request opens a session; each later one has a
number and a type.
"""

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_EXISTS: Final = 3
_NO_NODE: Final = -101
_REQUESTS: Final = 1
_SESSION_MS: Final = 30_000
_PASSWORD: Final = bytes(16)
_ANSWERED_WITHIN_SECONDS: Final = 10.0


class Registrations:
    """Asks one ZooKeeper whether a broker is registered."""

    def __init__(self, connection: socket.socket) -> None:
        """A connection that nothing was sent on."""
        self._connection = connection
        opening = struct.pack(">iqiqi", 0, 0, _SESSION_MS, 0, len(_PASSWORD)) + _PASSWORD
        self._exchange(opening)

    def has(self, broker_id: int) -> bool:
        """True while the broker's session lives. Raises OSError."""
        path = f"/brokers/ids/{broker_id}".encode()
        answer = self._exchange(struct.pack(">iii", _REQUESTS, _EXISTS, len(path)) + path + b"\x00")
        (error,) = struct.unpack_from(">i", answer, 12)  # behind the request's number and the newest transaction's
        if error not in {0, _NO_NODE}:
            raise ConnectionError(f"ZooKeeper answers for {path.decode()} with error code {error}")
        return int(error) == 0

    def _exchange(self, request: bytes) -> bytes:
        self._connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            more = self._connection.recv(size - len(data))
            if not more:
                raise ConnectionError("ZooKeeper has closed the connection")
            data += more
        return bytes(data)


@contextmanager
def registrations(port: int) -> Iterator[Registrations]:
    """The registrations in the ZooKeeper on this port of 127.0.0.1."""
    with socket.create_connection(("127.0.0.1", port), _ANSWERED_WITHIN_SECONDS) as connection:
        yield Registrations(connection)
