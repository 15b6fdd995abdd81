"""The fetcher of a follower against a leader with its fetch sessions: leader epochs rise, and orders come in any order.

A seed decides. Once the last orders have come, every partition is fetched to its end within a second.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from headgate.gateway.config import BrokerConfig
from headgate.gateway.replication.fetching.fetcher import (
    AppendRecords,
    FetchState,
    FollowedPartition,
    FollowerWork,
    ReceivedRecords,
    ReplicaFetcher,
    progress,
)
from headgate.gateway.replication.tests.test_in_sync_replicas import LedPartition
from headgate.gateway.runtime.tasks import is_task
from headgate.gateway.tests.builders import over_the_wire, parked, records
from headgate.protocol.client.fetch_session import FetchKey
from headgate.protocol.messages.fetch import FetchRequest, FetchResponse
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.storage.segment.file_slice import FileSlice

pytestmark = pytest.mark.slow

FOLLOWER: Final = 1
COUNT: Final = 4
FETCH_VERSION: Final = 15
HEADER: Final = struct.Struct(">qii")
LAST_DELTA: Final = struct.Struct(">i")
STEPS: Final = 200


class CopiedLog:
    """The facts of a log that grows by the batches of a leader."""

    def __init__(self) -> None:
        self.start_offset = self.high_watermark = self.end_offset = 0
        self.last_epoch = -1
        self.is_durable = True
        self._epochs: list[tuple[int, int]] = []

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        later = [start for known, start in self._epochs if known > epoch]
        earlier = [known for known, _ in self._epochs if known <= epoch]
        return (earlier[-1], later[0] if later else self.end_offset) if earlier else (-1, -1)

    def append(self, batches: ReceivedRecords) -> None:
        position = 0
        while position < len(batches):
            base, size, epoch = HEADER.unpack_from(batches, position)
            assert base == self.end_offset
            if epoch > self.last_epoch:
                self.last_epoch = epoch
                self._epochs.append((epoch, base))
            self.end_offset = base + LAST_DELTA.unpack_from(batches, position + 23)[0] + 1
            position += 12 + size


class History:
    """A leader and one follower. Each method is a step."""

    def __init__(self, path: Path, seed: int) -> None:
        self.random = Random(seed)
        self.led = LedPartition(path, partitions=COUNT)
        self.node = self.led.node
        topic = self.led.metadata.image.topics["t"]
        self.epochs = [0] * COUNT
        self.partitions = [
            FollowedPartition(FetchKey("t", topic.topic_id, index), CopiedLog()) for index in range(COUNT)
        ]
        self.fetcher = ReplicaFetcher(FOLLOWER, BrokerConfig.load(""), lambda: 7)
        self.works: list[FollowerWork] = []
        self.answers: list[Any] | None = None
        for index in range(COUNT):
            self.order_follower(index)

    @property
    def now_ms(self) -> float:
        return self.node.services.clock.monotonic_ms()

    def any_index(self) -> int:
        return self.random.randrange(COUNT)

    def write(self) -> None:
        data = PartitionProduceData(index=self.any_index(), records=records(b"v"))
        self.node.handle(ProduceRequest(acks=1, topic_data=[TopicProduceData(name="t", partition_data=[data])]), 9)

    def elect(self) -> None:
        self.epochs[self.any_index()] += 1

    def order_leader(self, index: int) -> None:
        old = self.led.metadata.image
        topic = old.topics["t"]
        states = list(topic.partitions)
        before = states[index]
        states[index] = before._replace(leader_epoch=self.epochs[index], partition_epoch=before.partition_epoch + 1)
        new = old._replace(topics={**old.topics, "t": topic._replace(partitions=tuple(states))})
        self.led.metadata.image = new
        self.node.services.partitions.follow(old, new, ["t"])

    def order_follower(self, index: int) -> None:
        partition = self.partitions[index]
        if self.epochs[index] > partition.leader_epoch:
            assert self.fetcher.follow(partition, self.epochs[index]) is None

    def ask(self) -> None:
        assert not list(self.fetcher.resume(self.now_ms))
        question = None if self.answers is not None else self.fetcher.next_question(self.now_ms)
        if question is not None:
            assert isinstance(question.message, FetchRequest)
            outcome = self.node.handle(over_the_wire(question.message, FETCH_VERSION), FETCH_VERSION)
            self.answers = parked(self.node, outcome) if is_task(outcome) else [outcome]

    def take(self) -> None:
        if self.answers:
            answer, self.answers = received(self.answers[0]), None
            for work in self.fetcher.take(answer, self.now_ms):
                self.works.append(work)
                if not (isinstance(work, AppendRecords) and work.records):  # a task that needs no thread
                    self.end_work()
                if self.random.random() < 0.1:
                    self.order_follower(self.any_index())

    def end_work(self) -> None:
        if self.works:
            work = self.works.pop()
            assert isinstance(work, AppendRecords)
            log = work.partition.log
            assert isinstance(log, CopiedLog)
            log.append(work.records or b"")
            log.high_watermark, _ = progress(log, work)
            assert work.partition.end_work(self.now_ms) is None

    def wait(self) -> None:
        self.node.time.advance(self.random.choice((0, 1, 10, 60, 300)))

    def run(self) -> None:
        some: list[Callable[[], None]] = [
            *[self.write] * 4,
            self.elect,
            lambda: self.order_leader(self.any_index()),
            lambda: self.order_follower(self.any_index()),
            *[self.ask] * 5,
            *[self.take] * 5,
            *[self.end_work] * 3,
            *[self.wait] * 2,
        ]
        for _ in range(STEPS):
            self.random.choice(some)()
        for index in self.random.sample(range(COUNT), COUNT):
            orders = [self.order_leader, self.order_follower]
            self.random.shuffle(orders)
            for order in orders:
                order(index)

    def catch_up(self) -> None:
        for _ in range(20):
            self.ask()
            self.node.time.advance(50)
            self.take()
            while self.works:
                self.end_work()


def received(response: FetchResponse) -> Any:
    """A response as the follower reads it."""
    for topic in response.responses:
        for row in topic.partitions:
            if isinstance(row.records, FileSlice):
                piece = row.records
                row.records = os.pread(piece.fileno, piece.length, piece.position)
                piece.release()
    return over_the_wire(response, FETCH_VERSION)


@pytest.mark.parametrize("seed", range(12))
def test_every_order_is_followed_within_a_second(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path, seed)
    history.run()
    history.catch_up()
    for index, partition in enumerate(history.partitions):
        replica = history.node.services.partitions.get("t", index)
        assert partition.state is FetchState.FETCHING
        assert (partition.leader_epoch, partition.log.end_offset) == (replica.leader_epoch, replica.log.end_offset)
        assert replica.progress is not None
        assert [lag for node_id, lag in replica.progress.lags(0, replica.log.end_offset) if node_id == FOLLOWER] == [0]
    history.node.close()
