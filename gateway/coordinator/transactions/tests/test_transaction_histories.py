"""Many producers of few transactional ids, of both protocols, with zombies, lost answers, timeouts and restarts.

After every step:
- the live state is the state that the records give;
- the log of an id is a sequence of whole transactions: begun, decided once, complete;
- the answer to an end is what the log says;
- of two producers only one is the holder, and nobody else changes anything;
- the epoch of a marker fences what the protocol says.

In the end nothing is left open.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headgate.gateway.coordinator.decision import Decision, ProducerIdAndEpoch
from headgate.gateway.coordinator.transactions import expiration
from headgate.gateway.coordinator.transactions.effects import WriteMarkers
from headgate.gateway.coordinator.transactions.tests.transaction_desk import NEW, NOW_MS, OLD, TIMEOUT_MS, Desk
from headgate.gateway.coordinator.transactions.transaction import (
    EXHAUSTED_EPOCH,
    HIGHEST_EPOCH,
    Transaction,
    TransactionState,
)
from headgate.protocol.errors import ErrorCode
from headgate.protocol.internal.transactions import TransactionLogKey, UnknownVersion, decode
from headgate.protocol.tests.examples import share

KEYS = st.sampled_from("aaab")
NUMBERS = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 4])
EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
PREPARED = {TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}
COMPLETE = {TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
RETRIABLE = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}
NEXT = {
    EMPTY: {EMPTY, ONGOING, TransactionState.PREPARE_ABORT},
    ONGOING: {ONGOING, *PREPARED},
    TransactionState.PREPARE_COMMIT: {TransactionState.COMPLETE_COMMIT},
    TransactionState.PREPARE_ABORT: {TransactionState.COMPLETE_ABORT},
    TransactionState.COMPLETE_COMMIT: {EMPTY, ONGOING, TransactionState.PREPARE_ABORT},
    TransactionState.COMPLETE_ABORT: {EMPTY, ONGOING, TransactionState.PREPARE_ABORT},
}
"""The states that may follow in the log; no record follows a Prepare record but that of its own end."""


class Producer:
    """A client that believes what it was told, in one of the protocols, and repeats what was not answered."""

    def __init__(self, key: str, version: int) -> None:
        self.key = key
        self.version = version
        self.held: ProducerIdAndEpoch | None = None
        self.begun: int | None = None
        """How many transactions of the id were decided when its present one began; None if it has no partition."""
        self.unanswered: Callable[[bool], object] | None = None
        """Sends a request again whose answer was lost; is the answer lost once more?"""
        self.ended: list[tuple[ProducerIdAndEpoch, bool]] = []
        """Its answered ends in the new protocol: the id and epoch then, and whether it was a commit."""


class Histories(RuleBasedStateMachine):
    """`desk` is the coordinator. A step is one request, one event, or time."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk()
        self.producers: list[Producer] = []
        self.owners: dict[ProducerIdAndEpoch, Producer] = {}
        """Who was told each id and epoch."""
        self.in_flight: dict[str, WriteMarkers] = {}
        """The last effect of each id that the marker writer has, and has not finished."""
        self.ends: dict[tuple[str, int], bool] = {}
        """(id, number of its decided transactions) -> what an acknowledged end was."""
        self.checked = 0
        self.states: dict[str, Transaction] = {}
        self.decided: defaultdict[str, int] = defaultdict(int)

    @initialize(left=st.sampled_from([None, 0, 1, 3]))
    def begin(self, left: int | None) -> None:
        """Epochs are exhausted after a few steps, or never."""
        if left is not None:
            for key in "ab":
                epoch = EXHAUSTED_EPOCH - left
                old = Transaction(next(self.desk.ids), epoch, timeout_ms=TIMEOUT_MS, last_update_ms=NOW_MS)
                self.desk.carry_out(Decision(self.desk.shard.record(key, old)), key)

    def some(self, number: int) -> Producer | None:
        """A producer, most often one of the last."""
        return self.producers[-1 - number % len(self.producers)] if self.producers else None

    # Requests

    @rule(key=KEYS, version=st.sampled_from([OLD, NEW]), is_lost=st.booleans())
    def start(self, key: str, version: int, is_lost: bool) -> None:
        """A new producer of an id that others may still use. One that hears nothing is never heard of again."""
        producer = Producer(key, version)
        if self._init(producer, None, is_lost):
            self.producers.append(producer)

    @rule(number=NUMBERS, is_lost=st.booleans())
    def raise_epoch(self, number: int, is_lost: bool) -> None:
        producer = self.some(number)
        if producer is not None and producer.unanswered is None:
            self._init(producer, producer.held, is_lost)

    @rule(number=NUMBERS, partition=st.integers(0, 2))
    def add(self, number: int, partition: int) -> None:
        """By the client in the old protocol, by the leader of the partition in the new one."""
        producer = self.some(number)
        if producer is None or producer.held is None or producer.unanswered is not None:
            return
        client_version = 2 if producer.version == NEW else 0
        code = self.desk.add(producer.key, producer.held, {"t": [partition]}, client_version=client_version)
        if code == ErrorCode.NONE:
            self._is_accepted(producer)
            self._check_log()
            if producer.begun is None:
                producer.begun = self.decided[producer.key]
            assert self.desk.state(producer.key).has("t", partition)
            assert self.desk.verify(producer.key, producer.held, {"t": [partition]}) == ErrorCode.NONE

    @rule(number=NUMBERS, commit=st.booleans(), is_lost=st.booleans())
    def end(self, number: int, commit: bool, is_lost: bool) -> None:
        producer = self.some(number)
        if producer is not None and producer.held is not None and producer.unanswered is None:
            self._end(producer, producer.held, commit, is_lost)

    @rule(number=NUMBERS, commit=st.booleans(), is_lost=st.booleans())
    def transact(self, number: int, commit: bool, is_lost: bool) -> None:
        """A whole transaction, if it can be ended."""
        self.add(number, 0)
        self.end(number, commit, is_lost)
        producer = self.some(number)
        if producer is not None:
            self.finish(producer.key)

    @rule(number=NUMBERS, is_lost=st.booleans())
    def repeat(self, number: int, is_lost: bool) -> None:
        """Send again what was not answered."""
        producer = self.some(number)
        if producer is None or producer.unanswered is None:
            return
        repeated, producer.unanswered = producer.unanswered, None
        repeated(is_lost)

    @rule(number=NUMBERS, which=NUMBERS)
    def arrive_again(self, number: int, which: int) -> None:
        """An end of long ago arrives once more. In the new protocol it changes nothing, and ends nothing else."""
        producer = self.some(number)
        if producer is not None and producer.ended:
            held, commit = producer.ended[-1 - which % len(producer.ended)]
            written = len(self.desk.log)
            self.desk.end(producer.key, held, commit=commit, version=NEW)
            assert len(self.desk.log) == written

    def _init(self, producer: Producer, held: ProducerIdAndEpoch | None, is_lost: bool) -> bool:
        reply = self.desk.init(producer.key, held)
        if is_lost or (held is not None and reply in RETRIABLE):
            producer.unanswered = partial(self._init, producer, held)
            return held is not None
        if isinstance(reply, ProducerIdAndEpoch):
            self._was_told(producer, reply)
            producer.begun = None
            return True
        return False

    def _end(self, producer: Producer, held: ProducerIdAndEpoch, commit: bool, is_lost: bool) -> None:
        reply = self.desk.end(producer.key, held, commit=commit, version=producer.version)
        if is_lost:
            producer.unanswered = partial(self._end, producer, held, commit)
        elif isinstance(reply, ProducerIdAndEpoch):
            self._was_told(producer, reply)
        elif reply != ErrorCode.NONE:
            return
        if isinstance(reply, ProducerIdAndEpoch) or reply == ErrorCode.NONE:
            if isinstance(reply, ProducerIdAndEpoch):
                producer.ended.append((held, commit))
            self._check_log()
            last = self.decided[producer.key]
            assert self.ends[producer.key, last] == commit, "the answer is what was decided"
            assert producer.begun in (None, last - 1), "of this transaction"
            producer.begun = None

    def _was_told(self, producer: Producer, told: ProducerIdAndEpoch) -> None:
        assert self.owners.setdefault(told, producer) is producer, "an epoch has one holder"
        assert told.producer_epoch <= EXHAUSTED_EPOCH
        producer.held = told

    def _is_accepted(self, producer: Producer) -> None:
        """Only the holder is served: whoever was told the id and epoch of the state."""
        assert self.desk.state(producer.key).holder == producer.held
        for other in self.producers:
            if other is not producer and other.key == producer.key:
                assert other.held != producer.held

    # Events

    @rule(key=KEYS)
    def write_markers(self, key: str) -> None:
        """All markers of a transaction are written, of the last effect that was performed."""
        effect = self.in_flight.pop(key, None)
        if effect is not None:
            self.desk.complete(effect)

    @rule()
    def perform(self) -> None:
        """The effects reach the marker writer, where the last one of an id counts."""
        self.in_flight.update({effect.transactional_id: effect for effect in self.desk.effects})
        self.desk.effects.clear()

    @rule(key=KEYS)
    def finish(self, key: str) -> None:
        self.perform()
        self.write_markers(key)

    @rule()
    def restart(self) -> None:
        self.desk.restart()
        self.in_flight.clear()
        self.desk.pass_time(0)

    @rule(number=NUMBERS, commit=st.booleans())
    def fail(self, number: int, commit: bool) -> None:
        """Nothing can be written for a moment, whoever asks."""
        self.desk.loses_writes = True
        self.transact(number, commit, is_lost=False)
        self.raise_epoch(number, is_lost=False)
        self.wait(TIMEOUT_MS)
        self.desk.loses_writes = False

    @rule(is_lacking=st.booleans())
    def take_ids(self, is_lacking: bool) -> None:
        self.desk.lacks_ids = is_lacking

    @rule(version=st.integers(0, 2))
    def finalize(self, version: int) -> None:
        self.desk.version = version

    @rule(milliseconds=st.sampled_from([1, TIMEOUT_MS // 2, TIMEOUT_MS]))
    def wait(self, milliseconds: int) -> None:
        self.desk.pass_time(milliseconds)
        self._tick_again()

    def _tick_again(self) -> None:
        """The runtime ticks what could not be written once more."""
        for key in list(self.desk.shard.transactions):
            self.desk.carry_out(self.desk.shard.tick(key, self.desk.now_ms), key)

    @rule()
    def expire(self) -> None:
        """Ids without a transaction are forgotten, and with them their producers."""
        for decision in expiration.expire(self.desk.shard, NOW_MS + int(self.desk.now_ms) - 2 * TIMEOUT_MS):
            for key, _ in decision.records:
                assert isinstance(key, TransactionLogKey)
                assert self.desk.state(key.transactional_id).state in {EMPTY, *COMPLETE}
            self.desk.carry_out(decision, "")
            for key, _ in decision.records:
                self.desk.shard.note_due(key.transactional_id)  # type: ignore[attr-defined]

    # What holds

    @invariant()
    def the_live_state_is_that_of_the_records(self) -> None:
        self._check_log()
        assert self.desk.shard.transactions == self.desk.rebuilt().transactions

    def _check_log(self) -> None:
        for encoded in self.desk.log[self.checked :]:
            decoded = decode(*encoded)
            assert not isinstance(decoded, UnknownVersion)
            key, value = decoded[0].transactional_id, decoded[1]
            if value is None:
                del self.states[key]
                continue
            self._check_transition(key, self.states.get(key), Transaction.from_value(value))
            self.states[key] = Transaction.from_value(value)
        self.checked = len(self.desk.log)

    def _check_transition(self, key: str, before: Transaction | None, after: Transaction) -> None:
        if before is None:
            assert after.state is EMPTY
            return
        assert after.state in NEXT[before.state]
        assert after.producer_id > before.producer_id or (
            after.producer_id == before.producer_id and after.producer_epoch >= before.producer_epoch
        )
        if after.state in PREPARED:
            self.decided[key] += 1
            self.ends[key, self.decided[key]] = after.is_commit
            assert after.partitions == before.partitions
            self._check_marker(before, after.markers(key))
        elif after.state is ONGOING:
            assert all(set(indexes) <= set(after.partitions[topic]) for topic, indexes in before.partitions.items())
        else:
            assert not after.partitions

    def _check_marker(self, before: Transaction, marker: WriteMarkers) -> None:
        """In the new protocol, and after a fence, every batch has a lower epoch than the marker."""
        assert marker.producer_id == before.producer_id
        assert marker.producer_epoch >= before.producer_epoch
        if marker.transaction_version == 2 and before.producer_epoch < HIGHEST_EPOCH:
            assert marker.producer_epoch > before.producer_epoch

    def teardown(self) -> None:
        """Nothing stays open, whatever has happened."""
        self.desk.loses_writes = self.desk.lacks_ids = False
        self.restart()
        for _ in range(3):
            self.desk.pass_time(2 * TIMEOUT_MS)
            self.perform()
            for key in "ab":
                self.write_markers(key)
        self.the_live_state_is_that_of_the_records()
        assert {each.state for each in self.desk.shard.transactions.values()} <= {EMPTY, *COMPLETE}
        for key, transaction in self.desk.shard.transactions.items():
            assert self.desk.init(key) == self.desk.state(key).holder != transaction.holder


TestHistories = pytest.mark.slow(Histories.TestCase)
TestHistories.settings = settings(max_examples=share(80, soak=5_000), stateful_step_count=50, deadline=None)
