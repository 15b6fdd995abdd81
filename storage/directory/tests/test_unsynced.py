"""What must be on the disk after an operation is there, by the operation's own doing."""

from __future__ import annotations

import pytest

import headgate.storage.directory.log_directory
from headgate.protocol.errors import KafkaError
from headgate.storage.config import LogConfig
from headgate.storage.directory.log_directory import LogDirectory
from headgate.storage.disk.layout import PARTITION_METADATA
from headgate.storage.log import flushing, rolling
from headgate.storage.log.epochs import FILE_NAME, read_entries
from headgate.storage.log.log import Log
from headgate.storage.tests.builders import (
    NOW_MS,
    SMALL,
    TOPIC_ID,
    append,
    assert_derived_state,
    batch,
    content,
    new_log,
    no_checkpoint,
    open_store,
)
from headgate.storage.tests.crashing_files import CrashingFiles
from headgate.storage.tests.truncating import truncate_to

KEY = "t", 0


def on_disk(files: CrashingFiles) -> CrashingFiles:
    """All that a power cut leaves at least."""
    return files.copy(only_durable=True)


def killed(files: CrashingFiles) -> tuple[LogDirectory, Log]:
    """The same files after a start that followed no stop."""
    files.locked.clear()
    store = open_store(files)
    return store, store.logs[KEY]


@pytest.fixture
def files() -> CrashingFiles:
    return CrashingFiles()


def test_a_segment_that_was_cut_off_does_not_come_back(files: CrashingFiles) -> None:
    log = new_log(files)
    append(log, batch(2))
    middle = append(log, batch(2, size=50))
    rolling.roll(log, NOW_MS)
    append(log, batch(3, size=99))
    flushing.flush(log)
    truncate_to(log, 2, no_checkpoint)
    assert append(log, batch(2, size=70)) == middle
    flushing.flush(log)
    expected = content(log)
    assert content(open_store(on_disk(files)).logs[KEY]) == expected


@pytest.mark.parametrize("is_used", [True, False])
def test_a_stop_makes_safe_that_a_failed_write_was_cut_off(files: CrashingFiles, is_used: bool) -> None:
    """Else the next start, which looks at the end only, would find the beginning of a batch there."""
    store = open_store(files)
    log = store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    if is_used:
        append(log, batch())
        flushing.flush(log)
        rolling.roll(log, NOW_MS)
        flushing.flush(log)
    files.room = 10
    with pytest.raises(KafkaError):
        append(log, batch())
    files.heal()
    store.close()
    assert not files.file(log.segments[-1].path).changes


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_flush_after_a_roll_makes_the_cut_of_a_failed_write_durable(files: CrashingFiles, is_killed: bool) -> None:
    """Also where the cut came late, or by a process that was killed: the segment has no offset to be flushed then."""
    store = open_store(files)
    log = store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    append(log, batch())
    flushing.flush(log)
    files.room = 10
    with pytest.raises(KafkaError):
        append(log, batch())
    if is_killed:
        store, log = killed(files)
    else:
        flushing.flush(log)
        log.segments.active._cut_debris(log.segments.active.file)
    files.heal()
    first = log.segments.active
    rolling.roll(log, NOW_MS)
    flushing.flush(log)
    assert not files.file(first.path).changes


@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_flush_after_a_kill_makes_an_earlier_roll_durable(files: CrashingFiles, is_stopped: bool) -> None:
    """A log that was cut has indexes without offsets to be flushed; what was there before would be back in a crash."""
    store = open_store(files)
    log = store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    for number in range(3):
        append(log, batch(timestamp=NOW_MS + number))
    rolling.seal(log)
    flushing.flush(log)
    store.checkpoint({KEY: log.end_offset})
    truncate_to(log, 1, store.write_recovery_points)
    rolling.roll(log, NOW_MS)
    store, log = killed(files)
    if is_stopped:
        store.close()
    else:
        flushing.flush(log)
    for path in (log.segments[0].path, *log.segments[0].sealed_indexes):
        assert not files.file(path).changes, path


def test_a_stop_makes_safe_what_was_cut_off_before_a_kill(files: CrashingFiles) -> None:
    store = open_store(files)
    log = store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    append(log, batch())
    flushing.flush(log)
    store.checkpoint({KEY: log.end_offset})
    files.room = 10
    with pytest.raises(KafkaError):
        append(log, batch())
    files.heal()
    store, log = killed(files)
    store.close()
    assert not files.file(log.segments.active.path).changes


def test_a_stop_makes_safe_that_all_was_cut_off_before_a_kill(files: CrashingFiles) -> None:
    """Else the next start, which looks at the end only, would believe what is there again."""
    store = open_store(files)
    log = store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    append(log, batch())
    flushing.flush(log)
    store.checkpoint({KEY: log.end_offset})
    flushing.limit_durable_end(log, 0)  # as `truncate_to` begins
    store.write_recovery_points()
    files.truncate(log.segments.active.path, 0)
    store, log = killed(files)
    assert log.end_offset == 0
    store.close()
    assert open_store(on_disk(files)).logs[KEY].end_offset == 0


def test_a_flush_after_a_kill_makes_the_names_safe(files: CrashingFiles) -> None:
    """And whose log it is; also where a new leader's epoch has made its own file safe before."""
    append(new_log(files), batch(), leader_epoch=0)
    _, log = killed(files)
    append(log, batch(), leader_epoch=1)
    flushing.flush(log)
    assert content(open_store(on_disk(files)).logs[KEY]) == content(log)
    path = f"{log.directory}/{PARTITION_METADATA}"
    assert on_disk(files).read(path) == files.read(path) != b""


def test_a_flush_after_a_kill_makes_the_epochs_safe(files: CrashingFiles) -> None:
    """What wrote the first of them may not have waited for the disk."""
    log = new_log(files)
    append(log, batch(), leader_epoch=3)
    _, log = killed(files)
    flushing.flush(log)
    path = f"{log.directory}/{FILE_NAME}"
    assert on_disk(files).read(path) == files.read(path) != b""


@pytest.mark.parametrize("more,entries", [(0, 0), (1, 1)])
def test_an_entry_comes_only_behind_more_than_the_interval(more: int, entries: int) -> None:
    """Source: Apache Kafka's `bytesSinceLastIndexEntry > indexIntervalBytes`."""
    config = LogConfig(segment_bytes=2000, index_interval_bytes=len(batch()) - more)
    log = open_store(CrashingFiles()).create("t", 0, TOPIC_ID, config, NOW_MS)
    append(log, batch(), batch())
    assert log.segments[0].offsets.entries == entries


@pytest.mark.parametrize("newest", range(12))
def test_a_lost_entry_of_the_newest_record_is_noticed_anywhere(files: CrashingFiles, newest: int) -> None:
    """Records out of order: those at the end of a segment tell nothing of it."""
    store = open_store(files)
    log = store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    for number in range(12):
        append(log, batch(timestamp=NOW_MS + 50 * (number == newest), size=200))
    assert len(log.segments) == 2
    flushing.flush(log)
    store.checkpoint({KEY: log.end_offset})
    times = log.segments[0].times
    if times.entries > 1:
        files.truncate(times.path, times.size - times.ENTRY.size)
    assert_derived_state(killed(files)[1])


@pytest.mark.parametrize("many", [0, 32])
def test_a_stop_makes_the_epochs_safe(files: CrashingFiles, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be it by a sync of each log, or of all at once: nothing else has written them by then."""
    monkeypatch.setattr(headgate.storage.directory.log_directory, "MANY_LOGS", many)
    store = open_store(files)
    append(store.create("t", 0, TOPIC_ID, SMALL, NOW_MS), batch(), leader_epoch=3)
    monkeypatch.setattr(store, "checkpoint", lambda _: None)
    store.close()
    assert read_entries(on_disk(files), "/data/t-0") == [(3, 0)]
