"""The files of a log follow the log in memory: what differs, and writes that are done again."""

from __future__ import annotations

import errno
from random import Random

import pytest

from headgate.protocol.steps import finish
from headgate.storage.disk.pool import Pool
from headgate.storage.log import flushing, rolling
from headgate.storage.log.log import Log
from headgate.storage.recovery.files_update import FilesUpdate
from headgate.storage.tests.builders import (
    NOW_MS,
    SMALL,
    TOPIC_ID,
    append,
    assert_derived_state,
    batch,
    content,
    files_of,
    open_store,
)
from headgate.storage.tests.crashing_files import CrashingFiles

KEY = "t", 0


def new_log() -> Log:
    """A log of two segments, whose files are complete."""
    log = open_store(CrashingFiles()).create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    append(log, *(batch() for _ in range(10)))
    rolling.roll(log, NOW_MS)
    append(log, *(batch() for _ in range(10)))
    flushing.flush(log)
    return log


def cut_in_memory(log: Log, offset: int) -> FilesUpdate:
    """Cut a log in memory alone, and note how its files differ."""
    update = FilesUpdate(log)
    segment = log.segments.owner(offset).copied(Pool(log.pool.files, max_open_segments=1))
    segment.forget_behind(segment.locate(offset), in_memory=True)
    log.renew(segment)
    log.forget_behind(segment.base_offset, segment.size, offset)
    assert update.note_differences(log)
    return update


def test_complete_files_have_no_difference() -> None:
    log = new_log()
    assert not FilesUpdate(log).note_differences(log)


def test_an_append_makes_an_update_invalid() -> None:
    log = new_log()
    update = FilesUpdate(log)
    assert update.is_valid
    append(log, batch())
    assert not update.is_valid


@pytest.mark.parametrize("offset", [4, 10, 15])
def test_a_write_that_is_done_again_changes_nothing(offset: int) -> None:
    log = new_log()
    update = cut_in_memory(log, offset)
    finish(update.write_steps())
    once = {name: files_of(log).read(f"{log.directory}/{name}") for name in files_of(log).list(log.directory)}
    finish(update.write_steps())
    assert {name: files_of(log).read(f"{log.directory}/{name}") for name in files_of(log).list(log.directory)} == once
    assert update.is_valid


@pytest.mark.parametrize("operation", ["remove", "truncate", "sync", "sync_directory"])
def test_an_update_with_an_error_is_not_valid(operation: str) -> None:
    log = new_log()
    update = cut_in_memory(log, 4)
    files_of(log).fail(errno.EIO, operation)
    finish(update.write_steps())
    assert not update.is_valid


def test_a_settled_log_is_what_a_start_finds() -> None:
    log = new_log()
    update = cut_in_memory(log, 14)
    finish(update.write_steps())
    update.settle(log)
    assert log.producers is update.producers
    assert_derived_state(log)
    reopened = open_store(files_of(log).crash(Random(1), power=True)).logs[KEY]
    assert (reopened.end_offset, content(reopened)) == (14, content(log))
