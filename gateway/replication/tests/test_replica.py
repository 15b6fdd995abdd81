"""A partition as its leader sees it."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from crc32c import crc32c

from headgate.gateway.replication.append import ACKS_ALL
from headgate.gateway.replication.progress import FollowerFetch
from headgate.gateway.replication.replica import READ_COMMITTED, READ_UNCOMMITTED, Replica
from headgate.gateway.runtime.tasks import Running, WaitList
from headgate.gateway.tests.builders import HandlerBroker, records
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.batch import Record, build
from headgate.storage.files import File
from headgate.storage.log import appending


@pytest.fixture
def replica(node: HandlerBroker) -> Replica:
    node.services.metadata.create_topic("t", 1)
    return node.services.partitions.get("t", 0)


NOW_MS = 1_700_000_000_000


def refusal(error: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return error.value.code


def test_one_replica_moves_its_high_watermark_with_its_log(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[int] = []
    monkeypatch.setattr(Replica, "notify", lambda notified: moved.append(notified.high_watermark))
    replica.append(records(b"a", b"b"), ACKS_ALL, NOW_MS)
    assert (replica.high_watermark, replica.last_stable_offset) == (2, 2)
    assert moved == [], "nobody waits for it"
    replica.waiters.waiters = {cast("Running[None]", "a waiting task"): None}
    replica.append(records(b"c"), ACKS_ALL, NOW_MS)
    assert moved == [3]


class Watched:
    """A session that watches for the next records."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def mark(self) -> WaitList:
        self.seen.append("records")
        return WaitList()

    def note(self) -> None:
        self.seen.append("high watermark")


def test_followers_are_woken_by_records_and_not_by_the_watermark(replica: Replica) -> None:
    replica.assign(0, 1, (0, 1, 2), (0, 1, 2), 1, NOW_MS)
    assert replica.progress is not None
    watch = Watched()
    replica.progress.waiters.watches = (watch,)
    replica.append(records(b"a"), ACKS_ALL, NOW_MS)
    assert watch.seen == ["records"]
    replica.progress.waiters.watches = (watch,)
    for node_id in (1, 2):
        replica.note_fetch(FollowerFetch(node_id, 1, NOW_MS), 1, 0)
    assert replica.high_watermark == 1
    assert watch.seen == ["records", "high watermark"]
    assert replica.progress.waiters.watches == (watch,)


def test_a_fetch_that_comes_again_for_records_is_noted_once(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    replica.assign(0, 1, (0, 1), (0, 1), 1, NOW_MS)
    waits = FollowerFetch(1, 1, NOW_MS)
    replica.note_fetch(waits, 0, 0)
    replica.append(records(b"a"), ACKS_ALL, NOW_MS)
    moved: list[int] = []
    monkeypatch.setattr(Replica, "advance_high_watermark", lambda noted: moved.append(noted.log.end_offset))
    replica.note_fetch(waits, 0, 0)
    assert moved == []
    replica.note_fetch(FollowerFetch(1, 1, NOW_MS + 1), 1, 0)
    assert moved == [1]


def test_the_high_watermark_follows_written_not_staged_batches(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[int] = []
    monkeypatch.setattr(Replica, "notify", lambda notified: moved.append(notified.high_watermark))
    replica.waiters.waiters = {cast("Running[None]", "a waiting task"): None}
    replica.append(records(b"a"), ACKS_ALL, NOW_MS)
    replica.stage(records(b"b"), ACKS_ALL, NOW_MS)
    replica.synced()
    assert (replica.log.written_end, replica.high_watermark, replica.log.end_offset) == (1, 1, 2)
    assert moved == [1], "who waits is not woken for what cannot be read"
    replica.write_staged()
    assert (replica.log.written_end, replica.high_watermark, moved) == (2, 2, [1, 2])


def test_the_high_watermark_does_not_pass_what_a_thread_still_writes(replica: Replica) -> None:
    replica.append(records(b"a"), ACKS_ALL, NOW_MS)
    replica.stage_owned(records(b"b"), ACKS_ALL, NOW_MS)
    staged = appending.begin_write(replica.log)
    assert staged is not None
    replica.synced()
    assert replica.high_watermark == 1
    staged.write()
    appending.end_write(replica.log, staged, None)
    replica.advance_high_watermark()
    assert replica.high_watermark == 2


@pytest.mark.parametrize("isolation_level", [READ_UNCOMMITTED, READ_COMMITTED])
def test_consumers_see_nothing_above_the_high_watermark(replica: Replica, isolation_level: int) -> None:
    replica.append(records(b"a"), 1, NOW_MS)
    first = len(records(b"a"))
    replica.append(records(b"b"), 1, NOW_MS)
    replica.high_watermark = 1
    piece = replica.read(0, 1 << 20, isolation_level, at_least_one=True)
    assert piece is not None
    assert len(piece) == first
    piece.release()
    assert replica.read(1, 1 << 20, isolation_level, at_least_one=True) is None


@pytest.mark.parametrize("offset", [-1, 2, 100])
def test_outside_of_the_log_is_out_of_range(replica: Replica, offset: int) -> None:
    replica.append(records(b"a"), 1, NOW_MS)
    with pytest.raises(KafkaError) as error:
        replica.read(offset, 100, READ_UNCOMMITTED, at_least_one=True)
    assert refusal(error) == ErrorCode.OFFSET_OUT_OF_RANGE


def test_acks_all_needs_enough_replicas_in_sync(node: HandlerBroker, replica: Replica) -> None:
    node.services.metadata.change_topic_configs("t", {"min.insync.replicas": "2"})
    with pytest.raises(KafkaError) as error:
        replica.append(records(b"a"), ACKS_ALL, NOW_MS)
    assert refusal(error) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert replica.log.end_offset == 0
    assert replica.append(records(b"a"), 1, NOW_MS).first_offset == 0, "acks=1 asks for no more than the leader"


@pytest.mark.parametrize(
    "epoch, code", [(-1, None), (3, None), (2, ErrorCode.FENCED_LEADER_EPOCH), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_a_client_that_knows_another_leader_is_fenced(replica: Replica, epoch: int, code: ErrorCode | None) -> None:
    replica.leader_epoch = 3
    if code is None:
        replica.check_leader_epoch(epoch)
        return
    with pytest.raises(KafkaError) as error:
        replica.check_leader_epoch(epoch)
    assert refusal(error) == code


def test_records_are_looked_at_only_when_it_is_configured(tmp_path: Path) -> None:
    unreadable = build([Record(timestamp=NOW_MS, value=b"a")])
    unreadable[-1] = 5  # a header is announced that is not there
    struct.pack_into(">I", unreadable, 17, crc32c(memoryview(unreadable)[21:]))
    for validate, is_refused in (("header", False), ("full", True)):
        node = HandlerBroker(tmp_path / validate, headgate_validate_records=validate)
        node.services.metadata.create_topic("t", 1)
        partition = node.services.partitions.get("t", 0)
        if is_refused:
            with pytest.raises(KafkaError) as error:
                partition.append(memoryview(unreadable), 1, NOW_MS)
            assert refusal(error) == ErrorCode.INVALID_RECORD
        else:
            assert partition.append(memoryview(bytearray(unreadable)), 1, NOW_MS).last_offset == 0
        node.close()


@pytest.mark.parametrize(
    "epoch, end",
    [(-1, (-1, -1)), (0, (0, 0)), (1, (1, 2)), (2, (1, 2)), (3, (3, 3)), (6, (3, 3)), (7, (7, 3)), (8, (-1, -1))],
)
def test_where_an_epoch_ends(replica: Replica, epoch: int, end: tuple[int, int]) -> None:
    for leader_epoch, values in ((1, (b"a", b"b")), (3, (b"c",))):
        replica.leader_epoch = leader_epoch
        for value in values:
            replica.append(records(value), 1, NOW_MS)
    replica.leader_epoch = 7
    assert replica.end_offset_for(epoch) == end


def test_batches_carry_the_leader_epoch(replica: Replica) -> None:
    replica.leader_epoch = 7
    replica.append(records(b"a"), 1, NOW_MS)
    assert [header.partition_leader_epoch for header in replica.log.segments.headers(0)] == [7]
    assert replica.log.epochs.latest == 7


@pytest.fixture
def started(node: HandlerBroker, tmp_path: Path) -> Iterator[HandlerBroker]:
    """A node that was started again, with a record in each partition."""
    node.services.metadata.create_topic("t", 2)
    for index in (0, 1):
        node.services.partitions.get("t", index).append(records(b"a"), ACKS_ALL, NOW_MS)
    node.close()
    made = HandlerBroker(tmp_path / "data")
    yield made
    made.close()


def test_the_first_append_is_inline_where_nothing_has_to_be_read(
    started: HandlerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm, cold = (started.services.partitions.get("t", index) for index in (0, 1))
    assert warm.writer() is None
    monkeypatch.setattr(File, "read_cached", lambda *_: None)
    assert warm.writer() is None, "it is not asked again"
    assert cold.writer() is not None


def test_the_first_append_since_a_start_does_not_wait_for_ever(
    started: HandlerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a thread has brought and is gone again is read by the loop."""
    replica, threads, told = started.services.partitions.get("t", 0), started.time.scheduler.hold(), list[object]()
    monkeypatch.setattr(File, "read_cached", lambda *_: None)
    for _ in range(2):
        writer = replica.writer()
        assert writer is not None
        writer.append(records(b"b"), ACKS_ALL, NOW_MS, told.append)
    assert len(threads.waiting) == 1, "the second waits with the first"
    threads.run_all()
    assert [getattr(info, "first_offset", info) for info in told] == [1, 2]
    assert replica.writer() is None


def test_a_roll_that_fails_leaves_the_first_append_what_it_was(
    started: HandlerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica, errors = started.services.partitions.get("t", 0), list[OSError | None]()
    threads = started.time.scheduler.hold()
    replica.roll_soon(lambda: None, errors.append)
    threads.run_one(OSError(28, "No space left on device"))
    assert len(errors) == 1
    monkeypatch.setattr(File, "read_cached", lambda *_: None)
    assert replica.writer() is not None, "a thread reads before it"
