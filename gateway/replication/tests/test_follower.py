"""A replica in the follower's role: appends, syncs and truncations of its log, beside other work on the log."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.metadata.image import Topic
from headgate.gateway.replication.follower import BUSY_MS, Follower
from headgate.gateway.runtime.tasks import is_task
from headgate.gateway.runtime.tests.fake_scheduler import HeldThreads
from headgate.gateway.tests.builders import NOW_MS, HandlerBroker, records
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.batch import patch
from headgate.storage.log import flushing
from headgate.storage.recovery.log_truncation import LogTruncation


def batches(*offsets: int, epoch: int = 1, size: int = 1) -> bytes:
    """Batches of `size` records from these offsets on, as the leader sends them."""
    sent = b""
    for offset in offsets:
        batch = records(*(b"v" * 50 for _ in range(size)))
        patch(batch, offset, epoch)
        sent += bytes(batch)
    return sent


def follow(node: HandlerBroker, leader: int, epoch: int) -> Topic:
    """Partition 0 of the topic `t` is led by another node, and followed by this one."""
    old = node.services.metadata.image
    topic = old.topics["t"]
    before = topic.partitions[0]
    state = before._replace(
        leader=leader, leader_epoch=epoch, replicas=(0, 1), isr=(0, 1), partition_epoch=before.partition_epoch + 1
    )
    new = old._replace(topics={**old.topics, "t": topic._replace(partitions=(state,))})
    node.services.metadata.image = new
    node.services.partitions.follow(old, new, ["t"])
    return new.topics["t"]


class FollowedPartition:
    """A followed partition, and the ends of its works."""

    def __init__(self, path: Path, **settings: str) -> None:
        self.node = HandlerBroker(path, **settings)
        self.node.services.metadata.create_topic("t", 1)
        follow(self.node, 1, 5)
        (self.replica,) = self.node.services.partitions
        assert isinstance(self.replica, Follower)

    @property
    def follower(self) -> Follower:
        assert isinstance(self.replica, Follower)
        return self.replica

    def begin(self, outcome: Any) -> list[Any]:
        """Begin a work; the list gets its end."""
        ended: list[Any] = []
        if is_task(outcome):
            self.node.services.tasks.start(outcome, ended.append)
        else:
            ended.append(outcome)
        return ended

    def append(self, *offsets: int, **options: Any) -> list[Any]:
        return self.begin(self.follower.append_as_follower(batches(*offsets, **options)))

    def content(self) -> bytes:
        directory = Path(self.node.config.log_directories[0]) / "t-0"
        return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))

    def slow(self) -> HeldThreads:
        """The disk is slow: threads write, which wait for the test."""
        self.follower.disk.is_slow = True
        return self.node.time.scheduler.hold()


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[FollowedPartition]:
    followed = FollowedPartition(tmp_path)
    yield followed
    followed.node.close()


def test_batches_are_appended_as_they_are(followed: FollowedPartition) -> None:
    follower = followed.follower
    assert followed.append(0, 1) == [None]
    assert (follower.end_offset, follower.last_epoch, follower.high_watermark) == (2, 1, 0)
    assert followed.content() == batches(0, 1)
    follower.take_over(1, 0)
    assert follower.high_watermark == 1


def test_a_batch_of_a_later_leader_waits(followed: FollowedPartition) -> None:
    assert followed.append(0, epoch=6) == [None]
    assert followed.follower.end_offset == 0


def test_a_damaged_batch_is_refused(followed: FollowedPartition) -> None:
    damaged = bytearray(batches(0))
    damaged[-1] ^= 1
    with pytest.raises(KafkaError) as refused:
        followed.follower.append_as_follower(damaged)
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE


def test_a_client_cannot_produce_to_a_follower(followed: FollowedPartition) -> None:
    with pytest.raises(KafkaError) as refused:
        followed.follower.append(records(b"v"), 1, NOW_MS)
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(KafkaError, match="node 1 leads"):
        followed.node.services.partitions.get("t", 0)


def test_threads_append_while_the_disk_is_slow(tmp_path: Path) -> None:
    followed = FollowedPartition(tmp_path, log_segment_bytes="400")
    follower = followed.follower
    threads = followed.slow()
    ended = followed.append(*range(9))
    assert (ended, followed.content()) == ([], b"")
    while not ended:
        before = followed.content()
        followed.node.time.advance()
        assert followed.content() == before, "the loop writes nothing"
        threads.run_one()
    assert (ended, follower.end_offset) == ([None], 9)
    assert followed.content() == batches(*range(9))
    assert len(follower.log.segments) > 2
    followed.node.close()


def test_a_failed_write_of_a_thread_ends_the_append(followed: FollowedPartition) -> None:
    threads = followed.slow()
    ended = followed.append(0)
    threads.run_one(OSError(errno.ENOSPC, "full"))
    (error,) = ended
    assert (error.code, followed.follower.end_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, 0)


def test_an_append_waits_for_the_write_of_the_leader_before(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path)
    node.services.metadata.create_topic("t", 1)
    led = node.services.partitions.get("t", 0)
    led.append(records(b"first"), 1, NOW_MS)
    led.disk.is_slow = True
    threads = node.time.scheduler.hold()
    queue = led.writer()
    assert queue is not None
    queue.append(records(b"second"), 1, NOW_MS, lambda _: None)
    follow(node, 1, 5)
    (follower,) = node.services.partitions
    assert isinstance(follower, Follower)
    assert not follower.is_durable, "the leader must not count the record"
    ended: list[object] = []
    append = follower.append_as_follower(batches(2))
    assert append is not None
    node.services.tasks.start(append, ended.append)
    synced: list[object] = []
    node.services.tasks.start(follower.sync(), synced.append)
    node.time.advance(BUSY_MS)
    assert (ended, synced, len(threads.waiting)) == ([], [], 1)
    threads.run_one()
    node.time.advance(BUSY_MS)
    threads.run_all()
    node.time.advance(BUSY_MS)
    assert (ended, synced, follower.end_offset) == ([None], [None], 3)
    node.close()


def test_an_empty_log_begins_within_the_first_batch(followed: FollowedPartition) -> None:
    follower = followed.follower
    assert followed.begin(follower.restart_at(12)) == [None]
    assert (follower.start_offset, follower.end_offset, follower.high_watermark) == (12, 12, 12)
    assert followed.append(10, size=5) == [None]
    assert (follower.start_offset, follower.end_offset) == (12, 15)


def test_records_below_the_end_are_refused(followed: FollowedPartition) -> None:
    followed.append(0, 1)
    (error,) = followed.append(1)
    assert (error.code, followed.follower.end_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 2)


def test_a_truncation_lowers_the_high_watermark(followed: FollowedPartition) -> None:
    follower = followed.follower
    followed.append(0, 1, 2)
    follower.take_over(3, 0)
    assert followed.begin(follower.truncate(1)) == [None]
    assert (follower.end_offset, follower.high_watermark) == (1, 1)
    assert followed.content() == batches(0)
    assert followed.append(1) == [None]


def test_a_truncation_waits_for_a_flush(followed: FollowedPartition) -> None:
    follower = followed.follower
    followed.append(0, 1)
    flush = flushing.begin(follower.log)
    ended = followed.begin(follower.truncate(1))
    followed.node.time.advance(BUSY_MS)
    assert (ended, follower.end_offset) == ([], 2)
    flush.run()
    flushing.end(follower.log, flush)
    followed.node.time.advance(BUSY_MS)
    assert (ended, follower.end_offset) == ([None], 1)


def test_files_follow_a_truncation_at_last(followed: FollowedPartition, monkeypatch: pytest.MonkeyPatch) -> None:
    follower = followed.follower
    followed.append(0, 1)
    write_steps, fails = LogTruncation.write_steps, [True]

    def failing(work: LogTruncation) -> Iterator[None]:
        if fails:
            work.error = OSError(errno.EIO, "the disk fails")
            return iter(())
        return write_steps(work)

    monkeypatch.setattr(LogTruncation, "write_steps", failing)
    ended = followed.begin(follower.truncate(1))
    assert (ended, follower.end_offset) == ([], 1)
    with pytest.raises(KafkaError, match="takes no records"):
        followed.append(1)
    fails.clear()
    followed.node.time.advance(1000)
    assert ended == [None]
    assert followed.content() == batches(0)


def test_a_log_after_a_failed_sync_is_not_cut(followed: FollowedPartition) -> None:
    follower = followed.follower
    followed.append(0, 1)
    flushing.refuse_after_failed_sync(follower.log, OSError(errno.EIO, "the disk fails"))
    (error,) = followed.begin(follower.truncate(1))
    assert (error.code, follower.end_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, 2)


def test_a_log_after_a_failed_sync_is_not_fetched(followed: FollowedPartition) -> None:
    follower = followed.follower
    followed.append(0, 1)
    assert follower.is_durable
    flushing.refuse_after_failed_sync(follower.log, OSError(errno.EIO, "the disk fails"))
    assert not follower.is_durable, "the disk may have less than the position says"


def test_records_are_acknowledged_once_on_the_disk(tmp_path: Path) -> None:
    followed = FollowedPartition(tmp_path, headgate_flush="commit")
    follower = followed.follower
    threads = followed.node.time.scheduler.hold()
    followed.append(0)
    assert not follower.is_durable
    ended = followed.begin(follower.sync())
    followed.node.time.advance()
    assert ended == []
    threads.run_all()
    followed.node.time.advance()
    assert (ended, follower.is_durable) == ([None], True)
    followed.node.close()


def test_a_failed_sync_is_no_acknowledgement(tmp_path: Path) -> None:
    followed = FollowedPartition(tmp_path, headgate_flush="commit")
    threads = followed.node.time.scheduler.hold()
    followed.append(0)
    ended = followed.begin(followed.follower.sync())
    followed.node.time.advance()
    flushing.refuse_after_failed_sync(followed.follower.log, OSError(errno.EIO, "the disk fails"))
    followed.node.time.advance(1000)
    (error,) = ended
    assert error.code == ErrorCode.KAFKA_STORAGE_ERROR
    threads.run_all()
    followed.node.close()


def test_the_start_of_the_log_follows_the_leaders(followed: FollowedPartition) -> None:
    followed.append(0, 1, 2)
    followed.follower.take_over(3, 2)
    assert (followed.follower.start_offset, followed.follower.high_watermark) == (2, 3)
