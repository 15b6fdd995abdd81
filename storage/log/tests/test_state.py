"""The values of a log: what a flush, a cut and a failed sync make of them."""

from __future__ import annotations

import errno

import pytest

from headgate.storage.files import Files
from headgate.storage.log.flush import Flush
from headgate.storage.log.log_lock import FLUSH, REPAIR, ROLL, ROLLING, SWAPPING
from headgate.storage.log.pending_write import PendingWrite
from headgate.storage.log.state import LogState


def state_at(end_offset: int) -> LogState:
    state = LogState(("t", 0), 0)
    state.end_offset = end_offset
    return state


def flush_up_to(end_offset: int, *, is_done: bool = True) -> Flush:
    flush = Flush(Files(), end_offset, [], indexes=["/t-0/a.index"], stable_offset=end_offset - 1)
    flush.is_done = is_done
    return flush


def test_a_flush_moves_the_recovery_point_to_where_it_began() -> None:
    state = state_at(10)
    state.flushing = flush = flush_up_to(7)
    state.apply_flush(flush, 500)
    assert (state.recovery_point, state.last_decided_offset, state.last_flush_ms) == (7, 6, 500)
    assert (state.operations, state.names_unsynced, state.indexes_unsynced) == (0, False, [])


def test_what_a_flush_did_not_do_is_due_again() -> None:
    state = state_at(10)
    state.sync_with_next_flush(["/t-0/b.index"])
    state.apply_flush(flush_up_to(7, is_done=False), 500)
    assert (state.recovery_point, state.last_flush_ms, state.names_unsynced) == (0, 0, True)
    assert state.indexes_unsynced == ["/t-0/a.index", "/t-0/b.index"]


def test_a_file_is_owed_once() -> None:
    state = state_at(0)
    for paths in (["a", "b"], ["b", "c"]):
        state.sync_with_next_flush(paths)
    assert state.indexes_unsynced == ["a", "b", "c"]


def test_a_flush_under_way_promises_nothing_of_what_is_cut() -> None:
    state = state_at(10)
    state.recovery_point, state.flushing = 6, flush_up_to(9)
    state.limit_durable_end(4)
    state.end_offset = 4
    assert (state.recovery_point, state.last_decided_offset) == (4, 0)
    state.apply_flush(state.flushing, None)
    assert (state.recovery_point, state.last_decided_offset) == (4, 0)


@pytest.mark.parametrize("number,is_noted", [(errno.EIO, True), (errno.EMFILE, False), (errno.ENOMEM, False)])
def test_a_sync_that_never_began_can_be_tried_again(number: int, is_noted: bool) -> None:
    state = state_at(10)
    assert state.note_failed_sync(OSError(number, "no")) == is_noted
    assert (state.sync_error is not None) == is_noted
    assert not state.note_failed_sync(OSError(number, "again"))
    assert state.may(FLUSH) != is_noted


def test_the_written_end_is_before_what_is_staged_or_being_written() -> None:
    state = state_at(10)
    assert state.written_end == 10
    state.staged = PendingWrite(8, 0)
    assert state.written_end == 8
    state.being_written = PendingWrite(5, 0)
    assert state.written_end == 5


def test_an_exclusive_operation_excludes_others_until_it_is_released() -> None:
    state = state_at(0)
    state.acquire(ROLLING)
    assert (state.may(ROLL), state.waits(ROLL), state.may(REPAIR)) == (False, True, False)
    with pytest.raises(AssertionError, match="a thread works"):
        state.acquire(ROLLING)
    state.acquire(SWAPPING)
    state.release(ROLLING)
    assert (state.may(ROLL), state.exclusive_operations) == (True, SWAPPING)
