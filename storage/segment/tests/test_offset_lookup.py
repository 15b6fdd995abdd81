"""A wrong entry of an offset index costs time, and no record."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import pytest

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.batch import read_header
from headgate.protocol.steps import finish
from headgate.storage.directory.log_directory import LogDirectory
from headgate.storage.log.log import Log
from headgate.storage.recovery import sync_failure_repair
from headgate.storage.segment.index import WrongIndex
from headgate.storage.tests.builders import (
    NOW_MS,
    SMALL,
    TOPIC_ID,
    append,
    batch,
    delete_old_segments,
    open_store,
    read,
)
from headgate.storage.tests.crashing_files import CrashingFiles

KEY = "t", 0
FOURTH = 4 * 8
Change: TypeAlias = Callable[[bytearray], None]


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "headgate.storage")


def stopped(files: CrashingFiles) -> Log:
    """A log of two segments, of 20 batches in all, stopped in order."""
    store = open_store(files)
    log = store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    for _ in range(20):
        append(log, batch(2, size=50))
    assert len(log.segments) == 2
    assert log.segments[0].offsets.entries > 4
    store.close()
    return log


def put(at: int, value: int) -> Change:
    """Have a field of four bytes be this."""

    def change(data: bytearray) -> None:
        data[at : at + 4] = value.to_bytes(4, "big", signed=True)

    return change


def opened(files: CrashingFiles, path: str, change: Change) -> LogDirectory:
    change(files.file(path).content)
    return open_store(files)


CHANGES = {
    "an offset that is too low": put(FOURTH, 2),
    "an offset that is too high": put(FOURTH, 1000),
    "a place in the middle of a batch": put(FOURTH + 4, 300),
    "a later batch": put(FOURTH + 4, 1600),
    "a place behind the end": put(FOURTH + 4, 1 << 20),
    "a place before the beginning": put(FOURTH + 4, -7),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_offset_is_found(change: Change) -> None:
    files = CrashingFiles()
    log = stopped(files)
    path = log.segments[0].offsets.path
    again = opened(files, path, change).logs[KEY]
    assert files.read(path) == files.file(path).content
    for offset in range(40):
        again.segments.forget()  # each is looked up by itself
        header = read_header(read(again, offset, 100))
        assert header.base_offset <= offset <= header.last_offset


def test_the_batch_before_which_a_read_ends_is_found() -> None:
    files = CrashingFiles()
    log = stopped(files)
    size = log.segments[0].size
    again = opened(files, log.segments[0].offsets.path, put(FOURTH + 4, 777)).logs[KEY]
    for max_bytes in range(200, size, 100):
        assert 0 < len(read(again, 0, max_bytes)) <= max_bytes


def test_a_damaged_segment_is_still_told() -> None:
    files = CrashingFiles()
    log = stopped(files)
    again = open_store(files).logs[KEY]
    files.file(log.segments[0].path).content[200:] = bytes(log.segments[0].size - 200)
    with pytest.raises(KafkaError) as refused:
        read(again, 18, 100)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("value", [5, 1 << 20, -7])
def test_a_wrong_last_entry_keeps_no_partition_closed(value: int) -> None:
    """It is where the end is looked for, after a stop in order too."""
    files = CrashingFiles()
    log = stopped(files)
    index = log.segments[1].offsets
    size = index.size
    store = opened(files, index.path, put(size - 4, value))
    assert not store.failed
    assert store.logs[KEY].end_offset == 40


@pytest.mark.parametrize("ages_ms,deleted", [(500, 0), (2000, 1)])
def test_retention_believes_no_time_that_no_batch_has(ages_ms: int, deleted: int) -> None:
    files = CrashingFiles()
    log = stopped(files)
    times = log.segments[0].times
    log = opened(files, times.path, put(times.size - 12, 0)).logs[KEY]
    log.configure(replace(SMALL, retention_ms=1000))
    assert log.segments[0].max_timestamp < 1 << 32
    with pytest.raises(WrongIndex, match="which no batch has") as wrong:
        delete_old_segments(log, NOW_MS + ages_ms, log.end_offset)
    work = sync_failure_repair.SyncFailureRepair(log, [])
    finish(work.rebuild_index_steps(wrong.value.base_offset))
    assert sync_failure_repair.apply_index(log, work)
    assert delete_old_segments(log, NOW_MS + ages_ms, log.end_offset) == 2 * deleted
    assert log.start_offset == 40 * deleted
    assert deleted or log.segments[0].max_timestamp == NOW_MS
