"""Partitions of transactions: added by clients, verified by leaders."""

from __future__ import annotations

import pytest

from headgate.gateway.coordinator.decision import ProducerIdAndEpoch
from headgate.gateway.coordinator.transactions.tests.transaction_desk import FIRST_ID, NEW, NOW_MS, Desk
from headgate.gateway.coordinator.transactions.transaction import TransactionState
from headgate.protocol.errors import ErrorCode
from headgate.protocol.internal.transactions import PartitionsSchema

A = ProducerIdAndEpoch(FIRST_ID, 0)
OTHER_EPOCH = ProducerIdAndEpoch(FIRST_ID, 1)
OTHER_ID = ProducerIdAndEpoch(FIRST_ID + 9, 0)


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    assert desk.init() == A
    desk.now_ms = 5
    return desk


def test_the_first_partitions_begin_the_transaction(desk: Desk) -> None:
    assert desk.add("a", A, {"t": [3, 1], "s": [0]}) == ErrorCode.NONE
    record = desk.written[-1]
    assert record is not None
    assert record.transaction_partitions == [PartitionsSchema("s", [0]), PartitionsSchema("t", [1, 3])]
    assert (record.transaction_status, record.transaction_start_timestamp_ms) == (1, NOW_MS + 5)
    assert desk.effects == []


def test_more_partitions_leave_the_begin_of_the_transaction(desk: Desk) -> None:
    desk.add("a", A, {"t": [1]})
    desk.now_ms = 50
    desk.add("a", A, {"t": [0], "u": [2]})
    assert desk.state().partitions == {"t": (0, 1), "u": (2,)}
    assert (desk.state().start_ms, desk.state().last_update_ms) == (NOW_MS + 5, NOW_MS + 50)


def test_known_partitions_are_not_written_again(desk: Desk) -> None:
    desk.add("a", A, {"t": [0, 1]})
    written = len(desk.log)
    assert desk.add("a", A, {"t": [1]}) == ErrorCode.NONE
    assert desk.add("a", A, {}) is not None
    assert len(desk.log) == written


def test_the_next_transaction_begins_without_partitions(desk: Desk) -> None:
    desk.add("a", A, {"t": [0]})
    desk.end("a", A)
    desk.write_markers()
    desk.now_ms = 70
    desk.add("a", A, {"s": [0]})
    assert (desk.state().partitions, desk.state().start_ms) == ({"s": (0,)}, NOW_MS + 70)


@pytest.mark.parametrize(
    "producer, code",
    [
        (OTHER_ID, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (OTHER_EPOCH, ErrorCode.PRODUCER_FENCED),
    ],
)
def test_another_producer_neither_adds_nor_verifies(desk: Desk, producer: ProducerIdAndEpoch, code: ErrorCode) -> None:
    desk.add("a", A, {"t": [0]})
    written = len(desk.log)
    assert desk.add("a", producer, {"t": [0]}) == code
    assert desk.verify("a", producer, {"t": [0]}) == code
    assert len(desk.log) == written


def test_an_unknown_id_has_no_transaction(desk: Desk) -> None:
    assert desk.add("b", A, {"t": [0]}) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert desk.verify("b", A, {"t": [0]}) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_clients_that_do_not_know_it_are_not_told_that_they_are_fenced(desk: Desk) -> None:
    assert desk.add("a", OTHER_EPOCH, {"t": [0]}, knows_fenced=False) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_nothing_is_added_while_markers_are_written(desk: Desk) -> None:
    desk.add("a", A, {"t": [0]})
    desk.end("a", A)
    assert desk.add("a", A, {"t": [0]}) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.verify("a", A, {"t": [0]}) == ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_leader_hears_which_partitions_the_transaction_has(desk: Desk) -> None:
    assert desk.verify("a", A, {"t": [0]}) == ErrorCode.TRANSACTION_ABORTABLE, "no transaction is open"
    desk.add("a", A, {"t": [0]})
    assert desk.verify("a", A, {"t": [0, 1]}) == [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]
    desk.end("a", A)
    desk.write_markers()
    assert desk.verify("a", A, {"t": [0]}) == ErrorCode.TRANSACTION_ABORTABLE
    assert desk.state().state is TransactionState.COMPLETE_COMMIT


def test_a_late_batch_of_an_ended_transaction_adds_nothing(desk: Desk) -> None:
    """The race of KIP-890: in the new protocol its epoch is that before."""
    desk.add("a", A, {"t": [0]}, client_version=2)
    desk.end("a", A, version=NEW)
    written = len(desk.log)
    assert desk.add("a", A, {"t": [0]}, client_version=2) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert len(desk.log) == written
    desk.write_markers()
    assert desk.add("a", A, {"t": [0]}, client_version=2) == ErrorCode.PRODUCER_FENCED
    assert desk.add("a", OTHER_EPOCH, {"t": [0]}, client_version=2) == ErrorCode.NONE
