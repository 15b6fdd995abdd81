"""Many kinds of hostile clients at once: `python -m compat_tests.hostile.attackers host:port topic`, until killed.

One process and a thread for each kind; each kind comes from an address of its own, so that log lines tell them apart.
They wait more than they work: what they cost is to be the broker's time, not the machine's.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from compat_tests.harness.steady import fetch_request
from compat_tests.harness.wire import FETCH, LIST_OFFSETS, METADATA, frame, request_header, string
from compat_tests.hostile.hostile_bytes import CLAIM_BYTES, CUT, FAMOUS, connect_from, garbage_bodies, mutants

Acts = Iterator[None]
"""An attack goes on with each step, and says when it has done one."""

NICENESS: Final = 19
STORM, REST_STEPS = 400, 4
ELEMENTS: Final = 1000


class Target(NamedTuple):
    """Whom to attack, from where; the topic has megabytes in its partition 0."""

    bootstrap: str
    topic: str
    host: str

    def connect(self) -> socket.socket:
        return connect_from(self.bootstrap, self.host)


def offend(target: Target, data: bytes) -> None:
    """Say it, and wait until the broker hangs up."""
    with contextlib.suppress(OSError), target.connect() as stream:
        stream.sendall(data)
        stream.shutdown(socket.SHUT_WR)
        while stream.recv(1 << 16):
            pass


def cut_frames(target: Target) -> Acts:
    for data in itertools.cycle(CUT.values()):
        offend(target, data)
        yield


def garbage(target: Target) -> Acts:
    """64 KB without sense; the first bytes are no length that would be waited for."""
    chance = random.Random(6)
    while True:
        offend(target, b"\xff" + chance.randbytes(1 << 16))
        yield


def other_protocols(target: Target) -> Acts:
    for data in itertools.cycle(FAMOUS.values()):
        offend(target, data)
        yield


def garbage_behind_headers(target: Target) -> Acts:
    chance = random.Random(7)
    while True:
        for data in garbage_bodies(chance):
            offend(target, data)
            yield


def changed_requests(target: Target) -> Acts:
    chance = random.Random(8)
    while True:
        for data in mutants(chance, 1000):
            offend(target, data)
            yield


def many_elements(target: Target) -> Acts:
    """Requests that are small on the wire and name thousands of things."""
    names = b"".join(string(f"no-such-{number}") for number in range(ELEMENTS))
    rows = b"".join(struct.pack(">iqi", number, 0, 1) for number in range(ELEMENTS))
    times = b"".join(struct.pack(">iq", number, -1) for number in range(ELEMENTS))
    count = struct.pack(">i", ELEMENTS)
    one = struct.pack(">i", 1) + string("no-such-topic") + count
    requests = [
        request_header(METADATA, 4) + count + names + b"\0",
        request_header(FETCH, 4) + struct.pack(">iiiib", -1, 0, 1, 1 << 20, 0) + one + rows,
        request_header(LIST_OFFSETS, 1) + struct.pack(">i", -1) + one + times,
    ]
    for request in itertools.cycle(requests):
        offend(target, frame(request))
        yield


def never_read(target: Target) -> Acts:
    """Ask for megabytes again and again, and take nothing."""
    request = fetch_request(target.topic, 0, 0, 8 << 20)
    streams = [target.connect() for _ in range(20)]
    while True:
        for stream in streams:
            stream.setblocking(False)
            with contextlib.suppress(OSError):
                stream.send(request)
        yield


def one_byte_at_a_time(target: Target) -> Acts:
    request = frame(request_header(METADATA, 1) + struct.pack(">i", 0))
    streams = [target.connect() for _ in range(20)]
    for place in itertools.cycle(range(len(request))):
        for number, stream in enumerate(streams):
            try:
                stream.send(request[place : place + 1])
            except OSError:
                with contextlib.suppress(OSError):
                    streams[number] = target.connect()
        yield


def half_open(target: Target) -> Acts:
    """Of half of them nothing is heard any more; the others hang up on one side while a fetch waits."""
    silent = [target.connect() for _ in range(25)]
    request = fetch_request(target.topic, 1 << 40, 30_000)
    while silent:
        with contextlib.suppress(OSError), target.connect() as stream:
            stream.sendall(request)
            stream.shutdown(socket.SHUT_WR)
            yield


def huge_claims(target: Target) -> Acts:
    """Announce 100 MB and send a little of it."""
    streams: list[socket.socket] = []
    while True:
        for stream in streams:
            with contextlib.suppress(OSError), stream:
                stream.shutdown(socket.SHUT_WR)
                stream.recv(1)
        with contextlib.suppress(OSError):
            streams = [target.connect() for _ in range(20)]
            for stream in streams:
                stream.sendall(CLAIM_BYTES.to_bytes(4, "big") + bytes(50_000))
        yield


def storms(target: Target) -> Acts:
    """More connections than the broker has descriptors for, held for a step and dropped."""
    there, _, port = target.bootstrap.rpartition(":")
    while True:
        with contextlib.ExitStack() as streams:
            for _ in range(STORM):
                stream = streams.enter_context(socket.socket())
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                stream.bind((target.host, 0))
                stream.setblocking(False)
                stream.connect_ex((there, int(port)))
            yield
        for _ in range(REST_STEPS):  # the others are to have their turn
            yield


class Attack(NamedTuple):
    """`says`: what the broker's log must say of them, as a pattern; None where there is nothing to be said."""

    act: Callable[[Target], Acts]
    every_s: float
    says: str | None


ATTACKS: Final = {
    "cut frames": Attack(cut_frames, 0.05, "disconnected in the middle of a request"),
    "garbage": Attack(garbage, 0.05, "claims -?\\d+ bytes"),
    "other protocols": Attack(other_protocols, 0.1, "closing the connection"),
    "garbage behind headers": Attack(garbage_behind_headers, 0.02, "closing the connection"),
    "changed requests": Attack(changed_requests, 0.02, "closing the connection"),
    "many elements": Attack(many_elements, 1.0, None),
    "never reading": Attack(never_read, 0.2, None),
    "a byte a second": Attack(one_byte_at_a_time, 1.0, None),
    "half-open": Attack(half_open, 0.5, None),
    "huge claims": Attack(huge_claims, 1.0, "disconnected in the middle of a request"),
    "storms": Attack(storms, 0.3, None),
}


def address_of(name: str) -> str:
    """Where an attack comes from."""
    return f"127.9.{list(ATTACKS).index(name) + 1}.1"


def run(attack: Attack, target: Target) -> None:
    while True:
        with contextlib.suppress(OSError):  # refused for want of descriptors, or cut off: begin again
            for _ in attack.act(target):
                time.sleep(attack.every_s)
        time.sleep(attack.every_s)


def main(bootstrap: str, topic: str) -> None:
    os.nice(NICENESS)
    threads = [
        threading.Thread(target=run, args=(attack, Target(bootstrap, topic, address_of(name))), daemon=True)
        for name, attack in ATTACKS.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
