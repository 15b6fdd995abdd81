"""Flexible versions of Kafka's messages (KIP-482) by bytes of our own: strings and arrays are compact, tags follow.

Independent of the product; from the protocol guide on kafka.apache.org.
"""

from __future__ import annotations

import struct

NO_TAGS = b"\0"
CONTINUED = 0x80
"""A byte of a length with another one behind it has this bit."""


def string(text: str) -> bytes:
    return length(len(text)) + text.encode()


def length(count: int) -> bytes:
    """Of a string or an array; zero stands for null."""
    assert count + 1 < CONTINUED
    return bytes((count + 1,))


class Answer:
    """Bytes of a response, taken one value after another."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def number(self, kind: str) -> int:
        (value,) = struct.unpack_from(f">{kind}", self._data, self._position)
        self._position += struct.calcsize(kind)
        return int(value)

    def length(self) -> int:
        """Of a string or an array, -1 for null."""
        size = self.number("B") - 1
        assert size + 1 < CONTINUED
        return size

    def string(self) -> str:
        """Empty for null."""
        size = max(self.length(), 0)
        self._position += size
        return self._data[self._position - size : self._position].decode()

    def tags(self) -> None:
        assert self.number("B") == 0
