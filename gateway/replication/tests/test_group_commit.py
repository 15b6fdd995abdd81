"""Durability: who waits for the disk with `headgate.flush=commit`, and that nobody else does."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.replication import group_commit
from headgate.gateway.replication.partition_file_tasks import PartitionFileTasks
from headgate.gateway.replication.replica import READ_UNCOMMITTED, Replica
from headgate.gateway.replication.tests.producing import Reply, produce
from headgate.gateway.runtime.tests.fake_scheduler import HeldThreads
from headgate.gateway.tests.builders import HandlerBroker, UnsyncedFiles, records
from headgate.gateway.tests.requests import commit_request
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.protocol.records.batch import iterate
from headgate.storage.files import File
from headgate.storage.log import flushing, log_lock
from headgate.storage.log.epochs import read_entries

COMMIT = {"headgate.flush": "commit"}


class Disk(HeldThreads):
    """Threads that sync. `error` is what syncs of open files then end with."""

    def __init__(self, node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(ignored=["probe"])
        self.node = node
        self.error: OSError | None = None
        self.synced = 0
        file = type(UnsyncedFiles().open(__file__))

        def sync(file: File) -> None:
            self.synced += 1
            if self.error is not None:
                raise self.error

        monkeypatch.setattr(file, "sync", sync)
        node.time.scheduler.threads = self

    def run(self, count: int = 1) -> None:
        for _ in range(count):
            self.run_one()
            self.node.time.advance()


@pytest.fixture
def disk(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> Disk:
    node.services.metadata.create_topic("t", 4, configs=COMMIT)
    return Disk(node, monkeypatch)


def partition_of(node: HandlerBroker, index: int = 0, topic: str = "t") -> Replica:
    return node.services.partitions.get(topic, index)


def produced(node: HandlerBroker, *values: bytes, acks: int = -1, ends_turn: bool = True, **options: Any) -> Reply:
    """The reply, once there is one. Without `ends_turn` more can be asked in the same turn."""
    told = Reply(node, produce(node, *values, acks=acks, **options))
    if ends_turn:
        end_turn(node)
    return told


def end_turn(node: HandlerBroker) -> None:
    node.services.batcher.write_all()
    node.time.advance()


def values_read(node: HandlerBroker, index: int = 0, topic: str = "t", offset: int = 0) -> list[bytes | None]:
    piece = partition_of(node, index, topic).read(offset, 1 << 20, READ_UNCOMMITTED, at_least_one=True)
    if piece is None:
        return []
    found = [record.value for record in iterate(memoryview(piece.read()))]
    piece.release()
    return found


def test_acks_all_waits_for_the_disk_and_so_do_consumers(node: HandlerBroker, disk: Disk) -> None:
    told = produced(node, b"a")
    assert (told.row, values_read(node)) == (None, [])
    disk.run()
    assert (told.row, values_read(node)) == ((0, 0), [b"a"])


def test_acks_1_does_not_wait_but_consumers_do(node: HandlerBroker, disk: Disk) -> None:
    assert produced(node, b"a", acks=1).row == (0, 0)
    assert values_read(node) == []
    disk.run()
    assert values_read(node) == [b"a"]


def test_a_consumer_may_fetch_from_an_acknowledged_offset(node: HandlerBroker, disk: Disk) -> None:
    assert [produced(node, acks=1).row for _ in range(2)] == [(0, 0), (0, 1)]
    topic = FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=1, partition_max_bytes=1 << 20)])
    response: Any = node.handle(FetchRequest(max_wait_ms=0, topics=[topic]), 11)
    (row,) = response.responses[0].partitions
    assert (row.error_code, row.high_watermark, row.records) == (0, 0, b"")
    with pytest.raises(KafkaError, match="outside of"):
        partition_of(node).read(3, 100, READ_UNCOMMITTED, at_least_one=True)
    while disk.waiting:
        disk.run()
    assert len(values_read(node, offset=1)) == 1


def test_one_sync_serves_all_who_came_before_it_began(node: HandlerBroker, disk: Disk) -> None:
    first = [produced(node, ends_turn=False) for _ in range(3)]
    end_turn(node)
    assert len(disk.waiting) == 1
    later = [produced(node) for _ in range(2)]
    assert len(disk.waiting) == 1, "one sync of a log at a time"
    disk.run()
    assert [told.row for told in first] == [(0, 0), (0, 1), (0, 2)]
    assert [told.row for told in later] == [None, None]
    disk.run()
    assert [told.row for told in later] == [(0, 3), (0, 4)]
    assert (disk.synced, disk.waiting) == (2, [])


def test_small_batches_of_a_turn_are_written_together_all_the_same(node: HandlerBroker, disk: Disk) -> None:
    produced(node, b"the first of a segment is written by itself")
    disk.run()
    told = [produced(node, ends_turn=False) for _ in range(5)]
    staged = partition_of(node).log.staged
    assert staged is not None
    assert len(staged.parts) == 5
    end_turn(node)
    disk.run()
    assert [one.row for one in told] == [(0, 1 + number) for number in range(5)]


def test_logs_of_a_turn_are_shared_among_a_few_threads(
    node: HandlerBroker, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "MAX_SYNC_THREADS", 2)
    told = [produced(node, index=index, ends_turn=False) for index in range(4)]
    end_turn(node)
    assert len(disk.waiting) == 2
    disk.waiting.reverse()
    disk.run()
    assert [one.row for one in told] == [None, None, (0, 0), (0, 0)]
    again = produced(node, index=3)
    assert len(disk.waiting) == 2, "the thread that is free takes it, while the other waits for the disk"
    disk.run(2)
    assert [one.row for one in [*told, again]] == [(0, 0)] * 4 + [(0, 1)]


def test_a_sync_that_fails_is_told_and_nothing_more_is_taken(
    node: HandlerBroker, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    told, other = produced(node), produced(node, index=1)
    disk.error = OSError(errno.EIO, "Input/output error")
    disk.run()
    assert told.row == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert "accepts no more writes: after a failed sync the content of the disk is unknown" in caplog.text
    disk.error = None
    disk.run()
    assert other.row == (0, 0), "another log was not there when it failed"
    assert produced(node).row == produced(node, acks=1).row == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert (values_read(node), partition_of(node).high_watermark, disk.waiting) == ([], 0, [])


def test_a_flush_that_cannot_begin_is_made_up_for(
    node: HandlerBroker, disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = partition_of(node).log
    with monkeypatch.context() as broken:
        broken.setattr(flushing, "begin", _without_descriptors)
        told = produced(node)
    assert "cannot be flushed; the broker retries" in caplog.text
    assert (told.row, disk.waiting) == (None, [])
    assert flushing.is_due(log, node.time.clock.now_ms()), "the upkeep asks for it, if no one else writes"
    partition_of(node).sync_soon()
    node.time.advance()
    disk.run()
    assert told.row == (0, 0)


def _without_descriptors(log: object) -> None:
    raise OSError(errno.EMFILE, "Too many open files")


def test_a_write_that_fails_is_told_to_who_waits_for_the_disk(
    node: HandlerBroker, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    produced(node)
    disk.run()
    told = [produced(node, ends_turn=False) for _ in range(2)]
    with monkeypatch.context() as broken:
        broken.setattr(File, "write_at", _full)
        end_turn(node)
    assert [one.row for one in told] == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)] * 2
    again = produced(node)
    disk.run()
    assert again.row == (0, 1)


def _full(file: File, data: bytes, position: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_batch_that_comes_again_waits_for_the_first(node: HandlerBroker, disk: Disk) -> None:
    numbered: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    first, again = produced(node, **numbered), produced(node, **numbered)
    assert (first.row, again.row) == (None, None)
    disk.run()
    assert first.row == again.row == (0, 0)


def test_the_policy_can_be_changed(node: HandlerBroker, disk: Disk) -> None:
    metadata, replica = node.services.metadata, partition_of(node)
    waits = produced(node)
    metadata.change_topic_configs("t", {"headgate.flush": "cache"})
    node.time.advance()
    assert waits.row == (0, 0), "nobody waits for the disk any more"
    assert produced(node).row == (0, 1)
    metadata.change_topic_configs("t", COMMIT)
    assert replica.high_watermark == 2, "what was to be seen stays so"
    told = produced(node)
    assert told.row is None
    while disk.waiting:
        disk.run()
    assert told.row == (0, 2)
    assert replica.high_watermark == replica.log.recovery_point == 3


def test_it_can_be_set_for_all_topics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = HandlerBroker(tmp_path / "data", headgate_flush="commit")
    node.services.metadata.create_topic("t", 1)
    node.services.metadata.create_topic("quick", 1, configs={"headgate.flush": "cache"})
    disk = Disk(node, monkeypatch)
    assert produced(node, topic="quick").row == (0, 0)
    told = produced(node)
    assert told.row is None
    disk.run()
    assert told.row == (0, 0)
    node.close()


def test_flush_messages_1_asks_for_no_less(node: HandlerBroker, disk: Disk) -> None:
    node.services.metadata.create_topic("kafka", 1, configs={"flush.messages": "1"})
    told = produced(node, topic="kafka")
    assert told.row is None
    disk.run()
    assert told.row == (0, 0)


def test_flush_messages_begins_at_so_many_and_nobody_waits(node: HandlerBroker, disk: Disk) -> None:
    node.services.metadata.create_topic("some", 1, configs={"flush.messages": "3"})
    log = partition_of(node, topic="some").log
    assert [produced(node, topic="some").row for _ in range(3)] == [(0, 0), (0, 1), (0, 2)]
    assert (len(disk.waiting), log.recovery_point) == (1, 0)
    disk.run()
    assert (log.recovery_point, disk.waiting) == (3, [])


def test_long_flushes_do_not_hold_up_commits(node: HandlerBroker, disk: Disk) -> None:
    node.services.metadata.create_topic("some", 2, configs={"flush.messages": "2"})
    for index in range(2):
        produced(node, b"a", topic="some", index=index)
        produced(node, b"b", topic="some", index=index)
    assert len(disk.waiting) == 1, "one after another"
    told = produced(node)
    assert len(disk.waiting) == 2
    disk.waiting.reverse()
    disk.run()
    assert told.row == (0, 0)
    disk.run(2)
    assert [partition_of(node, index, "some").log.recovery_point for index in range(2)] == [2, 2]


def test_a_flush_that_is_under_way_is_waited_for(node: HandlerBroker, disk: Disk) -> None:
    """Of two at a time only one would hear of an error of the disk."""
    replica = partition_of(node)
    produced(node, acks=1)
    told = produced(node)
    node.services.metadata.change_topic_configs("t", {"headgate.flush": "cache", "flush.ms": "0"})
    replica.sync_soon()
    node.services.metadata.change_topic_configs("t", COMMIT)
    node.time.advance()
    assert len(disk.waiting) == 1
    while disk.waiting:
        disk.run()
    assert told.row == (0, 1)
    assert replica.log.recovery_point == 2


def test_a_topic_may_be_deleted_while_its_log_is_synced(node: HandlerBroker, disk: Disk) -> None:
    first, second = produced(node), produced(node)
    node.services.metadata.delete_topic("t")
    node.services.metadata.create_topic("t", 1, configs=COMMIT)
    disk.run()
    assert first.row == (0, 0)
    assert second.row == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert not disk.waiting
    assert partition_of(node).log.recovery_point == 0


def test_who_waits_for_a_deleted_log_is_told_before_a_late_deletion(
    node: HandlerBroker, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "MAX_SYNC_THREADS", 1)
    other, waiting = produced(node, index=1), produced(node)
    begin: list[Callable[[], None]] = []
    with monkeypatch.context() as patch:
        patch.setattr(PartitionFileTasks, "add", lambda _works, work, _end: begin.append(work))
        node.services.metadata.delete_topic("t")
    node.time.advance()
    assert waiting.row is None
    begin[0]()
    disk.run()
    node.time.advance()
    assert other.row == (0, 0)
    assert waiting.row == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


def test_after_a_restart_consumers_read_what_is_on_the_disk(node: HandlerBroker, disk: Disk) -> None:
    produced(node, b"a", acks=1)
    node.restart()
    assert (partition_of(node).high_watermark, values_read(node)) == (1, [b"a"])


def test_commits_of_offsets_wait_like_any_other_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = HandlerBroker(tmp_path / "data", headgate_flush="commit")
    node.services.metadata.create_topic("t", 1)
    node.services.groups.leader_of("g")  # makes the topic
    node.time.advance()
    disk = Disk(node, monkeypatch)
    told = Reply(node, node.handle(commit_request("g", {0: 5}), 8))
    node.time.advance()
    before: Any = told.value
    disk.run()
    ((row,),) = [topic.partitions for topic in told.value.topics]
    assert (before, row.error_code) == (None, 0)
    node.close()


def test_where_threads_end_at_once_nothing_is_begun_twice(node: HandlerBroker) -> None:
    """As in a simulation, in which there is none."""
    node.services.metadata.create_topic("t", 20, configs=COMMIT)
    told = [produced(node, index=index, ends_turn=False) for index in range(20)]
    end_turn(node)
    assert [one.row for one in told] == [(0, 0)] * 20


@pytest.mark.parametrize("configs", [COMMIT, {"flush.messages": "1"}], ids=["commit", "flush.messages"])
def test_no_flush_begins_while_a_thread_rolls(node: HandlerBroker, disk: Disk, configs: dict[str, str]) -> None:
    """It would take the new segment's name for synced; afterwards it is made without being asked for again."""
    node.services.metadata.create_topic("rolled", 1, configs=configs)
    replica = partition_of(node, topic="rolled")
    log = replica.log
    log.lock.acquire(log_lock.ROLLING)
    now_ms = node.time.clock.now_ms()
    replica.append(records(b"x", timestamp=now_ms), -1, now_ms)
    node.time.advance()
    assert log.flushing is None
    assert not disk.waiting
    log.lock.release(log_lock.ROLLING)
    replica.sync_soon()
    node.time.advance()
    assert log.flushing is not None
    disk.run()
    assert log.recovery_point == log.end_offset == 1


@pytest.mark.parametrize("configs", [COMMIT, {"flush.messages": "1"}], ids=["commit", "flush.messages"])
def test_a_log_with_many_unsynced_segments_is_flushed_some_at_a_time(
    node: HandlerBroker, disk: Disk, configs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.storage.log.flushing.MAX_SEGMENTS", 2)
    node.services.metadata.create_topic("small", 1, configs={"segment.bytes": "80", **configs})
    replica = partition_of(node, topic="small")
    now_ms = node.time.clock.now_ms()
    for _ in range(5):
        replica.append(records(b"x", timestamp=now_ms), 1, now_ms)
    assert len(replica.log.segments) == 5
    ends = []
    node.time.advance()
    while disk.waiting:
        disk.run()
        ends.append(replica.log.recovery_point)
    assert ends[-1] == 5
    assert len(ends) >= 3


def test_leader_epochs_are_written_after_the_first_append_unawaited(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("plain", 2)
    for index in range(2):
        assert produced(node, topic="plain", index=index, acks=1).row == (0, 0)
    logs = [partition_of(node, index, "plain").log for index in range(2)]
    assert [log.epochs.is_stale for log in logs] == [True, True]
    node.time.advance(group_commit.WRITE_MS)
    assert [read_entries(log.pool.files, log.directory) for log in logs] == [[(0, 0)]] * 2
    node.services.metadata.create_topic("more", 1)
    assert produced(node, topic="more", acks=1).row == (0, 0)
    node.time.advance(group_commit.WRITE_MS)
    assert not partition_of(node, topic="more").log.epochs.is_stale


def test_of_many_logs_to_be_synced_few_files_are_open_at_a_time(
    node: HandlerBroker, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be more of them than there are descriptors."""
    monkeypatch.setattr(group_commit, "MAX_OPEN_FILES", 2)
    count = 4 * group_commit.MAX_SYNC_THREADS
    node.services.metadata.create_topic("many", count, configs=COMMIT)
    replies = [produced(node, topic="many", index=index, ends_turn=False) for index in range(count)]
    logs = [partition_of(node, index, "many").log for index in range(count)]
    end_turn(node)
    open_files = []
    while disk.waiting:
        open_files.append(sum(log.flushing.held_files for log in logs if log.flushing is not None))
        disk.run()
    assert max(open_files) == 2 * group_commit.MAX_SYNC_THREADS
    assert [reply.row for reply in replies] == [(0, 0)] * count
