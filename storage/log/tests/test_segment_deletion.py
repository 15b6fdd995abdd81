"""Segments that retention does not keep: forgotten by the log, renamed by a thread."""

from __future__ import annotations

import errno
from random import Random

import pytest

from headgate.storage.cleanup.retention import all_expired, begin_segment_deletion
from headgate.storage.config import LogConfig
from headgate.storage.directory.log_directory import LogDirectory
from headgate.storage.files import File, WouldBlock
from headgate.storage.log import flushing, rolling, segment_deletion
from headgate.storage.log.log import Log
from headgate.storage.log.segment_deletion import SegmentDeletion
from headgate.storage.tests.builders import (
    NOW_MS,
    TOPIC_ID,
    append,
    batch,
    content,
    delete_old_segments,
    next_offset,
    open_store,
)
from headgate.storage.tests.crashing_files import CrashingFiles

KEY = "t", 0
CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=200, retention_ms=1000)
LATER_MS = NOW_MS + 1500


@pytest.fixture
def files() -> CrashingFiles:
    return CrashingFiles()


@pytest.fixture
def store(files: CrashingFiles) -> LogDirectory:
    return open_store(files, CONFIG)


@pytest.fixture
def log(store: LogDirectory) -> Log:
    """Segments that grow old one after another, a tenth of a second each batch."""
    made = store.create("t", 0, TOPIC_ID, CONFIG, NOW_MS)
    append(made, *(batch(timestamp=NOW_MS + 100 * number, size=100) for number in range(20)))
    flushing.flush(made)
    return made


def begun(log: Log, now_ms: int = LATER_MS) -> SegmentDeletion:
    expired = begin_segment_deletion(log, now_ms, log.end_offset)
    assert expired is not None
    return expired


def logs_in(files: CrashingFiles) -> list[str]:
    return sorted(name for name in files.list("/data/t-0") if name.endswith(".log"))


def started_again(files: CrashingFiles, *, power: bool) -> Log:
    return open_store(files.crash(Random(3), power=power), CONFIG).logs[KEY]


def test_the_log_starts_behind_them_before_a_file_is_touched(log: Log, files: CrashingFiles) -> None:
    names, size = logs_in(files), log.segments.size
    piece = log.read(0, 100, log.end_offset, at_least_one=True)
    assert piece is not None
    data = piece.read()
    expired = begun(log)
    assert logs_in(files) == names
    assert log.start_offset == log.segments[0].base_offset > 0
    assert log.segments.size < size
    expired.rename_files()
    segment_deletion.end(log, expired)
    assert logs_in(files) == [f"{segment.base_offset:020d}.log" for segment in log.segments]
    assert piece.read() == data
    assert next_offset(content(log)) == log.end_offset


def test_the_log_goes_on_meanwhile_but_is_not_flushed(log: Log, files: CrashingFiles) -> None:
    """After a power cut what was not yet renamed is in front of what was flushed, and may not be whole."""
    append(log, *(batch(timestamp=NOW_MS, size=100) for _ in range(5)))
    expired = begun(log)
    assert begin_segment_deletion(log, LATER_MS + 10_000, log.end_offset) is None
    assert log.lock.is_exclusive, "there must not be another log of its name"
    append(log, *(batch(timestamp=LATER_MS, size=100) for _ in range(10)))
    assert not flushing.is_due(log, LATER_MS)
    with pytest.raises(AssertionError):
        flushing.begin(log)
    expired.rename_files()
    segment_deletion.end(log, expired)
    assert not log.lock.is_exclusive
    assert flushing.is_due(log, LATER_MS)
    flushing.flush(log)
    for seed in range(5):
        again = open_store(files.crash(Random(seed), power=True), CONFIG).logs[KEY]
        assert (again.start_offset, again.end_offset) == (log.start_offset, log.end_offset)


def test_a_start_that_no_name_tells_yet_is_written_down(store: LogDirectory, log: Log, files: CrashingFiles) -> None:
    expired = begun(log)
    start = log.start_offset
    store.checkpoint({KEY: log.end_offset})
    assert started_again(files, power=False).start_offset == start
    expired.rename_files()
    segment_deletion.end(log, expired)
    store.checkpoint({KEY: log.end_offset})
    for power in (False, True):
        assert started_again(files, power=power).start_offset == start
    flushing.flush(log)
    store.checkpoint({KEY: log.end_offset})
    assert not log.has_own_start


@pytest.mark.parametrize("failing", range(9))
def test_what_could_not_be_renamed_is_the_logs_again(log: Log, files: CrashingFiles, failing: int) -> None:
    names, size = logs_in(files), log.segments.size
    expired = begun(log)
    start, count = log.start_offset, len(expired.left)
    rename, done = files.rename, 0

    def fail(old: str, new: str) -> None:
        nonlocal done
        done += 1
        if done > failing:
            raise OSError(errno.EIO, "no")
        rename(old, new)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "rename", fail)
        with pytest.raises(OSError, match="no"):
            expired.rename_files()
    segment_deletion.end(log, expired)
    assert 0 < len(expired.left) <= count
    assert log.start_offset == start >= log.segments[0].base_offset
    assert log.has_own_start
    assert log.segments.size <= size
    assert logs_in(files) == [f"{segment.base_offset:020d}.log" for segment in log.segments], "each can be opened"
    delete_old_segments(log, LATER_MS, log.end_offset)
    assert log.start_offset == start == log.segments[0].base_offset
    assert logs_in(files) == names[count:]
    assert next_offset(content(log)) == log.end_offset


def test_the_last_segment_goes_once_there_is_another(log: Log) -> None:
    now_ms = NOW_MS + 10_000
    assert not all_expired(log, now_ms, log.end_offset), "others are to go first"
    expired = begun(log, now_ms)
    expired.rename_files()
    segment_deletion.end(log, expired)
    assert begin_segment_deletion(log, now_ms, log.end_offset) is None
    assert not all_expired(log, NOW_MS + 2000, log.end_offset)
    assert not all_expired(log, now_ms, log.end_offset - 1), "not all is replicated"
    assert all_expired(log, now_ms, log.end_offset)
    rolling.roll_for_retention(log, now_ms)
    expired = begun(log, now_ms)
    expired.rename_files()
    segment_deletion.end(log, expired)
    assert (log.start_offset, log.segments.size, len(log.segments)) == (log.end_offset, 0, 1)
    assert not all_expired(log, now_ms, log.end_offset), "there is nothing in it"


def test_of_a_deleted_log_nothing_is_kept_or_renamed(store: LogDirectory, log: Log, files: CrashingFiles) -> None:
    expired = begun(log)
    store.delete("t", 0, remove=False)
    expired.rename_files()  # the names are gone with the directory
    segment_deletion.end(log, expired)
    assert not files.exists("/data/t-0")
    store.create("t", 0, bytes(16), CONFIG, NOW_MS)
    assert logs_in(files) == [f"{0:020d}.log"]


def test_times_are_not_waited_for(
    store: LogDirectory, log: Log, files: CrashingFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a start nobody knows them."""
    store.close()
    log = open_store(files, CONFIG).logs[KEY]
    with monkeypatch.context() as patch:
        patch.setattr(File, "read_cached", lambda *_: None)
        with pytest.raises(WouldBlock) as cold:
            begin_segment_deletion(log, LATER_MS, log.end_offset, blocking=False)
        cold.value.release()
    assert cold.value.place[0] == log.segments[0].times.path
    assert log.start_offset == 0
    assert begin_segment_deletion(log, LATER_MS, log.end_offset, blocking=False) is not None
