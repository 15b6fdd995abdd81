"""InitProducerId with a transactional id: given a state and a request, then these records, answers and effects."""

from __future__ import annotations

import pytest

from headgate.gateway.coordinator.decision import ProducerIdAndEpoch
from headgate.gateway.coordinator.transactions.effects import WriteMarkers
from headgate.gateway.coordinator.transactions.tests.transaction_desk import (
    FIRST_ID,
    NEW,
    NOW_MS,
    TIMEOUT_MS,
    Desk,
)
from headgate.gateway.coordinator.transactions.transaction import EXHAUSTED_EPOCH, Transaction, TransactionState
from headgate.protocol.errors import ErrorCode
from headgate.protocol.internal.transactions import TransactionLogValue

A = ProducerIdAndEpoch(FIRST_ID, 0)


def epoch(number: int) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(FIRST_ID, number)


def exhausted(desk: Desk, key: str = "a") -> ProducerIdAndEpoch:
    """Have the holder of the id in its last epoch."""
    desk.init(key)
    last = desk.state(key)._replace(producer_epoch=EXHAUSTED_EPOCH - 1)
    desk.shard.transactions[key] = last
    producer = desk.init(key)
    assert producer == (last.producer_id, EXHAUSTED_EPOCH)
    return ProducerIdAndEpoch(*producer)


def test_a_new_id_gets_a_producer_id_and_epoch_0() -> None:
    desk = Desk()
    assert desk.init() == A
    assert desk.written == [
        TransactionLogValue(
            producer_id=FIRST_ID,
            producer_epoch=0,
            transaction_timeout_ms=TIMEOUT_MS,
            transaction_status=TransactionState.EMPTY,
            transaction_partitions=None,
            transaction_last_update_timestamp_ms=NOW_MS,
            transaction_start_timestamp_ms=-1,
        )
    ]
    assert desk.effects == []
    assert desk.init("b") == (FIRST_ID + 1, 0)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_range_is_refused(timeout_ms: int) -> None:
    desk = Desk()
    assert desk.init(timeout_ms=timeout_ms) == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert (desk.log, next(desk.ids)) == ([], FIRST_ID)


def test_each_new_holder_gets_the_next_epoch_and_its_timeout() -> None:
    desk = Desk()
    desk.init()
    desk.now_ms = 5
    assert desk.init(timeout_ms=7) == epoch(1)
    assert desk.state() == Transaction(FIRST_ID, 1, timeout_ms=7, partitions={}, last_update_ms=NOW_MS + 5)


def test_a_client_comes_again_while_producer_ids_are_taken() -> None:
    desk = Desk()
    desk.lacks_ids = True
    assert desk.init() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert (desk.log, desk.shard.transactions) == ([], {})


# A producer that raises its own epoch (KIP-360)


def test_the_holder_raises_its_own_epoch_and_may_ask_again() -> None:
    desk = Desk()
    desk.init()
    assert desk.init(held=A) == epoch(1)
    assert desk.init(held=A) == epoch(1), "the answer was lost"
    assert desk.init(held=A) == epoch(1)
    assert desk.init(held=epoch(1)) == epoch(2)


def test_an_older_epoch_is_fenced() -> None:
    desk = Desk()
    desk.init()
    assert desk.init() == epoch(1)
    assert desk.init(held=A) == ErrorCode.PRODUCER_FENCED
    assert desk.init(held=A, version=3) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert desk.init(held=epoch(2)) == ErrorCode.PRODUCER_FENCED
    assert desk.init(held=ProducerIdAndEpoch(5, 1)) == ErrorCode.PRODUCER_FENCED
    assert desk.state().producer_epoch == 1


def test_a_successor_ends_the_repetition() -> None:
    desk = Desk()
    desk.init()
    assert desk.init(held=A) == epoch(1)
    assert desk.init() == epoch(2)
    assert desk.init(held=epoch(1)) == ErrorCode.PRODUCER_FENCED
    assert desk.init(held=A) == ErrorCode.PRODUCER_FENCED


def test_a_repetition_of_what_was_lost_is_not_taken_for_the_successors() -> None:
    """Two holders of an epoch, one of them with an answer to a request whose write failed."""
    desk = Desk()
    desk.init()
    desk.loses_writes = True
    assert desk.init(held=A) == ErrorCode.NOT_COORDINATOR
    desk.loses_writes = False
    assert desk.init() == epoch(1)
    assert desk.init(held=A) == ErrorCode.PRODUCER_FENCED


def test_an_id_of_a_forgotten_transactional_id_is_taken_for_a_new_one() -> None:
    desk = Desk()
    assert desk.init(held=ProducerIdAndEpoch(77, 3)) == A


# Exhausted epochs


def test_an_exhausted_epoch_gives_a_new_id_with_the_one_before_in_the_record() -> None:
    desk = Desk()
    held = exhausted(desk)
    new = desk.init()
    assert new == (FIRST_ID + 1, 0)
    assert desk.state().previous_producer_id == held.producer_id
    assert desk.init(held=held) == ErrorCode.PRODUCER_FENCED, "another producer was told the new id"


def test_the_holder_of_an_exhausted_epoch_may_ask_again() -> None:
    desk = Desk()
    held = exhausted(desk)
    new = desk.init(held=held)
    assert new == (FIRST_ID + 1, 0)
    for _ in range(3):
        assert desk.init(held=held) == new
    assert desk.init(held=ProducerIdAndEpoch(held.producer_id, 5)) == ErrorCode.PRODUCER_FENCED


def test_a_fence_in_the_last_epoch_takes_the_one_above() -> None:
    for version in (1, 2):
        desk = Desk(version)
        held = exhausted(desk)
        desk.add("a", held, {"t": [0]})
        assert desk.init() == ErrorCode.CONCURRENT_TRANSACTIONS
        assert desk.effects[0].producer_epoch == EXHAUSTED_EPOCH + 1
        desk.write_markers()
        for commit in (True, False):
            assert desk.end("a", held, commit=commit) == ErrorCode.PRODUCER_FENCED
            assert desk.end("a", held, commit=commit, version=NEW) == ErrorCode.PRODUCER_FENCED
        assert desk.init(held=held) == ErrorCode.PRODUCER_FENCED
        assert desk.init() == (FIRST_ID + 1, 0)


# A transaction is under way


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_ongoing_transaction_is_aborted_in_the_next_epoch(version: int) -> None:
    desk = Desk(version)
    desk.add("a", desk.init(), {"t": [1, 0], "s": [2]})
    assert desk.init() == ErrorCode.CONCURRENT_TRANSACTIONS
    partitions = {"s": (2,), "t": (0, 1)}
    (effect,) = desk.effects
    assert effect == WriteMarkers("a", FIRST_ID, 1, False, partitions, 2 if version == 2 else 0)
    assert desk.state().state is TransactionState.PREPARE_ABORT
    assert desk.init() == ErrorCode.CONCURRENT_TRANSACTIONS, "markers are being written"
    assert len(desk.effects) == 1
    desk.write_markers()
    assert desk.state().state is TransactionState.COMPLETE_ABORT
    assert desk.init() == epoch(2)


def test_the_holder_too_waits_for_its_transaction_to_be_aborted() -> None:
    """As in Kafka, the fence has raised its epoch; in the new protocol the holder is told the raised one."""
    for version, answer in ((1, ErrorCode.PRODUCER_FENCED), (2, epoch(1))):
        desk = Desk(version)
        desk.add("a", desk.init(), {"t": [0]})
        assert desk.init(held=A) == ErrorCode.CONCURRENT_TRANSACTIONS
        desk.write_markers()
        assert desk.init(held=A) == answer


def test_an_id_of_another_producer_aborts_nothing() -> None:
    desk = Desk()
    desk.add("a", desk.init(), {"t": [0]})
    assert desk.init(held=ProducerIdAndEpoch(5, 0)) == ErrorCode.PRODUCER_FENCED
    assert desk.state().state is TransactionState.ONGOING


def test_an_abort_that_is_not_written_fences_nobody() -> None:
    desk = Desk()
    desk.add("a", desk.init(), {"t": [0]})
    desk.loses_writes = True
    assert desk.init() == ErrorCode.NOT_COORDINATOR
    desk.loses_writes = False
    assert desk.effects == []
    assert desk.end("a", A) == ErrorCode.NONE


@pytest.mark.parametrize("commit", [True, False])
def test_after_an_end_in_the_new_protocol_the_epoch_before_may_ask(commit: bool) -> None:
    """The answer of EndTxn was lost, and the producer begins anew. A load makes no difference."""
    desk = Desk()
    desk.add("a", desk.init(), {"t": [0]})
    assert desk.end("a", A, commit=commit, version=NEW) == epoch(1)
    desk.write_markers()
    desk.restart()
    assert desk.init(held=A) == epoch(1)
    assert desk.init(held=epoch(1)) == epoch(2)
