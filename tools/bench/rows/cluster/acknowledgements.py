"""A client that wants one acknowledgement after another for each of many partitions, wherever they are led.

One thread, with at most one request in flight at each broker. A request has a record for each partition that is due
and led there. A partition that a broker refuses, or whose broker is gone, is looked up by Metadata at the next tick, as
real clients do, only more often: each `TICK_SECONDS`.
"""

import math
import selectors
import socket
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from headgate.tools.bench.requests import frames
from headgate.tools.bench.requests.client import METADATA_OF_ANY_BROKER, BenchError, Reader, read_metadata
from headgate.tools.bench.rows.row import BATCH_TINY

TICK_SECONDS: Final = 0.01
_PRODUCE_VERSION: Final = 7
_TIMEOUT_MS: Final = 1000
_ACKS_ALL: Final = -1
_CONNECT_SECONDS: Final = 1.0


@dataclass(slots=True)
class Connection:
    """A connection to a broker. `asked`: the partitions of the request in flight; None: no request."""

    broker_id: int
    socket: socket.socket
    received: bytearray = field(default_factory=bytearray)
    asked: list[int] | None = None

    def send(self, request: frames.RequestWriter, asked: list[int]) -> None:
        self.asked = asked
        self.socket.sendall(request.frame())

    def receive(self) -> bytes | None:
        """An answer from behind its correlation id on, None while it is not complete. Raises OSError."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("closed by the broker")
        self.received += data
        if len(self.received) < 4 or len(self.received) < 4 + struct.unpack_from(">i", self.received)[0]:
            return None
        answer = bytes(self.received[8:])
        self.received.clear()
        return answer


class Acknowledgements:
    """The newest acknowledgement of each partition of a topic: its time, and the broker that gave it.

    `moved_at`: the time of the first one by another broker than before. `longest_gap_seconds` may be set to 0 again.
    """

    def __init__(
        self, topic: str, leaders: Mapping[int, int | None], ports: Mapping[int, int], interval_seconds: float
    ) -> None:
        """`leaders` of the partitions, by number; `ports` of the brokers, by id. A partition is due each interval."""
        self.topic, self.ports, self.interval_seconds = topic, dict(ports), interval_seconds
        self.leaders: dict[int, int | None] = dict(leaders)
        self.acknowledged_at: dict[int, float] = {}
        self.acknowledged_by: dict[int, int] = {}
        self.moved_at: dict[int, float] = {}
        self.longest_gap_seconds = 0.0
        self._batch = BATCH_TINY.build()
        self._connections: dict[int, Connection] = {}
        self._selector = selectors.DefaultSelector()

    def run(self, is_over: Callable[[], bool], within_seconds: float) -> None:
        """Produce until `is_over`, which each tick asks. Raises BenchError after the time."""
        deadline = time.perf_counter() + within_seconds
        while not is_over():
            tick = time.perf_counter()
            if tick > deadline:
                raise BenchError(f"{self.topic}: {self._describe()} after {within_seconds:g} s")
            self._look_up()
            self._send_due(tick)
            self._receive_until(tick + TICK_SECONDS)

    def close(self) -> None:
        for broker_id in list(self._connections):
            self._lose(broker_id)
        self._selector.close()

    def _describe(self) -> str:
        unknown = sum(leader is None for leader in self.leaders.values())
        return f"{len(self.acknowledged_at)} of {len(self.leaders)} partitions acknowledged, {unknown} without a leader"

    # Leaders

    def _look_up(self) -> None:
        """Ask one broker after the other for the leaders of partitions without one."""
        wanted = {number for number, leader in self.leaders.items() if leader is None}
        if not wanted or not self.ports:
            return
        broker_id = next(iter(self.ports))
        self.ports[broker_id] = self.ports.pop(broker_id)  # the next time another one
        for number, leader in self._ask_leaders(broker_id).items():
            if number in wanted and leader in self.ports:
                self.leaders[number] = leader

    def _ask_leaders(self, broker_id: int) -> dict[int, int]:
        try:
            with socket.create_connection(("127.0.0.1", self.ports[broker_id]), _CONNECT_SECONDS) as connection:
                connection.sendall(frames.metadata(METADATA_OF_ANY_BROKER, [self.topic]).frame())
                with connection.makefile("rb") as stream:
                    (size,) = struct.unpack(">i", stream.read(4))
                    answer = Reader(stream.read(size)[4:], flexible=False)
            (topic,) = read_metadata(answer, METADATA_OF_ANY_BROKER).topics
        except (OSError, struct.error):
            return {}
        return {each.number: each.leader for each in topic.partitions}

    # Requests

    def _send_due(self, now: float) -> None:
        due: dict[int, list[int]] = {}
        for number, leader in self.leaders.items():
            if leader is not None and now - self.acknowledged_at.get(number, -math.inf) >= self.interval_seconds:
                due.setdefault(leader, []).append(number)
        for broker_id, numbers in due.items():
            connection = self._connections.get(broker_id) or self._connect(broker_id)
            if connection is None:
                self._unknown(numbers)
            elif connection.asked is None:
                self._send(connection, numbers)

    def _send(self, connection: Connection, numbers: list[int]) -> None:
        request = frames.produce_each(
            _PRODUCE_VERSION, self.topic, numbers, self._batch, acks=_ACKS_ALL, timeout_ms=_TIMEOUT_MS
        )
        try:
            connection.send(request, numbers)
        except OSError:
            self._lose(connection.broker_id)

    def _connect(self, broker_id: int) -> Connection | None:
        if broker_id not in self.ports:
            return None
        try:
            opened = socket.create_connection(("127.0.0.1", self.ports[broker_id]), _CONNECT_SECONDS)
        except OSError:
            return None
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = self._connections[broker_id] = Connection(broker_id, opened)
        self._selector.register(opened, selectors.EVENT_READ, connection)
        return connection

    def _lose(self, broker_id: int) -> None:
        connection = self._connections.pop(broker_id, None)
        if connection is not None:
            self._selector.unregister(connection.socket)
            connection.socket.close()
        self._unknown(number for number, leader in self.leaders.items() if leader == broker_id)

    def _unknown(self, numbers: Iterable[int]) -> None:
        for number in list(numbers):
            self.leaders[number] = None

    # Answers

    def _receive_until(self, deadline: float) -> None:
        while (left := deadline - time.perf_counter()) > 0:
            for key, _ in self._selector.select(left):
                connection: Connection = key.data
                try:
                    answer = connection.receive()
                except OSError:
                    self._lose(connection.broker_id)
                    continue
                if answer is not None:
                    connection.asked = None
                    self._take(connection.broker_id, answer)

    def _take(self, broker_id: int, answer: bytes) -> None:
        now = time.perf_counter()
        for number, error in read_produced(answer):
            if error:
                self.leaders[number] = None
                continue
            before = self.acknowledged_at.get(number)
            if before is not None:
                self.longest_gap_seconds = max(self.longest_gap_seconds, now - before)
            if self.acknowledged_by.get(number, broker_id) != broker_id:
                self.moved_at[number] = now
            self.acknowledged_at[number], self.acknowledged_by[number] = now, broker_id


def read_produced(answer: bytes) -> list[tuple[int, int]]:
    """Partition and error code of each row of a Produce answer v7 for one topic."""
    reader = Reader(answer, flexible=False)
    found = []
    for _ in range(reader.count()):
        reader.string()
        for _ in range(reader.count()):
            found.append((reader.number("i"), reader.number("h")))
            reader.raw(24)  # base offset, time, start of the log
    return found
