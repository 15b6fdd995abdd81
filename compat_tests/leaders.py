"""Which partitions have a leader, by Metadata v1: a broker that opens its logs serves others meanwhile."""

from __future__ import annotations

import struct

from compat_tests.waiting import until
from compat_tests.wire import METADATA, ask, connect

ALL_TOPICS = struct.pack(">i", -1)


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
        start = self._position + 2
        self._position = start + max(self.number("h"), 0)
        return self._data[start : self._position].decode()

    def skip(self, size: int) -> None:
        self._position += size

    def numbers(self) -> list[int]:
        return [self.number("i") for _ in range(self.number("i"))]


def leaders(bootstrap: str) -> dict[tuple[str, int], int]:
    """(topic, partition) -> node id of its leader, -1 where there is none at the moment."""
    with connect(bootstrap, 30) as stream:
        reader = Reader(ask(stream, METADATA, 1, ALL_TOPICS))
    for _ in range(reader.number("i")):
        reader.number("i"), reader.string(), reader.number("i"), reader.string()
    reader.number("i")
    found = {}
    for _ in range(reader.number("i")):
        reader.number("h")
        topic, _ = reader.string(), reader.number("b")
        for _ in range(reader.number("i")):
            reader.number("h")
            index, leader = reader.number("i"), reader.number("i")
            found[topic, index] = leader
            reader.numbers(), reader.numbers()
    return found


def until_all_led(bootstrap: str, timeout_s: float = 60.0) -> float:
    """Wait until every partition has a leader; the seconds that took."""
    return until(lambda: -1 not in leaders(bootstrap).values(), "a leader for every partition", timeout_s, 0.1)
