"""The shard of transactional ids: replay, timeouts, the resumption after a load, and the Complete record."""

from __future__ import annotations

import pytest

from headgate.gateway.coordinator.decision import ProducerIdAndEpoch
from headgate.gateway.coordinator.transactions.tests.transaction_desk import (
    FIRST_ID,
    NEW,
    TIMEOUT_MS,
    Desk,
)
from headgate.gateway.coordinator.transactions.transaction import TransactionState
from headgate.protocol.errors import ErrorCode
from headgate.protocol.internal.transactions import TransactionLogKey, encode_key

A = ProducerIdAndEpoch(FIRST_ID, 0)
INTERVAL_MS = 10_000


def ongoing(key: str = "a", *, desk: Desk | None = None, timeout_ms: int = TIMEOUT_MS) -> Desk:
    desk = desk or Desk()
    desk.add(key, desk.init(key, timeout_ms=timeout_ms), {"t": [0]})
    return desk


# Timeouts


@pytest.mark.parametrize("version", [1, 2])
def test_an_overdue_transaction_is_aborted_in_the_next_epoch(version: int) -> None:
    desk = ongoing(desk=Desk(version))
    desk.pass_time(TIMEOUT_MS)
    assert (desk.effects, desk.state().state) == ([], TransactionState.ONGOING)
    desk.pass_time(INTERVAL_MS)
    (effect,) = desk.effects
    assert (effect.is_commit, effect.producer_epoch) == (False, 1)
    assert desk.end("a", A) == ErrorCode.PRODUCER_FENCED
    desk.write_markers()
    assert desk.state().state is TransactionState.COMPLETE_ABORT


def test_overdue_transactions_are_aborted_at_an_interval() -> None:
    desk = ongoing("a", timeout_ms=1_000)
    desk.pass_time(500)
    ongoing("b", desk=desk, timeout_ms=3_000)
    desk.pass_time(INTERVAL_MS - 501)
    assert desk.effects == []
    desk.pass_time(1)
    assert [effect.transactional_id for effect in desk.effects] == ["a", "b"]


def test_each_transaction_has_its_own_time() -> None:
    desk = ongoing()
    desk.pass_time(TIMEOUT_MS - 1)
    desk.end("a", A)
    desk.write_markers()
    desk.add("a", A, {"t": [0]})
    desk.pass_time(TIMEOUT_MS - 1)
    assert desk.effects == []
    desk.pass_time(2 * INTERVAL_MS)
    assert len(desk.effects) == 1


def test_more_partitions_give_no_more_time() -> None:
    desk = ongoing()
    desk.pass_time(TIMEOUT_MS - 1)
    desk.add("a", A, {"t": [1]})
    desk.pass_time(INTERVAL_MS + 1)
    assert len(desk.effects) == 1


def test_an_abort_that_cannot_be_written_is_tried_again() -> None:
    desk = ongoing()
    desk.loses_writes = True
    desk.now_ms += 2 * TIMEOUT_MS
    key = desk.shard.take_due(desk.now_ms)
    assert key == "a"
    desk.carry_out(desk.shard.tick(key, desk.now_ms), key)
    assert desk.effects == []
    desk.loses_writes = False
    desk.carry_out(desk.shard.tick(key, desk.now_ms), key)  # as the runtime does
    assert len(desk.effects) == 1


def test_the_time_of_a_transaction_runs_on_over_a_restart() -> None:
    desk = ongoing()
    desk.pass_time(TIMEOUT_MS - INTERVAL_MS)
    desk.restart()
    desk.pass_time(INTERVAL_MS)
    assert desk.effects == []
    desk.pass_time(INTERVAL_MS)
    assert len(desk.effects) == 1


def test_a_wall_clock_that_was_wrong_gives_no_more_than_the_timeout() -> None:
    desk = ongoing()
    desk.restart()
    desk.shard.timestamp_ms = lambda: 0
    desk.pass_time(TIMEOUT_MS + INTERVAL_MS)
    assert len(desk.effects) == 1


# Resumption


@pytest.mark.parametrize("version", [4, NEW])
def test_a_load_performs_the_effect_of_a_prepare_record_again(version: int) -> None:
    desk = ongoing()
    ongoing("b", desk=desk)
    desk.end("a", A, version=version)
    before = list(desk.effects)
    desk.restart()
    assert desk.effects == []
    desk.pass_time(0)
    assert desk.effects == before
    desk.pass_time(3 * INTERVAL_MS)
    assert desk.effects == before, "once"
    desk.write_markers()
    assert desk.state().state is TransactionState.COMPLETE_COMMIT


def test_the_effect_of_a_prepare_record_is_done_once() -> None:
    desk = ongoing()
    desk.end("a", A)
    (effect,) = desk.effects
    desk.complete(effect)
    written = len(desk.log)
    desk.complete(effect)
    desk.add("a", A, {"t": [0]})
    desk.complete(effect)
    assert len(desk.log) == written + 1
    desk.end("a", A, commit=False)
    desk.complete(effect)
    assert desk.state().state is TransactionState.PREPARE_ABORT


def test_a_complete_record_that_cannot_be_written_is_tried_again_without_markers() -> None:
    desk = ongoing()
    desk.end("a", A)
    desk.loses_writes = True
    desk.write_markers()
    assert desk.state().state is TransactionState.PREPARE_COMMIT
    desk.loses_writes = False
    desk.carry_out(desk.shard.tick("a", desk.now_ms), "a")  # as the runtime does
    assert (desk.state().state, desk.effects) == (TransactionState.COMPLETE_COMMIT, [])


# Records


def test_records_have_the_version_of_the_feature() -> None:
    for version, expected in ((0, 0), (1, 1), (2, 1)):
        desk = ongoing(desk=Desk(version))
        assert {int.from_bytes(value[:2], "big") for _, value in desk.log if value} == {expected}


def test_after_a_downgrade_no_field_is_lost() -> None:
    """The new protocol goes on until its clients have heard of the level."""
    desk = ongoing()
    desk.version = 0
    assert desk.end("a", A, version=NEW) == (FIRST_ID, 1)
    desk.restart()
    desk.pass_time(0)
    desk.write_markers()
    assert desk.end("a", A, version=NEW) == (FIRST_ID, 1)
    assert desk.shard.transactions == desk.rebuilt().transactions


def test_unknown_records_are_counted_and_unknown_states_refused() -> None:
    desk = Desk()
    load = desk.shard.record_loader()
    assert not load(b"\x00\x09" + encode_key(TransactionLogKey("a"))[2:], b"", 0, None)
    desk.init()
    key, value = desk.log[0]
    assert value is not None
    spoilt = bytearray(value)
    position = 2 + 8 + 2 + 4  # version, id, epoch, timeout
    assert spoilt[position] == TransactionState.EMPTY
    spoilt[position] = 6
    with pytest.raises(ValueError, match="6"):
        load(key, bytes(spoilt), 0, None)


def test_a_tombstone_forgets_the_id() -> None:
    desk = Desk()
    desk.init()
    load = desk.shard.record_loader()
    for _ in range(2):
        assert load(desk.log[0][0], None, 0, None)
    assert desk.shard.transactions == {}
    desk.shard.note_due("a")
    assert desk.shard.tick("a", 0.0).records == []
