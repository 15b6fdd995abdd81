"""Which partitions have a leader, by Metadata v1: a broker that opens its logs serves others meanwhile."""

from __future__ import annotations

import struct

from compat_tests.harness.waiting import until
from compat_tests.harness.wire import METADATA, Reader, ask, connect

ALL_TOPICS = struct.pack(">i", -1)


def leaders(bootstrap: str) -> dict[tuple[str, int], int]:
    """(topic, partition) -> node id of its leader, -1 where there is none at the moment."""
    with connect(bootstrap, 60) as stream:
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
