"""Bytes that no client would send, and one that behaves beside them."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from compat_tests.families.confluent import Confluent
from compat_tests.harness.broker import Broker
from compat_tests.harness.noise import Noise
from compat_tests.harness.waiting import until
from compat_tests.harness.wire import API_VERSIONS, FETCH, METADATA, PRODUCE, frame, request_header, string

CLAIM_BYTES = 100_000_000
FAMOUS = {
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS hello": bytes.fromhex("1603010200010001fc0303") + bytes(512),
    "an SSH banner": b"SSH-2.0-OpenSSH_9.6\r\n",
    "a ZooKeeper session": struct.pack(">iiqiqi", 44, 0, 0, 30_000, 0, 16) + bytes(16),
    "a Redis command": b"*1\r\n$4\r\nPING\r\n",
}
LENGTHS = {
    "length -1": struct.pack(">i", -1),
    "length -2147483648": struct.pack(">i", -(2**31)),
    "length 2147483647": struct.pack(">i", 2**31 - 1),
    "a length just over the limit": struct.pack(">i", 104_857_601),
    "length 0": struct.pack(">i", 0),
    "a frame shorter than a header": frame(b"\0\x12"),
}
CUT = {
    "a length cut": b"\0\0",
    "a header cut": frame(request_header(METADATA, 1))[:9],
    "a body cut": frame(request_header(PRODUCE, 3) + bytes(5000))[:2000],
}
BODIES = {
    "an array of two thousand million topics": request_header(METADATA, 1) + struct.pack(">i", 2**31 - 1),
    "an array of a negative length": request_header(METADATA, 1) + struct.pack(">i", -7),
    "a string longer than its request": request_header(METADATA, 1) + struct.pack(">ih", 1, 32_000) + b"short",
    "a string that is not UTF-8": request_header(METADATA, 1) + struct.pack(">ih", 1, 4) + b"\xff\xfe\xfd\xfc",
    "records longer than their request": request_header(PRODUCE, 3)
    + struct.pack(">hhi", -1, 1, 1000)
    + struct.pack(">i", 1)
    + string("t")
    + struct.pack(">iii", 1, 0, 2**31 - 1),
    "a varint without an end": request_header(METADATA, 12) + b"\0" + b"\xff" * 20,
    "an unknown API": request_header(9999, 0) + bytes(20),
    "a version of the far future": request_header(FETCH, 999) + bytes(20),
    "a negative API": request_header(-1, 0) + bytes(20),
}


def one_of_each() -> Iterator[tuple[str, bytes]]:
    """Everything above, and random bytes, whole lengths first where they stand for a frame."""
    chance = random.Random(2)
    yield from FAMOUS.items()
    yield from LENGTHS.items()
    yield from CUT.items()
    for name, body in BODIES.items():
        yield name, frame(body)
    for size in (64, 4096, 100_000):
        yield f"{size} random bytes", chance.randbytes(size)
        yield f"a frame of {size} random bytes", frame(chance.randbytes(size))


def garbage_bodies(chance: random.Random) -> Iterator[bytes]:
    """For every API and some versions a good header, old or flexible, over a random body."""
    for key in range(100):
        for version in range(0, 18, 3):
            header = request_header(key, version) + (b"\0" if chance.random() < 0.5 else b"")
            yield frame(header + chance.randbytes(chance.randrange(200)))


def mutants(chance: random.Random, count: int) -> Iterator[bytes]:
    """Good requests with a few bytes changed, left out or put in; the length of the frame fits."""
    good = good_requests()
    for _ in range(count):
        body = bytearray(chance.choice(good))
        for _ in range(chance.randrange(1, 6)):
            mutate(body, chance)
        yield frame(bytes(body))


def mutate(body: bytearray, chance: random.Random) -> None:
    place = chance.randrange(len(body))
    match chance.randrange(4):
        case 0:
            body[place] = chance.randrange(256)
        case 1:
            body[place] = chance.choice(b"\x00\x01\x7f\x80\xff")
        case 2:
            del body[place : place + chance.randrange(1, 9)]
            body += b"\0"
        case _:
            body[place:place] = chance.randbytes(chance.randrange(1, 9))


def good_requests() -> list[bytes]:
    """One small request of some APIs, in versions with plain encodings; the topic does not exist."""
    topic = string("no-such-topic")
    partition = struct.pack(">ii", 1, 0)
    one = struct.pack(">i", 1) + topic + partition
    return [
        request_header(API_VERSIONS, 0),
        request_header(METADATA, 1) + struct.pack(">i", 1) + topic,
        request_header(2, 1) + struct.pack(">i", -1) + one + struct.pack(">q", -1),
        request_header(FETCH, 4) + struct.pack(">iiiib", -1, 50, 1, 1 << 20, 0) + one + struct.pack(">qi", 0, 1 << 20),
        request_header(PRODUCE, 3) + struct.pack(">hhi", -1, 1, 1000) + one + struct.pack(">i", 61) + bytes(61),
        request_header(19, 2) + struct.pack(">i", 0) + struct.pack(">ib", 100, 1),
        request_header(22, 0) + struct.pack(">hi", -1, 1000),
        request_header(10, 0) + string("group"),
    ]


def connect_from(bootstrap: str, host: str) -> socket.socket:
    """A connection from one of the loopback addresses: log lines are limited for each address."""
    there, _, port = bootstrap.rpartition(":")
    stream = socket.create_connection((there, int(port)), 10, source_address=(host, 0))
    # Closed with a reset, so that thousands of them leave no ports waiting
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return stream


def is_closed_after(stream: socket.socket, data: bytes, *, then_finish: bool) -> bool:
    """Send, and read what comes until the broker closes (True) or nothing comes for the stream's timeout (False)."""
    try:
        stream.sendall(data)
        if then_finish:
            stream.shutdown(socket.SHUT_WR)
        while stream.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def settle(stream: socket.socket, data: bytes) -> None:
    """Send, then a good request, which the broker answers unless it closes. To do neither is to hang."""
    sentinel = 0x5E771E
    received = b""
    try:
        stream.sendall(data + frame(request_header(API_VERSIONS, 0, sentinel)))
        while struct.pack(">i", sentinel) not in received:
            piece = stream.recv(1 << 16)
            if not piece:
                return
            received = received[-3:] + piece
    except TimeoutError:
        raise AssertionError(f"neither answered nor closed after {data.hex(' ')}") from None
    except OSError:
        return


class Neighbour:
    """A client that behaves: for the length of a with-block it sends a record, waits until it is back, and goes on."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.took_s: list[float] = []
        self.failure: BaseException | None = None
        self.is_ending = threading.Event()
        self.tail = Confluent().tail(bootstrap, topic)
        self.writer = Noise(bootstrap, topic, 0)
        self.thread = threading.Thread(target=self.run, name="neighbour", daemon=True)

    def __enter__(self) -> Self:
        assert self.tail.is_parked.wait(30)
        self.exchange(b"first")
        self.took_s.clear()
        self.thread.start()
        return self

    def run(self) -> None:
        try:
            while not self.is_ending.wait(0.005):
                self.exchange(b"record %d" % len(self.took_s))
        except BaseException as failure:  # noqa: BLE001 - raised again by the thread that waits
            self.failure = failure

    def exchange(self, value: bytes) -> None:
        began_s = time.perf_counter()
        self.writer.send(value)
        assert self.tail.next(30).value == value
        self.took_s.append(time.perf_counter() - began_s)

    def wait_for(self, count: int) -> None:
        """Until it was served so many times more."""
        wanted = len(self.took_s) + count
        until(lambda: len(self.took_s) >= wanted, f"{count} exchanges of the client that behaves")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.is_ending.set()
        self.thread.join(60)
        self.tail.close()
        if self.failure is not None:
            raise self.failure


class MemoryWatch:
    """The most that resident memory grew, looked at every 20 ms."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.before = self.most = broker.resident_bytes()
        self.is_ending = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        while not self.is_ending.wait(0.02):
            self.most = max(self.most, self.broker.resident_bytes())

    def end(self) -> int:
        self.is_ending.set()
        self.thread.join()
        return max(self.most, self.broker.resident_bytes()) - self.before
