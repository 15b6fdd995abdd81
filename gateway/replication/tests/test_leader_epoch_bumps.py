"""Partitions that lost records are withheld until their higher leader epochs are on the disk."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.gateway.replication.append import ACKS_ALL
from headgate.gateway.replication.leader_epoch_bumps import LONGEST_WAIT_MS
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.runtime.tests.fake_scheduler import FakeScheduler, HeldThreads
from headgate.gateway.tests.builders import HandlerBroker, parked, records
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headgate.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from headgate.storage.files import Files
from headgate.storage.tests.crashing_files import CrashingFiles

METADATA_LOG = "__headgate_metadata-0"


class Bench(HandlerBroker):
    """A node whose metadata is written by threads that run when a test says so."""

    def __init__(self, files: CrashingFiles) -> None:
        self.files = files
        self.threads = HeldThreads()
        super().__init__(Path("/data"))
        self.metadata = self.services.metadata

    def disk(self) -> Files:
        return self.files

    def metadata_scheduler(self) -> Scheduler:
        return FakeScheduler(self.time.clock, threads=self.threads)

    def partition(self, index: int = 0) -> Replica:
        return self.services.partitions.get("t", index)

    def append(self, replica: Replica | None = None) -> None:
        now_ms = self.time.clock.now_ms()
        (replica or self.partition()).append(records(b"v", timestamp=now_ms), ACKS_ALL, now_ms)

    def withhold(self, index: int = 0) -> Replica:
        partition = self.partition(index)
        self.services.partitions.leadership.await_epoch(partition)
        self.time.advance()
        return partition


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench(CrashingFiles())
    made.metadata.create_topic("t", 2)
    made.threads.run_all()
    for _ in range(3):
        made.append()
    yield made
    made.close()


def code_of(bench: Bench, index: int = 0) -> ErrorCode:
    try:
        bench.partition(index)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def test_it_is_served_again_when_the_higher_epoch_is_on_the_disk(bench: Bench) -> None:
    replica = bench.withhold()
    assert code_of(bench) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code_of(bench, 1) == ErrorCode.NONE
    assert bench.services.partitions.leadership.awaiting_epoch == {("t", 0): 0}
    bench.threads.run_all()
    assert bench.partition() is replica
    assert (replica.leader_epoch, bench.services.partitions.leadership.awaiting_epoch) == (1, {})
    bench.append()
    assert replica.log.epochs.entries == [(0, 0), (1, 3)]
    durable = bench.files.copy(only_durable=True)
    bench.close()
    bench.files = durable
    again = Bench(durable)
    assert again.services.metadata.image.topics["t"].partitions[0].leader_epoch == 2, "this start, too"


def test_nothing_is_written_to_it_meanwhile_by_whoever_knows_it(bench: Bench) -> None:
    replica = bench.withhold()
    with pytest.raises(KafkaError) as caught:
        replica.check_writable()
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(KafkaError):
        bench.append(replica)
    assert not replica.stores_verbatim
    bench.services.partitions.directories["/data"].set_offline(None)
    assert replica.read_only is not None
    bench.threads.run_all()
    assert replica.read_only is None


def test_an_append_that_waits_for_a_thread_is_refused(bench: Bench) -> None:
    """It was taken before the log was cut, and would be written under the epoch of then."""
    replica = bench.partition()
    disk = replica.disk
    assert disk is not None
    disk.is_slow = True
    threads = bench.time.scheduler.hold()
    writer = replica.writer()
    assert writer is not None
    told: list[object] = []
    now_ms = bench.time.clock.now_ms()
    for _ in range(2):
        writer.append(records(b"v", timestamp=now_ms), 1, now_ms, told.append)
    bench.withhold()
    threads.run_all()
    first, second = told
    assert not isinstance(first, KafkaError), "a thread had it"
    assert isinstance(second, KafkaError)
    assert second.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_what_waits_for_it_is_answered(bench: Bench) -> None:
    topic = FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=3, partition_max_bytes=1 << 20)])
    heard = parked(bench, bench.handle(FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[topic]), 11))
    bench.withhold()
    ((row,),) = [response.responses[0].partitions for response in heard]
    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_clients_are_told_that_it_has_no_leader(bench: Bench) -> None:
    before = bench.metadata.image
    bench.withhold()
    assert bench.metadata.image is not before, "an answer that is kept with the image says otherwise"
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    response: MetadataResponse = bench.ask(asked, 9)
    rows = {row.partition_index: (row.error_code, row.leader_id) for row in response.topics[0].partitions}
    assert rows == {0: (ErrorCode.LEADER_NOT_AVAILABLE, -1), 1: (ErrorCode.NONE, 0)}
    wanted = OffsetForLeaderTopic("t", [OffsetForLeaderPartition(partition=0, leader_epoch=0)])
    (topic,) = bench.ask(OffsetForLeaderEpochRequest(topics=[wanted]), 4).topics
    assert topic.partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_bumps_of_one_turn_are_one_change_and_later_ones_another(bench: Bench) -> None:
    bench.services.partitions.leadership.await_epoch(bench.partition(0))
    bench.services.partitions.leadership.await_epoch(bench.partition(1))
    end_offset = bench.metadata.end_offset
    bench.time.advance()
    assert len(bench.threads.waiting) == 1
    bench.threads.run_all()
    assert (bench.metadata.end_offset, code_of(bench), code_of(bench, 1)) == (end_offset + 2, 0, 0)
    bench.withhold(0)
    bench.withhold(1)
    bench.time.advance(LONGEST_WAIT_MS)
    bench.threads.run_all()
    assert (bench.metadata.end_offset, code_of(bench), code_of(bench, 1)) == (end_offset + 4, 0, 0), "each once"
    assert bench.partition().leader_epoch == 2


def test_what_cannot_be_written_is_tried_again_ever_more_rarely(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.files.fail(errno.ENOSPC, "write", path=METADATA_LOG)
    bench.withhold()
    bench.threads.run_all()
    assert code_of(bench) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    tried = []
    for second in range(1, 60):
        bench.time.advance(1_000)
        if bench.threads.waiting:
            tried.append(second)
            bench.threads.run_all()
    assert tried == [1, 3, 7, 15, 31, 47]
    assert caplog.text.count("t-0: not served until a higher leader epoch can be written: ") == len(tried)
    assert code_of(bench) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    bench.files.heal()
    bench.time.advance(LONGEST_WAIT_MS)
    bench.threads.run_all()
    assert code_of(bench) == ErrorCode.NONE
    assert bench.partition().leader_epoch == 1


def test_a_refusal_is_told(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    log = bench.log_manager.logs[("__headgate_metadata", 0)]
    log.sync_error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "gone")
    with caplog.at_level(logging.ERROR):
        bench.withhold()
    assert "t-0: not served until a higher leader epoch can be written" in caplog.text
    log.sync_error = None
    bench.time.advance(1_000)
    bench.threads.run_all()
    assert code_of(bench) == ErrorCode.NONE


def test_other_changes_of_the_topic_do_not_serve_it(bench: Bench) -> None:
    bench.files.fail(errno.ENOSPC, "write", path=METADATA_LOG, times=1)
    replica = bench.withhold()
    bench.threads.run_all()
    bench.metadata.change_topic_configs("t", {"retention.ms": "5"})
    bench.threads.run_all()
    assert code_of(bench) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert replica.log.config.retention_ms == 5
    bench.time.advance(1_000)
    bench.threads.run_all()
    assert code_of(bench) == ErrorCode.NONE


def test_a_topic_that_is_deleted_meanwhile_is_gone(bench: Bench) -> None:
    bench.files.fail(errno.ENOSPC, "write", path=METADATA_LOG, times=1)
    bench.withhold()
    bench.threads.run_all()
    bench.metadata.delete_topic("t")
    bench.threads.run_all()
    assert code_of(bench) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not bench.services.partitions.leadership.awaiting_epoch
    bench.time.advance(LONGEST_WAIT_MS)
    assert not bench.threads.waiting


def test_its_high_watermark_is_written_down_all_the_same(bench: Bench) -> None:
    bench.withhold()
    assert bench.services.partitions.high_watermarks == {("t", 0): 3, ("t", 1): 0}


def test_a_request_with_an_older_epoch_is_fenced_afterwards(bench: Bench) -> None:
    bench.withhold()
    bench.threads.run_all()
    with pytest.raises(KafkaError) as caught:
        bench.partition().check_leader_epoch(0)
    assert caught.value.code is ErrorCode.FENCED_LEADER_EPOCH
