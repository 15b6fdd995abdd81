"""A flush beside appends: what it covers, and what a failed one leaves to be done."""

from __future__ import annotations

import errno
from random import Random

import pytest

from protocol.errors import KafkaError
from storage.log import Log
from storage.tests.builders import NOW_MS, SMALL, TOPIC_ID, append, batch, content, open_store
from storage.tests.crashing_files import CrashingFiles


def new_log(files: CrashingFiles) -> Log:
    return open_store(files).create("t", 0, TOPIC_ID, SMALL, NOW_MS)


def after_a_power_cut(files: CrashingFiles, seed: int) -> Log | None:
    return open_store(files.crash(Random(seed), power=True)).logs.get(("t", 0))


def test_what_is_appended_during_a_flush_is_not_covered() -> None:
    files = CrashingFiles()
    log = new_log(files)
    append(log, *(batch() for _ in range(50)))
    assert len(log.segments) > 1
    flush = log.begin_flush()
    append(log, *(batch() for _ in range(50)))
    assert log.recovery_point == 0
    flush.run()
    log.end_flush(flush, NOW_MS)
    assert (log.recovery_point, log.end_offset) == (50, 100)
    assert log.needs_flush(NOW_MS), "segments were rolled meanwhile"
    log.flush()
    assert not log.needs_flush(NOW_MS)


@pytest.mark.parametrize("seed", range(20))
def test_what_was_flushed_survives(seed: int) -> None:
    files = CrashingFiles()
    log = new_log(files)
    append(log, *(batch() for _ in range(50)))
    flush = log.begin_flush()
    append(log, *(batch() for _ in range(20)))
    flush.run()
    log.end_flush(flush, NOW_MS)
    before = content(log)
    again = after_a_power_cut(files, seed)
    assert again is not None
    assert again.end_offset >= 50
    assert before.startswith(content(again))


def test_a_flush_outlives_a_truncation_and_a_closed_file() -> None:
    files = CrashingFiles()
    log = new_log(files)
    append(log, *(batch() for _ in range(50)))
    flush = log.begin_flush()
    log.truncate_to(10)
    log.release()
    flush.run()
    log.end_flush(flush, NOW_MS)
    assert log.recovery_point == 10
    assert files.open_handles == 0


def test_a_failed_flush_is_owed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    files = CrashingFiles()
    log = new_log(files)
    append(log, batch())

    def fail(path: str) -> None:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(files, "sync", fail)
    with pytest.raises(KafkaError, match="input/output"):
        log.flush()
    monkeypatch.undo()
    assert (log.recovery_point, log.names_unsynced, log.epochs.is_synced) == (0, True, False)
    log.flush()
    assert (log.recovery_point, log.names_unsynced, log.epochs.is_synced) == (1, False, True)
