"""Random bursts of pipelined requests, against a whole broker, over either driver of connections.

A burst is a few clients, each with requests sent in random portions: produce to a cached and to a synced topic with any
acks, commits of offsets, fetches that wait or do not, replies of a megabyte. A client half-closes, is reset, or reads
slowly. Threads take a random time on the mock clock. After each burst nothing may be staged; what was acknowledged has
to be in the logs.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import trio
import trio.testing
from trio._core import _run as trio_run

from headgate.gateway.api import context
from headgate.gateway.app.broker import Broker
from headgate.gateway.app.composition import Seams
from headgate.gateway.config import BrokerConfig
from headgate.gateway.network import streams
from headgate.gateway.network.connection import Connection
from headgate.gateway.network.socket_driver import SocketDriver
from headgate.gateway.network.sockets import SocketEngine
from headgate.gateway.network.streams import StreamDriver
from headgate.gateway.network.tests.conformance import PoisonedConnection
from headgate.gateway.network.tests.kernel import FakeListener, FakeSocket, FakeStream, Kernel
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.log_output import LimitedLog
from headgate.gateway.runtime.memory_budget import MemoryBudget
from headgate.gateway.runtime.scheduler import TrioClock
from headgate.gateway.runtime.tests.fake_scheduler import FakeScheduler, at_once
from headgate.gateway.tests.builders import UnsyncedFiles
from headgate.gateway.tests.harness import MemoryListener
from headgate.gateway.tests.requests import commit_request
from headgate.protocol.client.connection import ClientConnection
from headgate.protocol.errors import KafkaError
from headgate.protocol.internal.offsets import OffsetCommitKey, OffsetCommitValue, decode
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.protocol.messages.offset_commit import (
    OffsetCommitRequest,
)
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.protocol.records import batch
from headgate.protocol.schema import Message

TOPICS = ("cache", "commit")
PARTITIONS = 2
LARGE_BYTES = (1 << 20) - 64  # with its batch and the reply around it a little more than a megabyte
MAX_REQUESTS = 40
MAX_WAIT_MS = 400
SLACK_S = 5.0  # for what is not a wait of a fetch: threads, slow readers
GROUPS = 3

Acknowledged = set[tuple[str, int, int, bytes]]


class RandomScheduler(FakeScheduler):
    """A scheduler whose threads take up to 5 ms. Their work is done at the end of that."""

    def __init__(self, random: Random, clock: Clock, disks: int, settle: Callable[[], None]) -> None:
        super().__init__(clock, disks, settle, threads=self._run_late)
        self._random = random

    def _run_late(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.call_after(self._random.choice((0.0, 0.3, 5.0)), lambda: at_once(work, done))


class Bursts:
    """One broker, one driver, and what its clients were told."""

    def __init__(self, broker: Broker, random: Random, over_streams: bool) -> None:
        self.services = broker.services
        self.random = random
        self.kernel = Kernel()
        self.failures: list[str] = []
        self.records: Acknowledged = set()
        self.offsets: set[tuple[str, int, int]] = set()
        self._over_streams = over_streams
        self._dispatcher = broker.parts.dispatcher
        self._memory = MemoryBudget(100_000_000)
        self._log = LimitedLog(logging.getLogger("headgate.test"), self.services.clock)
        self._listener = FakeListener(self.kernel)
        self._sent = 0

    async def start(self, nursery: trio.Nursery) -> None:
        """Make the topics, and serve."""
        self._nursery = nursery
        metadata = self.services.metadata
        metadata.create_topic("cache", PARTITIONS)
        metadata.create_topic("commit", PARTITIONS, configs={"headgate.flush": "commit"})
        metadata.create_topic("large", 1)
        await trio.sleep(10)
        with suppress(KafkaError):  # the topic is being made
            self.services.groups.leader_of("g0")
        await trio.sleep(10)
        large = memoryview(batch.build([batch.Record(timestamp=1, value=bytes(LARGE_BYTES))]))
        self.services.partitions.get("large", 0).append(large, 1, 1)
        if not self._over_streams:
            listener: Any = self._listener
            services = self.services
            engine = SocketEngine(
                lambda driver: None,
                services.clock,
                services.scheduler,
                self._log,
                services.batcher,
                self.kernel,
                self.kernel.sendfile,
            )
            engine.stream_count = 1
            engine.listen(listener, self._admit)
            engine.max_turn_ms = self.random.choice((0.0, 1.0))
            nursery.start_soon(engine.run)

    def _connection(self) -> Connection:
        client = context.Client("127.0.0.1", 40_000, "127.0.0.1", 9092)
        return PoisonedConnection(client, self._dispatcher, 4_000_000, self._memory, lambda *_: None)

    def _admit(self, engine: SocketEngine, sock: Any) -> SocketDriver:
        return SocketDriver(engine, sock, self._connection())

    def _connect(self) -> FakeSocket:
        if not self._over_streams:
            return self._listener.connect()
        sock = FakeSocket(self.kernel)
        driver = StreamDriver(FakeStream(sock), self._connection(), self.services.clock, self._log)
        self._nursery.start_soon(driver.run)
        return sock

    async def burst(self, number: int) -> None:
        """A few clients at once, to their end; then what must hold."""
        async with trio.open_nursery() as nursery:
            for _ in range(self.random.choice((1, 1, 2, 3))):
                nursery.start_soon(BurstClient(self, self._connect(), number).run)
        await trio.testing.wait_all_tasks_blocked()
        assert not self.services.batcher.is_open, "staged, and everybody sleeps"
        for replica in self.services.partitions:
            log = replica.log
            unwritten = log.being_written or log.staged
            assert log.staged is None
            assert replica.high_watermark <= (log.end_offset if unwritten is None else unwritten.first_offset)

    def value(self) -> bytes:
        """A value that no other record has."""
        self._sent += 1
        return b"%08d" % self._sent

    def check_logs(self) -> None:
        """Everything that was acknowledged is in the logs."""
        stored = {
            (topic, index, offset, record.value)
            for topic in TOPICS
            for index in range(PARTITIONS)
            for offset, record in self._stored(topic, index)
        }
        lost = sorted((topic, index, offset, value[:8]) for topic, index, offset, value in self.records - stored)
        assert not lost, f"{lost} were acknowledged, and are not there"
        committed = set()
        for index in range(self.services.config.offsets_topic_num_partitions):
            for _, record in self._stored("__consumer_offsets", index):
                match decode(record.key or b"", record.value):
                    case (OffsetCommitKey() as key, OffsetCommitValue() as value):
                        committed.add((key.group, key.partition, value.offset))
        assert self.offsets <= committed, (
            f"{len(self.offsets - committed)} commits were acknowledged, and are not there"
        )

    def _stored(self, topic: str, index: int) -> Iterator[tuple[int, Any]]:
        replica = self.services.partitions.get(topic, index)
        offset = replica.log.start_offset
        while (piece := replica.read(offset, 1 << 20, 0, at_least_one=True)) is not None:
            for record in batch.iterate(memoryview(piece.read())):
                yield record.offset, record
                offset = record.offset + 1
            piece.release()


class BurstClient:
    """One client of a burst."""

    def __init__(self, bursts: Bursts, sock: FakeSocket, number: int) -> None:
        self._bursts = bursts
        self._random = random = bursts.random
        self._number = number
        self._socket = sock
        self._peer = ClientConnection("burst")
        self._limit_s = SLACK_S
        self._answered = 0
        self._values: dict[int, list[tuple[str, int, bytes]]] = {}
        self._end = random.choices(("stay", "half-close", "reset"), (5, 3, 1))[0]
        self._is_slow = random.random() < 0.2

    async def run(self) -> None:
        """Send everything, and take the replies, for as long as they may take."""
        count = self._random.choice((1, 3, 16, 16, 17, 20, 33, MAX_REQUESTS))
        requests = [self._request() for _ in range(count)]
        if self._random.random() < 0.3:  # such ends of a round are where replies were forgotten
            requests[-1] = self._produce("commit", -1)
        data = b"".join(self._framed(request) for request in requests)
        self._shape(
            len(data), any(each.topics[0].topic == "large" for each, _ in requests if type(each) is FetchRequest)
        )
        with trio.move_on_after(self._limit_s) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send, data)
                await self._receive()
        if scope.cancelled_caught:
            self._report_fault(f"waits ({self._end})")
        self._socket.client_resets()
        await trio.testing.wait_all_tasks_blocked()

    def _shape(self, size: int, has_large: bool) -> None:
        """What the kernel gives and takes at a time: as little as can be had in some hundred steps."""
        random, sock = self._random, self._socket
        sock.portion = random.choice((1 << 30, 1 << 30, 1 << 30, max(7, size // 200)))
        sock.room = random.choice((1 << 24, 1 << 24, 1 << 18 if has_large else 3_000))

    def _report_fault(self, what: str) -> None:
        left = [type(each.request).__name__ for each in self._peer.in_flight]
        told = f"burst {self._number}: after {self._answered} answers a client {what}, for {len(left)}, {left[:1]}"
        self._bursts.failures.append(told)

    async def _send(self, data: bytes) -> None:
        position, random = 0, self._random
        is_cut = random.random() < 0.5
        until = random.randrange(len(data)) if self._end == "reset" else len(data)
        while position < until:
            size = random.choice((1, 9, 700, max(9, until // 20))) if is_cut else 1 << 30
            self._socket.client_sends(data[position : min(position + size, until)])
            position += size
            if random.random() < 0.3:
                await trio.sleep(0.001)
            else:
                await trio.lowlevel.checkpoint()
        if self._end == "half-close":
            self._socket.client_half_closes()
        elif self._end == "reset":
            await trio.sleep(random.choice((0, 0.002)))
            self._socket.client_resets()

    async def _receive(self) -> None:
        while self._peer.in_flight or self._end == "half-close":
            data = self._socket.client_takes(1 << 24)
            if data:
                for request, response in self._peer.receive(bytearray(data)):
                    self._note(request, response)
                if self._is_slow:
                    await trio.sleep(0.001)
            elif self._socket.is_closed:
                if self._peer.in_flight and self._end != "reset":
                    self._report_fault(f"was hung up on ({self._end})")
                return
            else:
                await self._bursts.kernel.until_changed()

    # Requests

    def _framed(self, request: tuple[Message, int]) -> bytes:
        return self._peer.request(*request)

    def _request(self) -> tuple[Message, int]:
        random = self._random
        match random.choices(("produce", "offsets", "fetch", "wait", "large"), (8, 4, 3, 1, 1))[0]:
            case "produce":
                return self._produce(random.choice(TOPICS), random.choice((-1, -1, 1, 0)))
            case "offsets":
                return self._commit_offset()
            case "fetch":
                return self._fetch(random.choice(TOPICS), 0, 0)
            case "wait":
                wait_ms = random.randrange(MAX_WAIT_MS)
                self._limit_s += wait_ms / 1000
                return self._fetch(random.choice(TOPICS), wait_ms, 1 << 30)
        return self._fetch("large", 0, 0)

    def _produce(self, topic: str, acks: int) -> tuple[Message, int]:
        """One partition, or one of each topic: each record has a value of its own."""
        random, names = self._random, [topic]
        if random.random() < 0.3:
            names.append(TOPICS[1 - TOPICS.index(topic)])
        topics, values = [], []
        for name in names:
            index, value = random.randrange(PARTITIONS), self._bursts.value() + bytes(random.choice((0, 0, 6_000)))
            records = memoryview(batch.build([batch.Record(timestamp=1_700_000_000_000, value=value)]))
            topics.append(TopicProduceData(name, partition_data=[PartitionProduceData(index, records)]))
            values.append((name, index, value))
        request = ProduceRequest(None, acks, 30_000, topics)
        self._values[id(request)] = values
        return request, 9

    def _commit_offset(self) -> tuple[Message, int]:
        offset = int(self._bursts.value())
        index = self._random.randrange(PARTITIONS)
        return commit_request(f"g{self._random.randrange(GROUPS)}", {index: offset}, "cache"), 8

    def _fetch(self, topic: str, wait_ms: int, min_bytes: int) -> tuple[Message, int]:
        partition = FetchPartition(0, -1, 0, partition_max_bytes=2 * LARGE_BYTES)
        topics = [FetchTopic(topic, partitions=[partition])]
        return FetchRequest(max_wait_ms=wait_ms, min_bytes=min_bytes, max_bytes=2 * LARGE_BYTES, topics=topics), 11

    # Answers

    def _note(self, request: Message, response: Any) -> None:
        """Keep what was acknowledged."""
        self._answered += 1
        if isinstance(request, ProduceRequest):
            rows = [row for topic in response.responses for row in topic.partition_responses]
            for (topic, index, value), row in zip(self._values[id(request)], rows, strict=True):
                assert row.error_code == 0, (topic, row)
                self._bursts.records.add((topic, index, row.base_offset, value))
        elif isinstance(request, OffsetCommitRequest):
            (row,) = response.topics[0].partitions
            assert row.error_code == 0, row
            offset = request.topics[0].partitions[0].committed_offset
            self._bursts.offsets.add((request.group_id, row.partition_index, offset))
        else:
            assert isinstance(request, FetchRequest)
            assert response.responses[0].partitions[0].error_code == 0


def run_bursts(directory: Path, seed: int, count: int, over_streams: bool) -> list[str]:
    """Run `count` bursts on one broker; returns what failed. A seed gives the same bursts."""
    random = Random(seed)
    vars(trio_run)["_ALLOW_DETERMINISTIC_SCHEDULING"] = True  # as trio does for hypothesis
    trio_run._r.seed(seed)
    flush = random.choice(("cache", "commit"))
    turn_ms = streams.TURN_MS

    async def main() -> list[str]:
        settings = [f"log.dirs={directory}", "offsets.topic.num.partitions=2", f"headgate.flush={flush}"]
        make_scheduler = partial(RandomScheduler, random)
        broker = Broker(BrokerConfig.load("", settings), Seams(TrioClock(), UnsyncedFiles(), Random(0), make_scheduler))
        bursts = Bursts(broker, random, over_streams)
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run, [("PLAINTEXT", MemoryListener())])
            async with trio.open_nursery() as serving:
                await bursts.start(serving)
                for number in range(count):
                    await bursts.burst(number)
                serving.cancel_scope.cancel()
            await trio.sleep(1)  # what is owed to nobody is synced too
            bursts.check_logs()
            assert bursts.records
            assert bursts.offsets
            await broker.stop()
        return bursts.failures

    streams.TURN_MS = random.choice((0.0, turn_ms))
    try:
        return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    finally:
        streams.TURN_MS = turn_ms
        vars(trio_run)["_ALLOW_DETERMINISTIC_SCHEDULING"] = False


def fresh_seed() -> int:
    """One that no run had before."""
    return int.from_bytes(os.urandom(6))
