"""A flush beside appends: what it covers, and what a failed one leaves to be done."""

from __future__ import annotations

import errno
from random import Random

import pytest

from headgate.protocol.errors import KafkaError
from headgate.storage.config import LogConfig
from headgate.storage.log import flushing, rolling
from headgate.storage.log.epochs import read_entries
from headgate.storage.log.flush import MAX_SEGMENTS
from headgate.storage.log.log import Log
from headgate.storage.tests.builders import (
    NOW_MS,
    SMALL,
    TOPIC_ID,
    StillOwner,
    append,
    batch,
    content,
    no_checkpoint,
    open_store,
    repair,
)
from headgate.storage.tests.crashing_files import CrashingFiles
from headgate.storage.tests.truncating import truncate_to


def new_log(files: CrashingFiles) -> Log:
    return open_store(files).create("t", 0, TOPIC_ID, SMALL, NOW_MS)


def after_a_power_cut(files: CrashingFiles, seed: int) -> Log | None:
    return open_store(files.crash(Random(seed), power=True)).logs.get(("t", 0))


def test_what_is_appended_during_a_flush_is_not_covered() -> None:
    files = CrashingFiles()
    log = new_log(files)
    append(log, *(batch() for _ in range(50)))
    assert len(log.segments) > 1
    flush = flushing.begin(log)
    append(log, *(batch() for _ in range(50)))
    assert log.recovery_point == 0
    flush.run()
    flushing.end(log, flush, NOW_MS)
    assert (log.recovery_point, log.end_offset) == (50, 100)
    assert flushing.is_due(log, NOW_MS), "segments were rolled meanwhile"
    flushing.flush(log)
    assert not flushing.is_due(log, NOW_MS)


@pytest.mark.parametrize("seed", range(20))
def test_what_was_flushed_survives(seed: int) -> None:
    files = CrashingFiles()
    log = new_log(files)
    append(log, *(batch() for _ in range(50)))
    flush = flushing.begin(log)
    append(log, *(batch() for _ in range(20)))
    flush.run()
    flushing.end(log, flush, NOW_MS)
    before = content(log)
    again = after_a_power_cut(files, seed)
    assert again is not None
    assert again.end_offset >= 50
    assert before.startswith(content(again))


def test_a_flush_outlives_a_truncation_and_a_closed_file() -> None:
    files = CrashingFiles()
    log = new_log(files)
    append(log, *(batch() for _ in range(50)))
    flush = flushing.begin(log)
    truncate_to(log, 10, no_checkpoint)
    log.close_files()
    flush.run()
    flushing.end(log, flush, NOW_MS)
    assert log.recovery_point == 10
    assert files.open_handles == 0


def test_a_flush_without_descriptors_is_owed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    files = CrashingFiles()
    log = new_log(files)
    append(log, batch())

    def fail(path: str) -> None:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(files, "sync", fail)
    with pytest.raises(KafkaError, match="too many"):
        flushing.flush(log)
    monkeypatch.undo()
    assert (log.recovery_point, log.names_unsynced, log.epochs.is_synced) == (0, True, False)
    flushing.flush(log)
    assert (log.recovery_point, log.names_unsynced, log.epochs.is_synced) == (1, False, True)


@pytest.mark.parametrize("what", ["sync", "sync_directory"])
def test_after_a_sync_that_failed_nothing_is_believed(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """The system reports an error once, and may have dropped what it could not write: the next sync would succeed."""
    files = CrashingFiles()
    log = new_log(files)
    append(log, batch())

    def fail(path: str) -> None:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(files, what, fail)
    with pytest.raises(KafkaError, match="input/output"):
        flushing.flush(log)
    monkeypatch.undo()
    assert log.recovery_point == 0
    assert not flushing.is_due(log, NOW_MS)
    for take in (lambda: flushing.flush(log), lambda: append(log, batch())):
        with pytest.raises(KafkaError, match="input/output"):
            take()
    assert (log.recovery_point, log.end_offset) == (0, 1)
    assert repair(log)
    assert (log.recovery_point, log.names_unsynced, log.epochs.is_synced) == (1, False, True)
    assert append(log, batch()) == 2


def test_indexes_of_a_rolled_segment_are_synced_by_the_next_flush() -> None:
    """Whether its bytes were on the disk before, or went there by a flush that was under way."""
    files = CrashingFiles()
    log = new_log(files)
    append(log, batch())
    flushing.flush(log)
    rolling.roll(log, NOW_MS)
    indexes = log.segments[0].sealed_indexes
    assert any(files.file(path).changes for path in indexes)
    assert flushing.is_due(log, NOW_MS)
    append(log, batch())
    flush = flushing.begin(log)
    rolling.roll(log, NOW_MS)
    flush.run()
    flushing.end(log, flush)
    assert not any(files.file(path).changes for path in indexes)
    assert log.recovery_point == log.end_offset
    assert flushing.is_due(log, NOW_MS)
    flushing.flush(log)
    assert not any(files.file(path).changes for segment in log.segments[:-1] for path in segment.sealed_indexes)
    assert not flushing.is_due(log, NOW_MS)


def test_one_flush_of_a_log_at_a_time() -> None:
    """Of two, only one would hear of an error."""
    log = new_log(CrashingFiles())
    append(log, batch())
    flush = flushing.begin(log)
    assert not flushing.is_due(log, NOW_MS)
    with pytest.raises(AssertionError, match="is being flushed"):
        flushing.begin(log)
    flush.run()
    flushing.end(log, flush)
    flushing.begin(log).release()


def test_what_asks_for_commits_is_flushed_with_each_write() -> None:
    config = LogConfig(headgate_flush="commit")
    log = open_store(CrashingFiles()).create("t", 0, TOPIC_ID, config, NOW_MS)
    for number in range(1, 3):
        append(log, batch())
        assert log.recovery_point == number
    owner = StillOwner()
    append(log, batch(), owner=owner)
    assert (owner.asked, log.end_offset, log.recovery_point) == (1, 3, 2)
    assert flushing.is_due(log, NOW_MS)


def test_a_flush_holds_some_segments_and_the_next_one_goes_on() -> None:
    """After a start without a recovery checkpoint they may be more than there are descriptors."""
    files = CrashingFiles()
    log = open_store(files).create("t", 0, TOPIC_ID, LogConfig(segment_bytes=150), NOW_MS)
    count = 2 * MAX_SEGMENTS + 5
    append(log, *(batch() for _ in range(count)))
    assert len(log.segments) == count
    log.close_files()
    opened = files.open_handles
    ends = []
    while flushing.is_due(log, NOW_MS):
        flush = flushing.begin(log)
        assert files.open_handles - opened <= MAX_SEGMENTS
        flush.run()
        flushing.end(log, flush, NOW_MS)
        log.close_files()
        ends.append(log.recovery_point)
    assert ends == [MAX_SEGMENTS, 2 * MAX_SEGMENTS, count]
    again = after_a_power_cut(files, 1)
    assert again is not None
    assert again.end_offset == count


def test_a_flush_that_is_waited_for_is_of_all_segments() -> None:
    log = open_store(CrashingFiles()).create("t", 0, TOPIC_ID, LogConfig(segment_bytes=150), NOW_MS)
    append(log, *(batch() for _ in range(MAX_SEGMENTS + 5)))
    flushing.flush(log)
    assert log.recovery_point == log.end_offset


def test_the_first_epoch_is_written_by_the_flush_and_not_by_an_append() -> None:
    files = CrashingFiles()
    log = new_log(files)
    fault = files.fail(errno.EIO, path="leader-epoch-checkpoint")
    append(log, batch(), leader_epoch=3)
    append(log, batch(), leader_epoch=5)
    flush = flushing.begin(log)
    assert not fault.met
    files.heal()
    flush.run()
    flushing.end(log, flush, NOW_MS)
    assert read_entries(files.copy(only_durable=True), log.directory) == [(3, 0), (5, 1)]
    append(log, batch(), leader_epoch=6)
    flushing.flush(log)
    assert read_entries(files.copy(only_durable=True), log.directory) == [(3, 0), (5, 1), (6, 2)]


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_a_flush_after_the_deletion_of_its_log_writes_nothing_by_name(is_made_anew: bool) -> None:
    files = CrashingFiles()
    store = open_store(files)
    log = store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    append(log, batch(), leader_epoch=3)
    flush = flushing.begin(log)
    store.delete("t", 0)
    if is_made_anew:
        store.create("t", 0, b"of the other one", SMALL, NOW_MS)
    flush.run()
    flushing.end(log, flush, NOW_MS)
    assert not files.exists("/data/t-0/leader-epoch-checkpoint")
    assert files.exists("/data/t-0") == is_made_anew


def test_a_flush_is_made_without_room_for_the_first_epochs() -> None:
    files = CrashingFiles()
    log = new_log(files)
    append(log, batch())
    files.fail(errno.ENOSPC, "create", "write", path="leader-epoch-checkpoint")
    flushing.flush(log)
    assert (log.recovery_point, log.epochs.is_stale) == (1, True)
    files.heal()
    log.epochs.begin_write()()
    assert read_entries(files, log.directory) == [(0, 0)]
