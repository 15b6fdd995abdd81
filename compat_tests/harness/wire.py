"""As much of Kafka's protocol as raw sockets need here: frames, request headers, correlation.

Independent of the product; from the protocol guide on kafka.apache.org.
"""

from __future__ import annotations

import socket
import struct

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_FETCH, API_VERSIONS, CREATE_TOPICS = 0, 1, 2, 3, 9, 18, 19
ADD_PARTITIONS_TO_TXN, END_TXN, TXN_OFFSET_COMMIT = 24, 26, 28


def connect(bootstrap: str, timeout_s: float = 60.0) -> socket.socket:
    host, _, port = bootstrap.rpartition(":")
    return socket.create_connection((host, int(port)), timeout_s)


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def request_header(key: int, version: int, correlation_id: int = 1, client_id: str = "raw") -> bytes:
    """Request header v1: what every version that is not flexible carries, and the beginning of v2."""
    return struct.pack(">hhi", key, version, correlation_id) + string(client_id)


def receive_exactly(stream: socket.socket, size: int) -> bytes:
    data, read = memoryview(bytearray(size)), 0
    while read < size:
        count = stream.recv_into(data[read:])
        if not count:
            raise ConnectionError(f"the peer closed after {read} of {size} bytes")
        read += count
    return bytes(data)


def receive_frame(stream: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", receive_exactly(stream, 4))
    return receive_exactly(stream, size)


def ask(stream: socket.socket, key: int, version: int, body: bytes) -> bytes:
    """Send one request and return the response after its correlation id, which must be the request's."""
    stream.sendall(frame(request_header(key, version) + body))
    answer = receive_frame(stream)
    assert struct.unpack(">i", answer[:4]) == (1,), "the answer is to another request"
    return answer[4:]


class Reader:
    """Numbers and strings of an answer, one after another."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def number(self, kind: str) -> int:
        (value,) = struct.unpack_from(f">{kind}", self._data, self._position)
        self._position += struct.calcsize(kind)
        return int(value)

    def string(self) -> str:
        return self.text(max(self.number("h"), 0))

    def text(self, size: int) -> str:
        self._position += size
        return self._data[self._position - size : self._position].decode()

    def skip(self, size: int) -> None:
        self._position += size

    def numbers(self) -> list[int]:
        return [self.number("i") for _ in range(self.number("i"))]
