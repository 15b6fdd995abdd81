"""What recurs: checkpoints, retention, flushes in a thread, one after another."""

import logging
from pathlib import Path
from unittest.mock import Mock

import pytest

from headgate.gateway.replication import replica_manager as partitions_module
from headgate.gateway.replication.replica_manager import Retried
from headgate.gateway.runtime.tasks import run
from headgate.gateway.runtime.tests.fake_scheduler import HeldThreads
from headgate.gateway.tests.builders import HandlerBroker, UnsyncedFiles
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.batch import Record, build
from headgate.storage.directory.log_directory import LogDirectory
from headgate.storage.directory.partition_files import PartitionCreation
from headgate.storage.log import appending, flushing
from headgate.storage.log.log import Log

NOW_MS = 1_700_000_000_000


def append(node: HandlerBroker, name: str, timestamp: int = NOW_MS, index: int = 0) -> None:
    batch = build([Record(timestamp=timestamp, value=bytes(100))])
    node.services.partitions.get(name, index).append(memoryview(batch), 1, NOW_MS)


def test_checkpoints_are_written_at_their_interval_in_a_thread(node: HandlerBroker, threads: HeldThreads) -> None:
    node.services.metadata.create_topic("t", 1)
    node.parts.maintenance.start()
    append(node, "t")
    path = Path(node.config.log_directories[0], "replication-offset-checkpoint")
    for _ in range(2):
        node.time.advance(node.config.replica_high_watermark_checkpoint_interval_ms)
    assert not path.exists()
    assert len(threads.waiting) == 1, "one after another"
    threads.run_one()
    assert "t 0 1\n" in path.read_text("ascii")
    append(node, "t")
    node.time.advance(node.config.replica_high_watermark_checkpoint_interval_ms)
    threads.run_one()
    assert "t 0 2\n" in path.read_text("ascii")


def test_a_checkpoint_that_cannot_be_written_is_told_and_tried_again(
    node: HandlerBroker, threads: HeldThreads, caplog: pytest.LogCaptureFixture
) -> None:
    work = node.parts.maintenance
    for _ in range(2):
        work.checkpoint()
        threads.run_one(OSError(28, "No space left on device"))
    assert caplog.text.count("cannot be written: [Errno 28]") == 2


def test_deleted_topics_are_removed_in_a_thread(node: HandlerBroker, threads: HeldThreads) -> None:
    directory = Path(node.config.log_directories[0])
    work = node.parts.maintenance
    node.services.metadata.create_topic("t", 2)
    node.services.metadata.delete_topic("t")
    left = [path for path in directory.iterdir() if path.name.endswith("-delete")]
    assert len(left) == 2
    for _ in range(60):
        work.remove_deleted()
        assert not threads.waiting, "file.delete.delay.ms has not passed"
        node.time.advance(1_000)
    for _ in range(2):
        work.remove_deleted()
        assert len(threads.waiting) == 1
    node.services.metadata.create_topic("t", 1)
    threads.run_one()
    assert not [path for path in left if path.exists()]
    assert (directory / "t-0").exists()
    work.remove_deleted()
    assert not threads.waiting


def test_old_segments_are_deleted(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1, configs={"segment.bytes": "200", "retention.ms": "1000"})
    node.parts.maintenance.start()
    for number in range(3):
        append(node, "t", NOW_MS + number)
    log = node.services.partitions.get("t", 0).log
    assert (len(log.segments), log.start_offset) == (3, 0)
    node.time.advance(node.config.log_retention_check_interval_ms)
    assert log.start_offset == 3


def test_producers_that_are_silent_are_forgotten(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    node.parts.maintenance.start()
    numbered = build([Record(timestamp=NOW_MS, value=b"a")], producer_id=7, producer_epoch=0, base_sequence=0)
    log = node.services.partitions.get("t", 0).log
    appending.append(log, memoryview(numbered), leader_epoch=0, now_ms=NOW_MS)
    node.time.advance(node.config.producer_id_expiration_ms / 2)
    assert 7 in log.producers.by_id
    node.time.advance(node.config.producer_id_expiration_ms)
    assert 7 not in log.producers.by_id


def test_a_rolled_log_is_flushed_in_a_thread(node: HandlerBroker, threads: HeldThreads) -> None:
    for name in ("a", "b", "quiet"):
        node.services.metadata.create_topic(name, 1, configs={"segment.bytes": "200"})
    for name in ("a", "a", "b", "b", "quiet"):
        append(node, name)
    node.parts.maintenance.flush_due()
    assert len(threads.waiting) == 1, "one log after another"
    threads.run_one()
    assert len(threads.waiting) == 1
    threads.run_one()
    assert not threads.waiting
    points = {name: node.services.partitions.get(name, 0).log.recovery_point for name in ("a", "b", "quiet")}
    assert points == {"a": 2, "b": 2, "quiet": 0}


def test_a_log_with_flush_ms_is_flushed_when_that_has_passed(node: HandlerBroker, threads: HeldThreads) -> None:
    node.services.metadata.create_topic("t", 1, configs={"flush.ms": "5000"})
    work = node.parts.maintenance
    append(node, "t")
    work.flush_due()
    threads.run_one()
    append(node, "t")
    node.time.advance(4_000)
    work.flush_due()
    assert not threads.waiting
    node.time.advance(1_000)
    work.flush_due()
    assert len(threads.waiting) == 1


def test_after_a_failed_flush_all_is_written_once_more(
    node: HandlerBroker, threads: HeldThreads, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node.services.metadata.create_topic("t", 1, configs={"segment.bytes": "200"})
    append(node, "t")
    append(node, "t")
    work = node.parts.maintenance
    log = node.services.partitions.get("t", 0).log
    work.flush_due()
    with monkeypatch.context() as broken, caplog.at_level(logging.ERROR):
        broken.setattr(log.pool.files, "sync", _refuse)
        threads.run_one()
        assert "accepts no more writes: after a failed sync" in caplog.text
        with pytest.raises(KafkaError, match="once more"):
            append(node, "t")
        for wait_s in (0, 1, 2, 4):  # after each failure twice as long
            for _ in range(wait_s):
                work.repair()
                assert not threads.waiting
                node.time.advance(1_000)
            for _ in range(2):
                work.repair()
                assert len(threads.waiting) == 1
            threads.run_one()
    assert (log.recovery_point, log.end_offset) == (0, 2)
    node.time.advance(8_000)
    work.repair()
    threads.run_one()
    assert log.recovery_point == 2
    append(node, "t")
    assert node.services.partitions.get("t", 0).high_watermark == 3


def test_who_waits_for_a_failed_disk_is_told_and_served_after_repair(
    node: HandlerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With flush=commit the high watermark follows again, also over what was refused: it is in the log."""
    node.services.metadata.create_topic("t", 1, configs={"headgate.flush": "commit"})
    replica = node.services.partitions.get("t", 0)
    work, back = node.parts.maintenance, list[str]()
    node.services.partitions.events.disk_recovered.append(back.append)
    append(node, "t")
    node.time.advance()
    assert replica.high_watermark == 1
    with monkeypatch.context() as broken:
        broken.setattr(type(replica.log.segments[0].file), "sync", _refuse)
        append(node, "t")
        node.time.advance()
        assert replica.log.sync_error is not None
        work.repair()
        with pytest.raises(KafkaError, match="once more"):
            append(node, "t")
    assert (replica.high_watermark, replica.log.end_offset, back) == (1, 2, [])
    node.time.advance(1_000)
    work.repair()
    assert (replica.high_watermark, replica.log.end_offset) == (2, 2)
    assert back == list(node.services.partitions.directories)
    append(node, "t")
    node.time.advance()
    assert replica.high_watermark == 3


def test_the_log_of_a_deleted_topic_is_not_flushed(node: HandlerBroker, threads: HeldThreads) -> None:
    """Its path may belong to a new topic of that name by then."""
    for name in ("a", "b"):
        node.services.metadata.create_topic(name, 1, configs={"segment.bytes": "200"})
        append(node, name)
        append(node, name)
    node.parts.maintenance.flush_due()
    node.services.metadata.delete_topic("b")
    node.services.metadata.create_topic("b", 1)
    append(node, "b")
    size = node.services.partitions.get("b", 0).log.segments.size
    threads.run_one()
    assert not threads.waiting
    assert Path(node.config.log_directories[0], "b-0", f"{0:020d}.log").stat().st_size == size


def test_many_logs_that_cannot_be_flushed_do_not_stop_the_next_time(
    node: HandlerBroker, threads: HeldThreads, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node.services.metadata.create_topic("t", 100, configs={"flush.ms": "1"})
    for index in range(100):
        append(node, "t", index=index)
    work = node.parts.maintenance
    with monkeypatch.context() as broken, caplog.at_level(logging.CRITICAL):
        broken.setattr(flushing, "begin", _fail)
        work.flush_due()
    assert not threads.waiting
    work.flush_due()
    for _ in range(100):
        threads.run_one()
    assert not threads.waiting


def _refuse(path: object) -> None:
    raise OSError(5, "Input/output error")


def _fail(log: Log) -> None:
    raise OSError(24, "Too many open files")


def test_while_a_flush_is_under_way_no_other_begins(node: HandlerBroker, threads: HeldThreads) -> None:
    node.services.metadata.create_topic("t", 1, configs={"segment.bytes": "200"})
    append(node, "t")
    append(node, "t")
    work = node.parts.maintenance
    work.flush_due()
    work.flush_due()
    assert len(threads.waiting) == 1


def test_a_checkpoint_that_cannot_begin_is_not_the_last(
    node: HandlerBroker, threads: HeldThreads, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    work = node.parts.maintenance
    with monkeypatch.context() as patch:
        patch.setattr(LogDirectory, "begin_checkpoint", Mock(side_effect=MemoryError("no memory")))
        work.checkpoint()
    assert "MemoryError: no memory" in caplog.text
    work.checkpoint()
    assert len(threads.waiting) == 1


class Full:
    """A disk on which nothing can be made for a while."""

    def __init__(self, node: HandlerBroker, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
        self.has_room = False
        self.tries: list[float] = []
        due, clock = PartitionCreation.run, node.time.clock

        def run(making: PartitionCreation) -> None:
            self.tries.append(clock.elapsed_ms)
            if self.has_room:
                due(making)
            else:
                making.error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left on device")

        monkeypatch.setattr(PartitionCreation, "run", run)
        monkeypatch.setattr(partitions_module, "AT_ONCE", at_once)


def test_failed_creations_are_tried_a_few_a_turn_and_ever_more_rarely(
    node: HandlerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Full(node, monkeypatch, at_once=4)
    node.services.metadata.create_topic("t", 20)
    partitions = node.services.partitions
    assert len(partitions.offline) == 20
    disk.tries.clear()
    heard: list[str] = []
    partitions.events.space_recovered.append(heard.append)
    work = node.parts.maintenance
    work.start()
    began_ms = node.time.clock.elapsed_ms
    for _ in range(70):
        node.time.advance(500)
    turns = sorted({round((tried - began_ms) / 1_000) for tried in disk.tries})
    assert turns == [1, 3, 7, 15, 31]
    assert len(disk.tries) == 4 * len(turns)
    disk.has_room = True
    work._room_changed("/d", True)
    assert not heard
    work._room_changed("/d", False)
    assert heard == ["/d"]
    node.time.advance(1_000)
    for _ in range(10):
        node.time.advance()
    assert not partitions.offline, "it goes on at once as long as there is room"
    assert len(partitions) == 20


def test_one_that_cannot_be_made_keeps_no_other_from_being_tried(
    node: HandlerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Full(node, monkeypatch, at_once=1)
    node.services.metadata.create_topic("t", 6)
    partitions, told = node.services.partitions, list[Retried]()
    for _ in range(3):
        run(partitions.retry(), told.append)
    disk.has_room = True
    run(partitions.retry(), told.append)
    assert told == [(0, 1)] * 3 + [(1, 0)]
    assert set(range(6)) - {index for _, index in partitions.offline} == {3}


def test_a_topic_recreated_during_a_repair_keeps_its_records(
    node: HandlerBroker, threads: HeldThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata, partitions = node.services.metadata, node.services.partitions
    metadata.create_topic("t", 1)
    append(node, "t")
    with monkeypatch.context() as patch:
        patch.setattr(type(UnsyncedFiles().open(__file__)), "sync", _refuse)
        with pytest.raises(KafkaError):
            flushing.flush(partitions.get("t", 0).log)
    node.parts.maintenance.repair()
    metadata.delete_topic("t")
    metadata.create_topic("t", 1)
    with pytest.raises(KafkaError, match="older log of t-0"):
        partitions.get("t", 0)
    threads.run_one()
    run(partitions.retry())
    for _ in range(5):
        append(node, "t")
    node.restart()
    assert node.services.partitions.get("t", 0).log.end_offset == 5


def test_while_a_thread_makes_some_no_others_are_begun(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Full(node, monkeypatch, at_once=4)
    node.services.metadata.create_topic("t", 30)
    disk.has_room = True
    threads, work = node.time.scheduler.hold_slices(), node.parts.maintenance
    node.services.partitions.go_on_in_threads()
    for _ in range(3):
        work.retry()
    assert len(threads.waiting) == 1
    threads.run_one()
    assert len(node.services.partitions) == 4
    node.time.advance()
    assert len(threads.waiting) == 1, "the others as soon as these are there"
