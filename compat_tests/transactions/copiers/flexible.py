"""Flexible versions of Kafka's messages (KIP-482) by bytes of our own: strings and arrays are compact, tags follow.

Independent of the product; from the protocol guide on kafka.apache.org.
"""

from __future__ import annotations

from compat_tests.harness.wire import Reader

NO_TAGS = b"\0"
CONTINUED = 0x80
"""A byte of a length with another one behind it has this bit."""


def string(text: str) -> bytes:
    return length(len(text)) + text.encode()


def length(count: int) -> bytes:
    """Of a string or an array; zero stands for null."""
    assert count + 1 < CONTINUED
    return bytes((count + 1,))


class Answer(Reader):
    """A response in a flexible version, taken one value after another."""

    def length(self) -> int:
        """Of a string or an array, -1 for null."""
        size = self.number("B") - 1
        assert size + 1 < CONTINUED
        return size

    def string(self) -> str:
        """Empty for null."""
        return self.text(max(self.length(), 0))

    def tags(self) -> None:
        assert self.number("B") == 0
