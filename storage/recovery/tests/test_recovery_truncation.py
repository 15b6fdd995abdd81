"""Cutting a log: nothing goes on to promise what is gone."""

from __future__ import annotations

from random import Random

import pytest

from headgate.storage.disk import checkpoint
from headgate.storage.log import flushing, rolling
from headgate.storage.recovery import recovery_truncation
from headgate.storage.tests.builders import (
    DIRECTORY,
    NOW_MS,
    SMALL,
    TOPIC_ID,
    append,
    append_own,
    batch,
    marker,
    new_log,
    no_checkpoint,
    open_store,
    transactional,
)
from headgate.storage.tests.crashing_files import CrashingFiles
from headgate.storage.tests.truncating import truncate_to

KEY = "t", 0


@pytest.mark.parametrize("again", [False, True])
def test_a_flush_promises_nothing_of_what_was_cut_meanwhile(again: bool) -> None:
    log = new_log(CrashingFiles())
    append(log, *(batch() for _ in range(50)))
    flush = flushing.begin(log)
    if again:
        recovery_truncation.restart_at(log, 20, NOW_MS, no_checkpoint)
    else:
        truncate_to(log, 20, no_checkpoint)
    append(log, *(batch() for _ in range(50)))
    flush.run()
    flushing.end(log, flush)
    assert log.recovery_point == 20


def test_the_checkpoint_promises_less_before_the_log_is_cut() -> None:
    files = CrashingFiles()
    store = open_store(files)
    log = store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    append(log, *(batch() for _ in range(10)))
    flushing.flush(log)
    store.checkpoint({KEY: 10})
    points = f"{DIRECTORY}/{checkpoint.RECOVERY_POINTS}"
    assert checkpoint.read_offsets(files, points) == {KEY: 10}
    recovery_truncation.restart_at(log, 4, NOW_MS, store.write_recovery_points)
    assert log.recovery_point == 4
    assert checkpoint.read_offsets(files, points) == {KEY: 0}


def test_a_log_that_begins_anew_elsewhere_has_no_transaction_open() -> None:
    """One that a snapshot still tells of ended in what is gone: its marker will not come again."""
    files = CrashingFiles()
    log = new_log(files)
    append_own(log, transactional(0))
    rolling.seal(log)
    append_own(log, marker(False))
    recovery_truncation.restart_at(log, 5, NOW_MS, no_checkpoint)
    append(log, batch())
    assert log.stable_offset == log.end_offset == 6
    assert open_store(files.crash(Random(1), power=False)).logs[KEY].stable_offset == 6
