"""The metadata log: one batch a change, read back as it was written, never guessed."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headgate.gateway.metadata.metadata_log import FEW_RECORDS, LOG_CONFIG, MetadataLog, replay
from headgate.gateway.runtime.scheduler import StoppedError
from headgate.gateway.runtime.tasks import Task, as_task
from headgate.gateway.runtime.tests.fake_scheduler import FakeScheduler, ManualClock
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import FeatureLevelRecord, ProducerIdsRecord, TopicRecord
from headgate.protocol.records.batch import Record, build, split
from headgate.storage.errors import StorageError
from headgate.storage.files import File, Files
from headgate.storage.log import appending, flushing, rolling
from headgate.storage.log.log import Log
from headgate.storage.tests.builders import open_directory, repair

TOPIC = TopicRecord(name="a", topic_id=b"a" * 16)
FEATURE = FeatureLevelRecord(name="f", feature_level=1)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    store = open_directory(str(tmp_path), files=Files(), node_id=0, config=LOG_CONFIG, now_ms=0, random=Random(0))
    yield store.create("m", 0, bytes(16), LOG_CONFIG)
    store.close()


def test_what_is_appended_is_replayed(log: Log) -> None:
    metadata_log = MetadataLog(log, FakeScheduler(ManualClock()))
    assert list(replay(log)) == []
    metadata_log.append([TOPIC, FEATURE], 1_000)
    metadata_log.append([ProducerIdsRecord(next_producer_id=5)], 2_000)
    assert list(replay(log)) == [TOPIC, FEATURE, ProducerIdsRecord(next_producer_id=5)]


def test_a_change_is_one_batch_and_on_disk(log: Log) -> None:
    MetadataLog(log, FakeScheduler(ManualClock())).append([TOPIC, FEATURE], 1_000)
    (header,) = log.segments.headers(0)
    assert (header.records_count, header.max_timestamp) == (2, 1_000)
    assert log.recovery_point == log.end_offset == 2


def test_a_long_log_is_read_in_pieces(log: Log) -> None:
    long = "f" * 30_000
    metadata_log = MetadataLog(log, FakeScheduler(ManualClock()))
    for level in range(20):
        metadata_log.append([FeatureLevelRecord(name=long, feature_level=level)] * 3, 0)
    assert [record.feature_level for record in replay(log) if isinstance(record, FeatureLevelRecord)] == [
        level for level in range(20) for _ in range(3)
    ]


def test_a_record_of_the_future_is_not_guessed(log: Log) -> None:
    MetadataLog(log, FakeScheduler(ManualClock())).append([TOPIC], 0)
    appending.append(log, build([Record(value=bytes((1, 99, 0)))]), leader_epoch=0, now_ms=0)
    with pytest.raises(StorageError, match=r"at offset 1: a metadata record has type 99.*newer version of Headgate"):
        list(replay(log))


def test_a_damaged_record_is_not_guessed(log: Log) -> None:
    MetadataLog(log, FakeScheduler(ManualClock())).append([TOPIC], 0)
    path = Path(log.directory, "0" * 20 + ".log")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(StorageError, match="at offset 0: its checksum is wrong"):
        list(replay(log))


def test_without_descriptors_a_change_fails_and_the_next_succeeds(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata_log = MetadataLog(log, FakeScheduler(ManualClock()))
    with monkeypatch.context() as patch:
        patch.setattr(Files, "sync_directory", lambda *_: (_ for _ in ()).throw(OSError(24, "Too many open files")))
        with pytest.raises(KafkaError, match="Too many open files"):
            metadata_log.append([TOPIC], 0)
    assert log.end_offset == 0
    metadata_log.append([FEATURE], 0)
    assert list(replay(log)) == [FEATURE]


class Submitted:
    """A metadata_log whose changes are written by threads, and what became of them."""

    def __init__(self, log: Log) -> None:
        self.scheduler = FakeScheduler(ManualClock())
        self.threads = self.scheduler.hold()
        self.metadata_log = MetadataLog(log, self.scheduler)
        self.ended: list[tuple[int, ErrorCode | None]] = []

    def submit(self, *levels: int, now_ms: int = 0, copies: int = 1) -> None:
        for level in levels:
            record = FeatureLevelRecord(name="f", feature_level=level)
            self.metadata_log.submit([record] * copies, now_ms, partial(self._end, level))

    def between_writes(self, work: Callable[[], object], resume: Callable[[Any], None]) -> None:
        """Have a thread work between two writes."""

        def task() -> Task[Any]:
            return (yield partial(self.scheduler.in_thread, work))

        self.metadata_log.between_writes(task(), resume)

    def _end(self, level: int, error: KafkaError | None) -> None:
        self.ended.append((level, None if error is None else error.code))

    def levels(self, log: Log) -> list[int]:
        return [record.feature_level for record in replay(log) if isinstance(record, FeatureLevelRecord)]


def test_what_comes_while_a_thread_writes_is_in_the_next_write(log: Log) -> None:
    submitted = Submitted(log)
    submitted.submit(1, 2, 3)
    assert (len(submitted.threads.waiting), submitted.ended) == (1, [])
    submitted.threads.run_all()
    assert submitted.ended == [(1, None), (2, None), (3, None)]
    submitted.submit(4)
    submitted.submit(5, 6)
    assert len(submitted.threads.waiting) == 1
    submitted.threads.run_all()
    assert submitted.levels(log) == [1, 2, 3, 4, 5, 6]
    assert log.recovery_point == log.end_offset == 6


def test_a_write_that_fails_refuses_all_that_follow_it(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted = Submitted(log)
    submitted.submit(1)
    submitted.threads.run_all()
    with monkeypatch.context() as patch:
        patch.setattr(File, "write_at", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        submitted.submit(2, 3)
        submitted.threads.run_all()
    refused = ErrorCode.KAFKA_STORAGE_ERROR
    assert submitted.ended == [(1, None), (2, refused), (3, refused)]
    submitted.submit(4)
    submitted.threads.run_all()
    assert submitted.levels(log) == [1, 4]


@pytest.mark.parametrize("by_thread", [False, True])
def test_after_a_failed_sync_nothing_is_written_before_the_repair(
    log: Log, monkeypatch: pytest.MonkeyPatch, by_thread: bool
) -> None:
    submitted = Submitted(log)
    submitted.submit(1)
    submitted.threads.run_all()

    def change(level: int) -> None:
        if by_thread:
            submitted.submit(level)
            submitted.threads.run_all()
            (number, error) = submitted.ended[-1]
            assert number == level
            if error is not None:
                raise KafkaError(error)
        else:
            submitted.metadata_log.append([FeatureLevelRecord(name="f", feature_level=level)], 0)

    with monkeypatch.context() as patch:
        patch.setattr(File, "sync", lambda _: (_ for _ in ()).throw(OSError(5, "I/O error")))
        with pytest.raises(KafkaError) as first:
            change(2)
    assert first.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert submitted.levels(log) == [1], "what was refused is not there"
    with pytest.raises(KafkaError, match="metadata cannot be changed since a sync to disk failed"):
        change(3)
    assert repair(log)
    assert submitted.levels(log) == [1], "and does not come back when the log is mended"
    change(4)
    assert submitted.levels(log) == [1, 4]


def test_what_is_written_is_told_where_what_follows_cannot_be(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """The third change needs a new segment, for which there is no room."""
    submitted, week_ms = Submitted(log), LOG_CONFIG.max_segment_ms + 1
    submitted.submit(1)
    submitted.threads.run_all()
    with monkeypatch.context() as patch:
        patch.setattr(Files, "write", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        submitted.submit(2, 3)
        submitted.submit(4, 5, now_ms=week_ms)
        submitted.threads.run_all()
    refused = ErrorCode.KAFKA_STORAGE_ERROR
    assert submitted.ended == [(1, None), (2, None), (3, None), (4, refused), (5, refused)]
    submitted.submit(6, now_ms=week_ms)
    submitted.threads.run_all()
    assert submitted.levels(log) == [1, 2, 3, 6]
    assert len(log.segments) == 2


def test_a_change_that_the_log_refuses_leaves_those_before_it(log: Log) -> None:
    submitted = Submitted(log)
    submitted.submit(1)
    submitted.threads.run_all()
    log.configure(replace(LOG_CONFIG, max_message_bytes=200))
    submitted.submit(2, 3)
    submitted.submit(4, copies=50)
    submitted.threads.run_all()
    assert submitted.ended == [(1, None), (2, None), (3, None), (4, ErrorCode.MESSAGE_TOO_LARGE)]
    assert submitted.levels(log) == [1, 2, 3]


def test_without_descriptors_a_thread_fails_and_the_next_one_succeeds(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted = Submitted(log)
    with monkeypatch.context() as patch:
        patch.setattr(Files, "sync_directory", lambda *_: (_ for _ in ()).throw(OSError(24, "Too many open files")))
        submitted.submit(1)
        submitted.threads.run_all()
    assert (submitted.ended, log.end_offset) == ([(1, ErrorCode.KAFKA_STORAGE_ERROR)], 0)
    submitted.submit(2)
    submitted.threads.run_all()
    assert submitted.levels(log) == [2]


def test_changes_wait_behind_a_large_one_that_a_thread_encodes(log: Log) -> None:
    submitted = Submitted(log)
    slices = submitted.scheduler.hold_slices()
    submitted.submit(1, copies=FEW_RECORDS + 1)
    submitted.submit(2)
    assert (len(slices.waiting), len(submitted.threads.waiting)) == (1, 0)
    slices.run_one()
    submitted.submit(3, copies=FEW_RECORDS + 1)
    submitted.threads.run_all()
    assert submitted.ended == [(1, None), (2, None)]
    slices.run_one()
    submitted.threads.run_all()
    assert submitted.levels(log) == [1] * (FEW_RECORDS + 1) + [2] + [3] * (FEW_RECORDS + 1)
    assert [header.records_count for header in log.segments.headers(0)] == [FEW_RECORDS + 1, 1, FEW_RECORDS + 1]


def test_a_stop_refuses_what_is_not_encoded(log: Log) -> None:
    submitted = Submitted(log)
    slices = submitted.scheduler.hold_slices()
    submitted.submit(1, copies=FEW_RECORDS + 1)
    submitted.submit(2)
    slices.run_one(StoppedError("the broker stops"))
    assert [code for _, code in submitted.ended] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert log.end_offset == 0


def test_nothing_is_written_while_a_thread_is_at_the_files(log: Log) -> None:
    submitted, order = Submitted(log), list[str]()
    flushing.flush(log)

    def work() -> Task[None]:
        order.append(f"begin at {log.end_offset}")
        yield partial(submitted.scheduler.in_thread, partial(order.append, "work"))

    submitted.submit(1)
    submitted.metadata_log.between_writes(work(), lambda result: order.append(f"done: {result}"))
    submitted.submit(2)
    submitted.threads.run_one()
    assert (order, submitted.ended) == (["begin at 1"], [(1, None)]), "what was written is told before"
    submitted.submit(3)
    submitted.threads.run_one()
    assert (order[1:], submitted.ended) == (["work", "done: None"], [(1, None)])
    submitted.threads.run_all()
    assert submitted.levels(log) == [1, 2, 3]


def test_work_that_fails_or_is_none_keeps_no_change_waiting(log: Log) -> None:
    submitted, ended = Submitted(log), list[object]()

    def refuse() -> Task[None]:
        yield partial(submitted.scheduler.in_thread, str) if int("no number") else None

    submitted.metadata_log.between_writes(as_task(1), ended.append)
    submitted.metadata_log.between_writes(refuse(), ended.append)
    submitted.between_writes(partial(log.pool.files.read, "/not/there"), ended.append)
    submitted.submit(1)
    submitted.threads.run_all()
    assert [type(result) for result in ended] == [int, ValueError, FileNotFoundError]
    assert submitted.levels(log) == [1]


def test_work_comes_also_behind_a_change_that_fails(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted, ended = Submitted(log), list[object]()
    with monkeypatch.context() as patch:
        patch.setattr(File, "write_at", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        submitted.submit(1)
        submitted.between_writes(lambda: None, ended.append)
        submitted.threads.run_all()
    assert (submitted.ended, ended) == ([(1, ErrorCode.KAFKA_STORAGE_ERROR)], [None])


def test_a_stop_drops_the_work_that_has_not_begun(log: Log) -> None:
    submitted, ended = Submitted(log), list[object]()
    flushing.flush(log)
    submitted.submit(1)
    submitted.between_writes(lambda: None, ended.append)
    submitted.scheduler.is_over = True
    submitted.threads.run_all()
    assert (submitted.ended, ended) == ([(1, None)], [])


def test_a_gap_is_not_guessed(log: Log) -> None:
    MetadataLog(log, FakeScheduler(ManualClock())).append([TOPIC], 0)
    MetadataLog(log, FakeScheduler(ManualClock())).append([FEATURE], 0)
    rolling.roll(log, 0)
    MetadataLog(log, FakeScheduler(ManualClock())).append([FEATURE], 0)
    assert list(replay(log, 1)) == [FEATURE, FEATURE]
    path = Path(log.directory, "0" * 20 + ".log")
    content = path.read_bytes()
    first, second = (view for _, view in split(content))
    path.write_bytes(bytes(first) + bytes(second).replace(second[:8], (5).to_bytes(8, "big"), 1))
    with pytest.raises(StorageError, match="cannot be read at offset 1: offset 5 follows"):
        list(replay(log))
