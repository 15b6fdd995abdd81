"""The unsynced part of a log: what a flush, a cut and a failed sync make of it."""

from __future__ import annotations

import errno

import pytest

from headgate.storage.files import Files
from headgate.storage.log import flushing
from headgate.storage.log.flush import Flush
from headgate.storage.log.log import Log
from headgate.storage.log.log_lock import FLUSH
from headgate.storage.log.pending_write import PendingWrite
from headgate.storage.tests.builders import new_log


def log_at(end_offset: int) -> Log:
    log = new_log()
    log.names_unsynced = False
    log.end_offset = end_offset
    return log


def flush_up_to(end_offset: int, *, is_done: bool = True) -> Flush:
    flush = Flush(Files(), end_offset, [], indexes=["/t-0/a.index"], stable_offset=end_offset - 1)
    flush.is_done = is_done
    return flush


def test_a_flush_moves_the_recovery_point_to_where_it_began() -> None:
    log = log_at(10)
    log.flushing = flush = flush_up_to(7)
    flushing.end(log, flush, 500)
    assert (log.recovery_point, log.last_decided_offset, log.last_flush_ms) == (7, 6, 500)
    assert (log.lock.operations, log.names_unsynced, log.indexes_unsynced) == (0, False, [])


def test_what_a_flush_did_not_do_is_due_again() -> None:
    log = log_at(10)
    flushing.sync_with_next_flush(log, ["/t-0/b.index"])
    flushing.end(log, flush_up_to(7, is_done=False), 500)
    assert (log.recovery_point, log.last_flush_ms, log.names_unsynced) == (0, 0, True)
    assert log.indexes_unsynced == ["/t-0/a.index", "/t-0/b.index"]


def test_a_file_is_owed_once() -> None:
    log = log_at(0)
    for paths in (["a", "b"], ["b", "c"]):
        flushing.sync_with_next_flush(log, paths)
    assert log.indexes_unsynced == ["a", "b", "c"]


def test_a_flush_under_way_promises_nothing_of_what_is_cut() -> None:
    log = log_at(10)
    log.recovery_point, log.flushing = 6, flush_up_to(9)
    flushing.limit_durable_end(log, 4)
    log.end_offset = 4
    assert (log.recovery_point, log.last_decided_offset) == (4, 0)
    flushing.end(log, log.flushing)
    assert (log.recovery_point, log.last_decided_offset) == (4, 0)


@pytest.mark.parametrize("number,is_noted", [(errno.EIO, True), (errno.EMFILE, False), (errno.ENOMEM, False)])
def test_a_sync_that_never_began_can_be_tried_again(number: int, is_noted: bool) -> None:
    log = log_at(10)
    for message in ("no", "again"):
        flushing.refuse_after_failed_sync(log, OSError(number, message))
        assert (log.sync_error is not None) == is_noted
        assert log.pool.needs_repair == [log] * is_noted
    assert log.lock.may(FLUSH) != is_noted


def test_the_written_end_is_before_what_is_staged_or_being_written() -> None:
    log = log_at(10)
    assert log.written_end == 10
    log.staged = PendingWrite(8, 0)
    assert log.written_end == 8
    log.being_written = PendingWrite(5, 0)
    assert log.written_end == 5
