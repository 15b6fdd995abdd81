"""What one broker says of the cluster, by Metadata v1: brokers, the controller, leaders, sets of replicas."""

from __future__ import annotations

import struct
from typing import NamedTuple

from compat_tests.harness.waiting import until
from compat_tests.harness.wire import METADATA, Reader, ask, connect

ALL_TOPICS = struct.pack(">i", -1)


class Partition(NamedTuple):
    """`leader` is -1 where there is none at the moment; the first of `replicas` is the preferred leader."""

    leader: int
    replicas: tuple[int, ...]
    in_sync: frozenset[int]


class Metadata(NamedTuple):
    """`brokers` are those that live; `partitions` go by topic and number; `controller` is -1 if there is none."""

    brokers: frozenset[int]
    controller: int
    partitions: dict[tuple[str, int], Partition]


def metadata(bootstrap: str, timeout_s: float = 60.0) -> Metadata:
    """Ask one broker for all topics."""
    with connect(bootstrap, timeout_s) as stream:
        reader = Reader(ask(stream, METADATA, 1, ALL_TOPICS))
    brokers = set()
    for _ in range(reader.number("i")):
        brokers.add(reader.number("i"))
        reader.string(), reader.number("i"), reader.string()
    controller = reader.number("i")
    found = {}
    for _ in range(reader.number("i")):
        reader.number("h")
        topic, _ = reader.string(), reader.number("b")
        for _ in range(reader.number("i")):
            reader.number("h")
            index, leader = reader.number("i"), reader.number("i")
            found[topic, index] = Partition(leader, tuple(reader.numbers()), frozenset(reader.numbers()))
    return Metadata(frozenset(brokers), controller, found)


def leaders(bootstrap: str) -> dict[tuple[str, int], int]:
    """(topic, partition) -> node id of its leader, -1 where there is none at the moment."""
    return {partition: state.leader for partition, state in metadata(bootstrap).partitions.items()}


def until_all_led(bootstrap: str, timeout_s: float = 60.0) -> float:
    """Wait until every partition has a leader; the seconds that took."""
    return until(lambda: -1 not in leaders(bootstrap).values(), "a leader for every partition", timeout_s, 0.1)
