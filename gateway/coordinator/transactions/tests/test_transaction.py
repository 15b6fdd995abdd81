"""A transaction as a value: its transitions, and its record in both versions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.coordinator.decision import ProducerIdAndEpoch
from headgate.gateway.coordinator.transactions.transaction import (
    EXHAUSTED_EPOCH,
    HIGHEST_EPOCH,
    Transaction,
    TransactionState,
    encode,
    record_version,
)
from headgate.protocol.internal.transactions import decode_value, encode_value

HELD = Transaction(7, 3, timeout_ms=60_000)
ONGOING = HELD.with_partitions({"t": [2, 0]}, 0, 1_000)

IDS = st.sampled_from([-1, 0, 7, 1 << 62])
TRANSACTIONS = st.builds(
    Transaction,
    st.integers(0, 1 << 62),
    st.integers(-1, HIGHEST_EPOCH),
    IDS,
    IDS,
    st.integers(1, (1 << 31) - 1),
    st.sampled_from([state for state in TransactionState if state is not TransactionState.EMPTY]),
    st.dictionaries(st.text(max_size=5), st.lists(st.integers(0, 99), max_size=3).map(tuple), max_size=3),
    st.integers(-1, 1 << 60),
    st.integers(-1, 1 << 60),
    st.sampled_from([0, 2]),
)


@given(TRANSACTIONS, st.integers(0, 2))
def test_no_record_loses_anything(transaction: Transaction, version: int) -> None:
    encoded = encode(transaction, version)
    assert Transaction.from_value(decode_value(encoded)) == transaction
    assert encoded == encode_value(transaction.to_value(), record_version(transaction, version))


def test_version_0_is_for_level_0_unless_it_would_lose_a_field() -> None:
    def version(transaction: Transaction, level: int) -> int:
        return record_version(transaction, level)

    assert [version(ONGOING, level) for level in (0, 1, 2)] == [0, 1, 1]
    assert version(ONGOING._replace(client_version=2), 0) == 1
    assert version(ONGOING._replace(next_producer_id=8), 0) == 1
    assert version(ONGOING._replace(previous_producer_id=6), 0) == 1


def test_an_empty_transaction_has_no_array_of_partitions() -> None:
    assert HELD.to_value().transaction_partitions is None
    assert ONGOING.prepared(True, 0, -1, 1).completed(1).to_value().transaction_partitions == []


def test_partitions_are_ascending_and_each_is_there_once() -> None:
    both = ONGOING.with_partitions({"s": [1], "t": [1, 2]}, 0, 2_000)
    assert list(both.partitions.items()) == [("s", (1,)), ("t", (0, 1, 2))]
    assert both.has_all({"t": [0, 2], "s": [1]})
    assert not both.has_all({"t": [0, 3]})
    assert not both.has("u", 0)
    assert (both.start_ms, both.last_update_ms) == (1_000, 2_000)


@pytest.mark.parametrize("version, epoch", [(0, 3), (2, 4)])
def test_the_new_protocol_raises_the_epoch_at_the_end(version: int, epoch: int) -> None:
    prepared = ONGOING.prepared(True, version, -1, 5)
    assert (prepared.holder, prepared.is_commit) == (ProducerIdAndEpoch(7, epoch), True)
    complete = prepared.completed(6)
    assert (complete.holder, complete.state) == (prepared.holder, TransactionState.COMPLETE_COMMIT)
    ended_by = ProducerIdAndEpoch(7, 3) if version else None
    assert prepared.ended_by == complete.ended_by == ended_by
    assert complete.with_partitions({}, 2, 7).ended_by is None


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_fence_takes_the_next_epoch(version: int) -> None:
    fenced = ONGOING.fenced(version, 5)
    assert (fenced.producer_epoch, fenced.state) == (4, TransactionState.PREPARE_ABORT)
    assert fenced.ended_by == (ONGOING.holder if version == 2 else None)
    last = ONGOING._replace(producer_epoch=EXHAUSTED_EPOCH).fenced(version, 5)
    assert (last.producer_epoch, last.ended_by) == (HIGHEST_EPOCH, None)
    assert ONGOING._replace(producer_epoch=HIGHEST_EPOCH).fenced(version, 5).producer_epoch == HIGHEST_EPOCH


def test_the_next_id_holds_from_the_end_on() -> None:
    prepared = ONGOING._replace(producer_epoch=EXHAUSTED_EPOCH).prepared(False, 2, 8, 5)
    assert prepared.holder == (7, HIGHEST_EPOCH)
    assert prepared.ended_by == (7, EXHAUSTED_EPOCH)
    complete = prepared.completed(6)
    assert (complete.holder, complete.previous_producer_id, complete.next_producer_id) == ((8, 0), 7, -1)
    assert complete.ended_by == (7, EXHAUSTED_EPOCH)


def test_a_repeated_initialization_keeps_the_id_before() -> None:
    first = HELD.initialized(8, 0, 1, 5)
    assert (first.previous_producer_id, first.state) == (7, TransactionState.EMPTY)
    assert first.initialized(8, 0, 2, 6).previous_producer_id == 7
    assert first.initialized(8, 1, 2, 6).previous_producer_id == -1
