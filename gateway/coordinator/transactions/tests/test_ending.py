"""EndTxn in the old and in the new protocol: given a state and a request, then these records, answers and effects."""

from __future__ import annotations

import pytest

from headgate.gateway.coordinator.decision import ProducerIdAndEpoch
from headgate.gateway.coordinator.transactions.effects import WriteMarkers
from headgate.gateway.coordinator.transactions.tests.test_initialization import exhausted
from headgate.gateway.coordinator.transactions.tests.transaction_desk import FIRST_ID, NEW, NOW_MS, OLD, Desk
from headgate.gateway.coordinator.transactions.transaction import EXHAUSTED_EPOCH, HIGHEST_EPOCH, TransactionState
from headgate.protocol.errors import ErrorCode
from headgate.protocol.internal.transactions import PartitionsSchema, TransactionLogValue

A = ProducerIdAndEpoch(FIRST_ID, 0)
NEXT = ProducerIdAndEpoch(FIRST_ID, 1)
DONE, FENCED = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED
INVALID, CONCURRENT = ErrorCode.INVALID_TXN_STATE, ErrorCode.CONCURRENT_TRANSACTIONS


def ongoing(version: int = 2) -> Desk:
    desk = Desk(version)
    assert desk.init() == A
    desk.add("a", A, {"t": [0]})
    return desk


def ended(commit: bool, version: int) -> Desk:
    desk = ongoing()
    desk.end("a", A, commit=commit, version=version)
    desk.write_markers()
    return desk


@pytest.mark.parametrize("commit", [True, False])
def test_the_end_is_decided_then_marked_then_complete(commit: bool) -> None:
    desk = ongoing()
    desk.now_ms = 9
    assert desk.end("a", A, commit=commit) == DONE
    status = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
    prepare = TransactionLogValue(
        producer_id=FIRST_ID,
        producer_epoch=0,
        transaction_timeout_ms=60_000,
        transaction_status=status,
        transaction_partitions=[PartitionsSchema("t", [0])],
        transaction_last_update_timestamp_ms=NOW_MS + 9,
        transaction_start_timestamp_ms=NOW_MS,
    )
    assert desk.written[-1] == prepare
    assert desk.effects == [WriteMarkers("a", FIRST_ID, 0, commit, {"t": (0,)}, 0)]
    desk.write_markers()
    prepare.transaction_status, prepare.transaction_partitions = status + 2, []
    assert desk.written[-1] == prepare
    assert desk.effects == []


@pytest.mark.parametrize("commit", [True, False])
def test_the_new_protocol_raises_the_epoch_with_the_end(commit: bool) -> None:
    desk = ongoing()
    assert desk.end("a", A, commit=commit, version=NEW) == NEXT
    assert desk.effects == [WriteMarkers("a", FIRST_ID, 1, commit, {"t": (0,)}, 2)]
    desk.write_markers()
    assert (desk.state().producer_epoch, desk.state().client_version) == (1, 2)
    assert desk.add("a", A, {"t": [0]}) == FENCED
    assert desk.add("a", NEXT, {"t": [0]}) == DONE


def test_an_exhausted_epoch_ends_with_a_new_id() -> None:
    """The record of Prepare has the next id, that of Complete the one before; so has the answer to a repetition."""
    desk = Desk()
    held = exhausted(desk)
    desk.add("a", held, {"t": [0]})
    new = ProducerIdAndEpoch(FIRST_ID + 1, 0)
    assert desk.end("a", held, version=NEW) == new
    (effect,) = desk.effects
    assert (effect.producer_id, effect.producer_epoch) == (FIRST_ID, HIGHEST_EPOCH)
    assert desk.end("a", held, version=NEW) == CONCURRENT
    desk.restart()
    assert desk.state().next_producer_id == new.producer_id
    desk.pass_time(0)
    desk.write_markers()
    assert (desk.state().producer_id, desk.state().producer_epoch) == new
    assert (desk.state().previous_producer_id, desk.state().next_producer_id) == (FIRST_ID, -1)
    desk.restart()
    assert desk.end("a", held, version=NEW) == new
    assert desk.init(held=held) == new
    assert desk.end("a", held._replace(producer_epoch=EXHAUSTED_EPOCH - 1), version=NEW) != new


def test_an_exhausted_epoch_waits_for_a_producer_id() -> None:
    desk = Desk()
    held = exhausted(desk)
    desk.add("a", held, {"t": [0]})
    desk.lacks_ids = True
    assert desk.end("a", held, version=NEW) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert desk.end("a", held, version=OLD) == DONE, "which needs none"


def test_what_is_no_transaction_of_the_producer_is_not_ended() -> None:
    desk = ongoing()
    for version in (OLD, NEW):
        assert desk.end("b", A, version=version) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        other = ProducerIdAndEpoch(FIRST_ID + 1, 0)
        assert desk.end("a", other, version=version) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert desk.end("a", NEXT, version=version) == FENCED
        assert desk.end("a", ProducerIdAndEpoch(FIRST_ID, -1), version=version) == FENCED
    assert desk.end("a", NEXT, version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert desk.effects == []


def test_the_old_protocol_in_every_state() -> None:
    desk = Desk()
    desk.init()
    assert [desk.end("a", A, commit=commit) for commit in (True, False)] == [INVALID, INVALID]
    for ends_so in (True, False):
        desk.add("a", A, {"t": [0]})
        desk.end("a", A, commit=ends_so)
        assert [desk.end("a", A, commit=commit) for commit in (ends_so, not ends_so)] == [CONCURRENT, CONCURRENT]
        assert desk.end("a", NEXT) == FENCED
        desk.write_markers()
        written = len(desk.log)
        assert [desk.end("a", A, commit=commit) for commit in (ends_so, not ends_so)] == [DONE, INVALID]
        assert (len(desk.log), desk.effects) == (written, [])


def test_a_late_end_in_the_old_protocol_ends_the_next_transaction() -> None:
    """As in Kafka (KAFKA-17754): the request does not say which transaction it is for."""
    desk = ongoing()
    desk.end("a", A)
    desk.write_markers()
    desk.add("a", A, {"t": [1]})
    assert desk.end("a", A) == DONE
    assert desk.effects == [WriteMarkers("a", FIRST_ID, 0, True, {"t": (1,)}, 0)]


@pytest.mark.parametrize("ends_so", [True, False])
@pytest.mark.parametrize("producer", [A, NEXT])
def test_nobody_is_fenced_while_markers_are_written(ends_so: bool, producer: ProducerIdAndEpoch) -> None:
    """In the new protocol: a client may abort its next transaction before the first batch of this one is stored."""
    desk = ongoing()
    assert desk.end("a", A, commit=ends_so, version=NEW) == NEXT
    written = len(desk.log)
    assert [desk.end("a", producer, commit=commit, version=NEW) for commit in (True, False)] == [CONCURRENT] * 2
    assert len(desk.log) == written
    desk.write_markers()
    assert desk.end("a", NEXT, commit=False, version=NEW) == ProducerIdAndEpoch(FIRST_ID, 2)


def test_the_next_producer_id_waits_until_markers_are_written() -> None:
    """The client has it from the answer, before the Complete record gives it the transactional id."""
    desk = Desk()
    held = exhausted(desk)
    desk.add("a", held, {"t": [0]})
    new = ProducerIdAndEpoch(FIRST_ID + 1, 0)
    assert desk.end("a", held, version=NEW) == new
    assert desk.add("a", new, {"t": [1]}, client_version=2) == CONCURRENT
    assert desk.end("a", new, commit=False, version=NEW) == CONCURRENT
    assert desk.init(held=new) == CONCURRENT
    desk.write_markers()
    assert desk.add("a", new, {"t": [1]}, client_version=2) == DONE


def test_the_new_protocol_after_the_end() -> None:
    for ends_so in (True, False):
        desk = ended(ends_so, NEW)
        written = len(desk.log)
        assert desk.end("a", A, commit=ends_so, version=NEW) == NEXT, "the answer was lost"
        assert desk.end("a", A, commit=not ends_so, version=NEW) == INVALID
        assert desk.end("a", NEXT, commit=True, version=NEW) == INVALID
        assert len(desk.log) == written


@pytest.mark.parametrize("version", [None, OLD, NEW])
def test_the_new_protocol_aborts_what_has_not_begun(version: int | None) -> None:
    """An epoch is used up: a batch of the one before may still be on its way to a partition."""
    desk = Desk()
    desk.init()
    if version is not None:
        desk = ended(True, version)
    held = ProducerIdAndEpoch(FIRST_ID, desk.state().producer_epoch)
    following = ProducerIdAndEpoch(FIRST_ID, held.producer_epoch + 1)
    desk.now_ms = 77
    assert desk.end("a", held, commit=False, version=NEW) == following
    assert desk.effects == [WriteMarkers("a", *following, False, {}, 2)]
    assert desk.state().start_ms == NOW_MS + 77
    desk.write_markers()
    assert desk.state().state is TransactionState.COMPLETE_ABORT
    assert desk.end("a", held, commit=False, version=NEW) == following
    if version is None:
        desk = Desk()
        desk.init()
        assert desk.end("a", A, commit=True, version=NEW) == INVALID


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [1, 2])
def test_an_end_in_the_old_protocol_is_not_repeated_in_the_new_one(version: int, commit: bool) -> None:
    """Unlike in Kafka: a replaced producer would get the epoch of its successor. Below level 2 it may be a fence."""
    desk = Desk(version)
    desk.init()
    assert desk.init() == NEXT
    desk.add("a", NEXT, {"t": [0]})
    desk.end("a", NEXT, commit=commit)
    desk.write_markers()
    looks_like_a_fence = version == 1 and not commit
    assert desk.end("a", A, commit=commit, version=NEW) == (NEXT if looks_like_a_fence else FENCED)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_fence_is_an_abort_that_its_producer_may_repeat(version: int) -> None:
    """In the new protocol, as in Kafka 4.1. In the old one nobody else gets an answer than the holder."""
    desk = ongoing(version)
    desk.init()
    assert desk.end("a", A, commit=False, version=NEW) == CONCURRENT
    desk.write_markers()
    assert desk.end("a", A, commit=True, version=NEW) == INVALID
    assert desk.end("a", A, commit=False, version=NEW) == NEXT
    assert desk.end("a", A, commit=False) == FENCED
    assert desk.init().producer_epoch == 2
    assert desk.end("a", A, commit=False, version=NEW) == FENCED


def test_a_producer_without_an_epoch_repeats_no_end() -> None:
    desk = Desk(0)
    held = desk.init()
    desk.add("a", held, {"t": [0]})
    desk.end("a", held, commit=False)
    desk.write_markers()
    assert desk.end("a", held._replace(producer_epoch=-1), commit=False, version=NEW) == FENCED


def test_an_end_that_is_not_written_is_no_end() -> None:
    desk = ongoing()
    desk.loses_writes = True
    assert desk.end("a", A, version=NEW) == ErrorCode.NOT_COORDINATOR
    desk.loses_writes = False
    assert (desk.effects, desk.state().state) == ([], TransactionState.ONGOING)
    assert desk.end("a", A, commit=False, version=NEW) == NEXT
