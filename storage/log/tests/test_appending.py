"""What an append needs beside its bytes: room, a new segment, the old state back where the disk refuses."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.storage.log import appending, flushing
from headgate.storage.log.log import Log
from headgate.storage.tests.builders import NOW_MS, append, batch, new_log, numbered
from headgate.storage.tests.crashing_files import CrashingFiles


class NotNowError(Exception):
    pass


class Owner:
    """Refuses rolls until it is told to make them; counts who asks for a flush."""

    def __init__(self) -> None:
        self.refuses = True
        self.asked = 0

    def sync_soon(self) -> None:
        self.asked += 1

    def write_epochs_soon(self) -> None:
        """Leave it to the next flush."""

    def run_roll(self, roll: Callable[[], None]) -> None:
        if self.refuses:
            raise NotNowError
        roll()


def full_log() -> Log:
    """The next batch needs a new segment."""
    log = new_log()
    while log.segments.active.size + len(batch()) <= log.config.segment_bytes:
        append(log, batch())
    return log


def test_an_owner_may_refuse_the_roll_and_then_nothing_is_staged() -> None:
    log, owner = full_log(), Owner()
    before = log.end_offset
    with pytest.raises(NotNowError):
        append(log, batch(), owner=owner)
    assert (log.end_offset, log.staged, len(log.segments)) == (before, None, 1)
    owner.refuses = False
    assert append(log, batch(), owner=owner) == before + 1
    assert [segment.base_offset for segment in log.segments] == [0, before]


def test_without_an_owner_the_log_rolls_itself() -> None:
    log = full_log()
    info = appending.stage(log, batch(), 0, NOW_MS)
    assert log.staged is not None
    assert info.first_offset == log.staged.first_offset == log.segments.active.base_offset
    assert len(log.segments) == 2


def test_more_than_a_segment_is_refused_and_staged_bytes_are_written() -> None:
    log = new_log()
    appending.stage(log, batch(), 0, NOW_MS)
    with pytest.raises(KafkaError, match=r"segment\.bytes") as refused:
        append(log, batch(size=log.config.segment_bytes))
    assert refused.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert (log.end_offset, log.segments.active.size) == (1, len(batch()))


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "no space left on device"), RuntimeError("can't start new thread"), MemoryError()]
)
def test_what_could_not_be_written_by_a_thread_was_never_there(error: BaseException) -> None:
    files = CrashingFiles()
    log = new_log(files)
    append(log, numbered(0))
    flushing.flush(log)
    appending.stage(log, numbered(1), 1, NOW_MS)
    staged = appending.begin_write(log)
    assert staged is not None
    assert (log.end_offset, log.epochs.entries) == (2, [(0, 0), (1, 1)])
    with pytest.raises(KafkaError) as failed:
        appending.end_write(log, staged, error)
    assert staged.error is not None
    assert (str(staged.error), staged.error.__traceback__) == (str(failed.value), None)
    assert (log.end_offset, log.being_written) == (1, None)
    assert log.epochs.entries == [(0, 0)], "a follower with an epoch that has no record finds no common history"
    assert log.recovery_point == 0, "until it is flushed again, what was cut off may come back"
    assert append(log, numbered(1)) == 2, "it is no duplicate"


def test_a_batch_that_came_before_is_told_where_it_is() -> None:
    log = new_log()
    for number in range(3):
        append(log, numbered(number))
    info = appending.append(log, numbered(1), leader_epoch=0, now_ms=NOW_MS)
    assert (info.first_offset, info.last_offset, info.is_duplicate) == (1, 1, True)
    assert log.end_offset == 3
