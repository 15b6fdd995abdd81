"""A log from which the disk has lost something: who knew of it, or waits for it, is told, and groups are what is left.

Threads run when a test says so. While one of them is not at work, nothing may be asked of the disk that could wait.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Any

import pytest

from headgate.gateway.coordinator.tests.test_commit_at_any_cut import CrashingNode
from headgate.gateway.metadata.new_topics import METADATA_TOPIC
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.tasks import is_task
from headgate.gateway.tests.builders import parked, records
from headgate.gateway.tests.requests import commit_request
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.protocol.messages.heartbeat import HeartbeatRequest
from headgate.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from headgate.storage.log import flushing
from headgate.storage.tests.crashing_files import CrashingFiles

WAITS = ("create", "open", "read", "remove", "rename", "sync", "sync_directory", "truncate", "write")


class Bench:
    """A node whose disk drops what it could not write."""

    def __init__(self) -> None:
        self.files = CrashingFiles()
        self.files.drops_failed = (".log",)
        self.node = CrashingNode(self.files)
        services = self.node.services
        services.metadata.create_topic("t", 1)
        services.groups.prepare()
        self.node.time.advance()
        self.upkeep = self.node.parts.maintenance
        self.threads = self.node.time.scheduler.hold()

    def partition(self, topic: str = "t", index: int = 0) -> Replica:
        return self.node.services.partitions.get(topic, index)

    def append(self, count: int) -> None:
        now_ms = self.node.time.clock.now_ms()
        for _ in range(count):
            self.partition().append(records(b"v", timestamp=now_ms), 1, now_ms)

    def lose(self, replica: Replica) -> None:
        """What is not on the disk never will be."""
        log = replica.log
        self.files.fail(errno.EIO, "sync", path=f"{log.directory}/")
        replica.sync_soon()
        self.node.time.advance()
        self.threads.run_all()
        assert log.sync_error is not None
        self.node.time.advance()
        self.files.heal()

    def repair(self) -> None:
        """All of it. The loop waits for nothing."""
        self.upkeep.repair()
        while self.threads.waiting:
            self.run_thread()

    def run_thread(self) -> None:
        work, done = self.threads.waiting.pop(0)
        result = work()
        fault = self.files.fail(errno.EIO, *WAITS)
        done(result)
        assert not fault.met
        self.files.heal()

    def ask(self, request: Any, version: int) -> Any:
        """The response, or what the client hears later, in a list."""
        outcome = self.node.handle(request, version)
        if not is_task(outcome):
            return outcome
        heard = parked(self.node, outcome)
        self.node.time.advance()
        return heard

    def commit(self, offset: int) -> Any:
        return self.ask(commit_request("g", {0: offset}), 8).topics[0].partitions[0].error_code

    def committed(self) -> tuple[int, int]:
        response = self.ask(OffsetFetchRequest("g", topics=[OffsetFetchRequestTopic("t", [0])]), 7)
        return response.error_code, response.topics[0].partitions[0].committed_offset if response.topics else -1


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.node.time.scheduler.release()
    made.node.close()


def offsets_partition(bench: Bench) -> Replica:
    """The partition of the group g."""
    image = bench.node.services.metadata.image
    from headgate.gateway.coordinator.internal_topic import partition_of

    index = partition_of("g", len(image.topics["__consumer_offsets"].partitions))
    return bench.partition("__consumer_offsets", index)


def test_consumers_and_the_high_watermark_follow(bench: Bench) -> None:
    bench.append(3)
    replica = bench.partition()
    flushing.flush(replica.log)
    bench.append(2)
    topic = FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=5, partition_max_bytes=1 << 20)])
    heard = bench.ask(FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[topic]), 11)
    bench.lose(replica)
    assert (replica.high_watermark, heard) == (5, [])
    bench.upkeep.repair()
    bench.run_thread()
    assert (replica.high_watermark, replica.log.end_offset) == (3, 3), "before the files are cut"
    bench.node.time.advance()
    ((row,),) = [response.responses[0].partitions for response in heard]
    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(KafkaError, match="once more"):
        bench.append(1)
    bench.repair()
    bench.append(1)
    assert (replica.high_watermark, replica.log.end_offset, replica.log.sync_error) == (4, 4, None)


def test_records_that_are_lost_raise_the_leader_epoch(bench: Bench) -> None:
    bench.append(3)
    replica = bench.partition()
    flushing.flush(replica.log)
    bench.append(2)
    before = replica.leader_epoch
    bench.lose(replica)
    bench.upkeep.repair()
    bench.run_thread()
    with pytest.raises(KafkaError) as caught:
        bench.partition()
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    bench.node.time.advance()
    assert bench.partition() is replica
    assert (replica.leader_epoch, bench.node.services.metadata.image.topics["t"].partitions[0].leader_epoch) == (
        before + 1,
        before + 1,
    )
    bench.repair()
    bench.append(4)
    assert replica.log.epochs.entries == [(before, 0), (before + 1, 3)]
    assert replica.end_offset_for(before) == (before, 3)


def test_a_repair_that_loses_nothing_raises_no_epoch(bench: Bench) -> None:
    bench.files.drops_failed = ()
    bench.append(3)
    replica = bench.partition()
    before = bench.node.services.metadata.end_offset
    bench.lose(replica)
    bench.repair()
    bench.node.time.advance()
    assert bench.partition() is replica
    assert (replica.log.sync_error, replica.high_watermark) == (None, 3)
    assert (replica.leader_epoch, bench.node.services.metadata.end_offset) == (0, before)


def test_what_no_consumer_could_read_raises_no_epoch(bench: Bench) -> None:
    """With `headgate.flush=commit` nobody was shown what no sync had covered."""
    bench.node.services.metadata.create_topic("c", 1, configs={"headgate.flush": "commit"})
    replica = bench.partition("c")
    now_ms = bench.node.time.clock.now_ms()
    replica.append(records(b"v", timestamp=now_ms), 1, now_ms)
    bench.lose(replica)
    bench.repair()
    assert (replica.high_watermark, replica.log.end_offset) == (0, 0), "it is lost"
    bench.node.time.advance()
    assert (bench.partition("c").leader_epoch, replica.log.sync_error) == (0, None)


def test_a_high_watermark_that_follows_syncs_is_not_above_the_end(bench: Bench) -> None:
    """A write that failed has set the recovery point back, so that the disk may take what was synced before."""
    bench.node.services.metadata.create_topic("c", 1, configs={"headgate.flush": "commit"})
    replica = bench.partition("c")
    now_ms = bench.node.time.clock.now_ms()
    for _ in range(3):
        replica.append(records(b"v", timestamp=now_ms), 1, now_ms)
    bench.node.time.advance()
    bench.threads.run_all()
    assert replica.high_watermark == 3
    bench.files.fail(errno.ENOSPC, "write", path="/c-0/", times=1)
    with pytest.raises(KafkaError):
        replica.append(records(b"v", timestamp=now_ms), 1, now_ms)
    assert replica.log.recovery_point == 0
    bench.files.file(replica.log.segments.active.path).durable.clear()
    bench.lose(replica)
    bench.repair()
    assert (replica.high_watermark, replica.log.end_offset) == (0, 0)


def test_groups_are_what_the_log_says(bench: Bench) -> None:
    assert bench.commit(1) == ErrorCode.NONE
    replica = offsets_partition(bench)
    flushing.flush(replica.log)
    assert bench.commit(2) == ErrorCode.NONE
    assert bench.committed() == (0, 2)
    bench.lose(replica)
    assert bench.committed() == (0, 2), "until it is known"
    assert bench.commit(3) == ErrorCode.NOT_COORDINATOR
    bench.upkeep.repair()
    bench.run_thread()
    assert bench.committed()[0] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    bench.repair()
    for _ in range(5):
        bench.node.time.advance()
        bench.threads.run_all()
    assert bench.committed() == (0, 1)
    assert bench.commit(5) == ErrorCode.NONE
    assert bench.committed() == (0, 5)


def test_groups_wait_for_the_higher_epoch_of_a_log_with_a_loss(bench: Bench) -> None:
    assert bench.commit(1) == ErrorCode.NONE
    replica = offsets_partition(bench)
    bench.node.services.partitions.events.replicas_failed.clear()  # the controller is not to be reached
    bench.lose(replica)
    bench.repair()
    for _ in range(5):
        bench.node.time.advance()
        bench.threads.run_all()
    assert bench.committed()[0] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "another broker may have the offset"


def test_members_are_told_and_join_again(bench: Bench) -> None:
    joined = bench.ask(join(), 2)
    bench.node.time.advance(10_000)
    (response,) = joined
    member, generation = response.member_id, response.generation_id
    assert (response.error_code, generation) == (0, 1)
    waits = bench.ask(join(), 2)
    assert not waits
    partition = offsets_partition(bench)
    bench.lose(partition)
    bench.repair()
    bench.node.time.advance()
    ((told,),) = [waits]
    assert code_of(told) in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    for _ in range(5):
        bench.node.time.advance()
        bench.threads.run_all()
    beat = bench.ask(HeartbeatRequest("g", generation, member), 3)
    assert beat.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def code_of(told: Any) -> ErrorCode:
    return told.code if isinstance(told, KafkaError) else ErrorCode(told.error_code)


def join() -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    return JoinGroupRequest("g", 30_000, 30_000, "", protocol_type="consumer", protocols=protocols)


def test_metadata_with_a_loss_are_not_changed_until_a_restart(bench: Bench) -> None:
    """As what follows it could be read by no start."""
    metadata = bench.node.services.metadata
    log = bench.node.log_manager.logs[METADATA_TOPIC, 0]
    end_offset = log.end_offset
    metadata.create_topic("lost", 1)
    log.recovery_point = 0  # as after a write that failed
    flushing.refuse_after_failed_sync(log, OSError(errno.EIO, "input/output error"))
    last = next(position for position, header in log.segments.active.iterate() if header.base_offset >= end_offset)
    del bench.files.file(log.segments.active.path).content[last:]
    bench.repair()
    assert log.end_offset == end_offset
    with pytest.raises(KafkaError, match=r"the disk has lost changes of topics or settings .* restart"):
        metadata.create_topic("more", 1)
    bench.node.time.scheduler.release()
    bench.node.restart()
    assert set(bench.node.services.metadata.image.topics) == {"t", "__consumer_offsets"}
    bench.node.services.metadata.create_topic("more", 1)
