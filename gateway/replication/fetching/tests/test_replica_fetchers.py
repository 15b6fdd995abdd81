"""The tasks that fetch from leaders: links, the works of an answer, and replicas that change their leader."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from headgate.gateway.replication.fetching.fetcher import ReceivedRecords
from headgate.gateway.replication.fetching.replica_fetchers import Leader, ReplicaFetchers
from headgate.gateway.replication.fetching.tests.replicated_partitions import Batch, ModelLog, Settings
from headgate.gateway.runtime.tasks import Ask, Outcome, Task, Tasks
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.protocol.client.fetch_session import FetchKey
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from headgate.protocol.schema import Message

TOPIC_ID = b"i" * 16
KEYS = [FetchKey("t", TOPIC_ID, index) for index in range(2)]
ONE, THREE = Leader(1, "one", 9092), Leader(3, "three", 9092)
RECORDS = Batch(0, 0, 3, ((0, 0),)).encode()


class Replica(ModelLog):
    """A log whose works wait for the test while `is_slow`."""

    def __init__(self, *, fsyncs: bool = False) -> None:
        super().__init__(fsyncs=fsyncs)
        self.is_slow = False
        self.calls: list[str] = []
        self.waiting: list[Callable[[Any], None]] = []

    def _wait(self, call: str) -> Task[None]:
        self.calls.append(call)
        if self.is_slow:
            yield self.waiting.append

    def append_as_follower(self, records: ReceivedRecords) -> Outcome[None]:  # type: ignore[override]
        return self._append(records) if self.is_slow else super().append_as_follower(records)

    def _append(self, records: ReceivedRecords) -> Task[None]:
        yield from self._wait("append")
        super().append_as_follower(records)

    def sync(self) -> Task[None]:
        yield from self._wait("sync")
        self.synced_end = self.end_offset

    def truncate(self, offset: int) -> Task[None]:  # type: ignore[override]
        yield from self._wait(f"truncate {offset}")
        super().truncate(offset)

    def restart_at(self, offset: int) -> Task[None]:
        yield from self._wait(f"restart {offset}")
        self.restart(offset)


class FakeLink:
    """A link whose requests wait for the test."""

    def __init__(self, node_id: int, host: str, port: int, client_id: str) -> None:
        self.name = f"{node_id} {host}:{port} {client_id}"
        self.asked: list[tuple[Any, Callable[[Any], None]]] = []
        self.is_closed = False

    def ask(self, request: Message, _version: int | None = None) -> Ask:
        return partial(self._begin, request)

    def _begin(self, request: Message, resume: Callable[[Any], None]) -> None:
        self.asked.append((request, resume))

    def versions(self) -> Ask:
        raise NotImplementedError("a fetch names its version")

    def close(self) -> None:
        self.is_closed = True


class Bench:
    """The fetchers of broker 2."""

    def __init__(self) -> None:
        self.time = ManualTime()
        self.time.clock.elapsed_ms = 1000.0
        self.tasks = Tasks(self.time.clock, self.time.scheduler)
        self.links: list[FakeLink] = []
        self.broker_epoch = 40
        self.fetchers = ReplicaFetchers(2, Settings(), self.tasks, self, lambda: self.broker_epoch)
        self.replicas = [Replica(), Replica()]

    def open(self, node_id: int, host: str, port: int, client_id: str, *, timeout_ms: float) -> FakeLink:
        assert timeout_ms == Settings.replica_socket_timeout_ms
        self.links.append(FakeLink(node_id, host, port, client_id))
        return self.links[-1]

    def follow(self, index: int = 0, leader: Leader = ONE, epoch: int = 5) -> None:
        self.fetchers.follow(KEYS[index], self.replicas[index], leader, epoch)
        self.time.advance()

    def fetch(self, link: int = 0) -> FetchRequest:
        """The request that waits for its answer."""
        (asked,) = self.links[link].asked
        request = asked[0]
        assert isinstance(request, FetchRequest)
        return request

    def rows(self, link: int = 0) -> list[FetchPartition]:
        return [row for topic in self.fetch(link).topics for row in topic.partitions]

    def answer(self, *rows: PartitionData, link: int = 0) -> None:
        _, resume = self.links[link].asked.pop()
        topics = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(rows))]
        resume(FetchResponse(session_id=9, responses=topics))
        self.time.advance()


def data(index: int = 0, **fields: Any) -> PartitionData:
    return PartitionData(partition_index=index, **{"error_code": ErrorCode.NONE, "log_start_offset": 0, **fields})


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_an_answer_is_appended_and_the_next_one_asked_for(bench: Bench) -> None:
    bench.follow(0)
    assert bench.links[0].name == "1 one:9092 broker-2-fetcher-0"
    assert [(row.fetch_offset, row.current_leader_epoch) for row in bench.rows()] == [(0, 5)]
    bench.answer(data(records=RECORDS, high_watermark=1))
    assert (bench.replicas[0].end_offset, bench.replicas[0].high_watermark) == (1, 1)
    assert [(row.fetch_offset, row.last_fetched_epoch) for row in bench.rows()] == [(1, 3)]


def test_one_link_serves_all_partitions_of_a_leader(bench: Bench) -> None:
    bench.fetchers.follow(KEYS[0], bench.replicas[0], ONE, 5)
    bench.follow(1)
    assert len(bench.links) == 1
    assert [row.partition for row in bench.rows()] == [0, 1]


def test_a_slow_write_holds_up_no_other_partition(bench: Bench) -> None:
    bench.fetchers.follow(KEYS[0], bench.replicas[0], ONE, 5)
    bench.follow(1)
    bench.replicas[0].is_slow = True
    bench.answer(data(0, records=RECORDS), data(1, records=RECORDS))
    assert [replica.end_offset for replica in bench.replicas] == [0, 1]
    bench.time.advance(100)
    assert [(row.partition, row.fetch_offset) for row in bench.rows()] == [(1, 1)]
    bench.replicas[0].waiting.pop()(None)
    bench.answer()
    assert [(row.partition, row.fetch_offset) for row in bench.rows()] == [(0, 1)]


def test_records_are_on_the_disk_before_the_next_fetch(bench: Bench) -> None:
    replica = bench.replicas[0] = Replica(fsyncs=True)
    bench.follow(0)
    replica.is_slow = True
    bench.answer(data(records=RECORDS, high_watermark=1))
    replica.waiting.pop()(None)
    assert replica.calls == ["append", "sync"]
    bench.time.advance(1000)
    assert (bench.links[0].asked, replica.high_watermark) == ([], 0)
    replica.waiting.pop()(None)
    bench.time.advance()
    assert [row.fetch_offset for row in bench.rows()] == [1]
    assert replica.high_watermark == 1


def test_a_failed_write_is_asked_for_again(bench: Bench) -> None:
    bench.follow(0)
    bench.replicas[0].is_slow = True
    bench.answer(data(records=RECORDS))
    bench.replicas[0].waiting.pop()(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full"))
    bench.time.advance()
    assert not bench.links[0].asked
    bench.time.advance(50)
    assert [row.fetch_offset for row in bench.rows()] == [0]


def test_a_log_is_cut_where_histories_part(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    replica = bench.replicas[0]
    for offset in range(3):
        replica.add(Batch(offset, offset, 1, ((offset, 0),)))
    replica.high_watermark = 2
    bench.follow(0)
    bench.answer(data(diverging_epoch=EpochEndOffset(epoch=1, end_offset=2)))
    assert replica.calls == ["truncate 2"]
    assert [row.fetch_offset for row in bench.rows()] == [2]
    assert not caplog.records
    bench.answer(data(diverging_epoch=EpochEndOffset(epoch=1, end_offset=1)))
    assert "t-0 is cut to offset 1 below its high watermark 2" in caplog.text


def test_a_lost_answer_is_asked_for_again(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.follow(0)
    for wait_ms in (50, 100, 200):
        _, resume = bench.links[0].asked.pop()
        resume(ConnectionError("broker 1 at one:9092: refused"))
        bench.time.advance()
        assert not bench.links[0].asked
        bench.time.advance(wait_ms)
        assert bench.fetch().session_epoch == 0
    assert [record.levelno for record in caplog.records] == [logging.WARNING], "one line for one outage"
    assert "broker 1 does not answer a fetch" in caplog.text


def test_another_leader_is_followed_after_the_work(bench: Bench) -> None:
    replica = bench.replicas[0]
    bench.follow(0)
    replica.is_slow = True
    bench.answer(data(records=RECORDS))
    bench.follow(0, THREE, epoch=6)
    assert bench.links[0].is_closed, "its last partition has gone"
    assert not bench.links[1].asked
    replica.waiting.pop()(None)
    bench.time.advance()
    assert [(row.fetch_offset, row.current_leader_epoch) for row in bench.rows(1)] == [(1, 6)]


def test_an_order_that_is_not_newer_changes_nothing(bench: Bench) -> None:
    bench.follow(0, epoch=5)
    bench.follow(0, THREE, epoch=4)
    assert len(bench.links) == 1
    assert not bench.links[0].is_closed


def test_a_replica_that_shall_lead_waits_for_its_work(bench: Bench) -> None:
    replica = bench.replicas[0]
    replica.add(Batch(0, 0, 1, ((0, 0),)))
    bench.follow(0)
    replica.is_slow = True
    bench.answer(data(diverging_epoch=EpochEndOffset(epoch=0, end_offset=0)))
    bench.fetchers.unfollow(KEYS[0])
    results: list[object] = []
    bench.tasks.start(bench.fetchers.until_idle(KEYS[0]), results.append)
    bench.time.advance(1000)
    assert not results
    replica.waiting.pop()(None)
    bench.time.advance()
    assert results == [None]
    assert replica.end_offset == 0
    bench.follow(0, epoch=2)
    assert [row.current_leader_epoch for row in bench.rows(1)] == [2], "the old order is forgotten"


def test_an_idle_partition_is_left_at_once(bench: Bench) -> None:
    bench.follow(0)
    bench.fetchers.unfollow(KEYS[0])
    results: list[object] = []
    bench.tasks.start(bench.fetchers.until_idle(KEYS[0]), results.append)
    assert results == [None]
    assert bench.links[0].is_closed
    assert bench.fetchers.lag(KEYS[0]) is None


def test_a_new_registration_is_in_the_next_fetch(bench: Bench) -> None:
    bench.follow(0)
    bench.broker_epoch = 41
    bench.answer()
    assert bench.fetch().replica_state.replica_epoch == 41


def test_a_moved_start_is_in_the_next_fetch(bench: Bench) -> None:
    bench.follow(0)
    bench.answer(data(records=RECORDS, high_watermark=1))
    bench.answer()
    bench.replicas[0].delete_before(1)
    bench.fetchers.renew(KEYS[0])
    bench.answer()
    assert [row.log_start_offset for row in bench.rows()] == [1]
    assert bench.fetchers.lag(KEYS[0]) == 0


def test_an_answer_is_released_before_the_next_one(bench: Bench) -> None:
    class Buffer(bytearray):
        """Bytes that a weak reference finds."""

    bench.follow(0)
    records = Buffer(RECORDS)
    reference = weakref.ref(records)
    bench.answer(data(records=records))
    del records
    gc.collect()
    assert reference() is None


def test_a_close_ends_links_and_requests(bench: Bench) -> None:
    bench.follow(0)
    _, resume = bench.links[0].asked.pop()
    bench.fetchers.close()
    assert bench.links[0].is_closed
    resume(FetchResponse(session_id=9))
    bench.time.advance(1000)
    assert not bench.links[0].asked
