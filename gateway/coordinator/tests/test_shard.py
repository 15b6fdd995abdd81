"""The runtime with a shard that is not groups: transactional writes, markers, timers, and effects."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.gateway.coordinator.decision import Decision, ProducerIdAndEpoch, Records, Ticket
from headgate.gateway.coordinator.log_replay import LogReplay
from headgate.gateway.coordinator.tests.transaction_bench import (
    ENDED,
    TRANSACTION_TIMEOUT_MS,
    ShardWithTransactions,
    TransactionBench,
    markers,
    not_begun,
    not_ended,
    reply,
)
from headgate.gateway.coordinator.transactions.transaction import TransactionState
from headgate.gateway.coordinator.transactions.transaction_shard import TransactionShard
from headgate.gateway.tests.scripted import STORAGE_ERROR, ScriptedPartition
from headgate.protocol.errors import ErrorCode
from headgate.protocol.internal.transactions import TransactionLogKey
from headgate.protocol.records import control
from headgate.protocol.records.batch import read_header
from headgate.protocol.records.control import Marker
from headgate.protocol.tests.examples import share

PRODUCER = ProducerIdAndEpoch(7, 3)
ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = list(TransactionState)[1:]


def rebuilt(bench: TransactionBench) -> ShardWithTransactions:
    """The shard that a load gives now."""
    replay = LogReplay(bench.new_shard(), bench.partition.log.start_offset)
    for _ in replay.replay(b"".join(bench.partition.log.batches)):
        pass
    assert replay.skipped == replay.unknown == 0, replay.problem
    return replay.shard


# Transactional writes


def test_records_of_a_transaction_count_when_its_marker_has_come() -> None:
    bench = TransactionBench()
    assert bench.write("x", "y", producer=PRODUCER) == [reply(2)]
    assert (bench.shard.transactions, list(bench.shard.pending[7])) == ({}, ["x", "y"])
    assert bench.mark(PRODUCER, is_commit=True) == [reply(0)]
    assert (list(bench.shard.transactions), bench.shard.pending) == (["x", "y"], {})
    assert rebuilt(bench).persistent_state() == bench.shard.persistent_state()


def test_an_aborted_transaction_leaves_nothing() -> None:
    bench = TransactionBench()
    bench.write("x", producer=PRODUCER)
    bench.mark(PRODUCER, is_commit=False)
    assert bench.shard.persistent_state() == ({}, {}) == rebuilt(bench).persistent_state()


def test_batches_are_those_of_kafkas_coordinators() -> None:
    bench = TransactionBench()
    bench.write("x", "y", producer=PRODUCER)
    bench.mark(PRODUCER, is_commit=True)
    written, marker = bench.partition.log.batches
    header = read_header(written)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, -1)
    assert (header.is_transactional, header.is_control, header.records_count) == (True, False, 2)
    header = read_header(marker)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, -1)
    assert (header.is_transactional, header.is_control) == (True, True)
    assert control.read(marker) == Marker(is_commit=True, coordinator_epoch=0)


@pytest.mark.parametrize("tears", [False, True])
def test_a_marker_that_is_not_written_ends_nothing(tears: bool) -> None:
    bench = TransactionBench()
    bench.write("x", producer=PRODUCER)
    bench.partition.fails, bench.partition.tears = STORAGE_ERROR, tears
    assert bench.mark(PRODUCER, is_commit=True) == [ErrorCode.NOT_COORDINATOR]
    bench.run()
    assert list(bench.shard.transactions) == (["x"] if tears else []), "the log alone says what has happened"
    assert rebuilt(bench).persistent_state() == bench.shard.persistent_state()


# Effects


def test_an_effect_runs_after_the_turn_and_may_ask_its_shard() -> None:
    bench = TransactionBench(completes=True)
    bench.begin()
    bench.partition.leader_epoch = 5
    assert bench.end() == [ENDED]
    assert (bench.performed, bench.status()) == ([], PREPARE_COMMIT)
    bench.run()
    assert bench.performed == [(markers("a"), 5)]
    assert bench.status() == COMPLETE_COMMIT


def test_effects_wait_for_the_high_watermark_and_keep_their_order() -> None:
    bench = TransactionBench(lambda partition: setattr(partition, "holds", True))
    for key in "ab":
        bench.begin(key)
        bench.end(key)
    bench.time.advance(60_000)
    assert bench.performed == []
    bench.partition.release()
    assert bench.performed == []
    bench.end("c")  # nobody gets in between
    bench.run()
    assert [effect.transactional_id for effect, _ in bench.performed] == ["a", "b"]


def test_effects_go_on_after_waiting_appends_have_failed() -> None:
    bench = TransactionBench(lambda partition: setattr(partition, "holds", True))
    bench.begin()
    bench.end()
    bench.run()
    bench.partition.fail_waiting_appends()
    bench.time.advance(60_000)
    assert bench.performed == []
    bench.partition.release()
    bench.time.advance(60_000)
    assert [effect.transactional_id for effect, _ in bench.performed] == ["a"]


def test_effects_of_a_failed_write_are_dropped() -> None:
    bench = TransactionBench()
    bench.begin()
    bench.partition.fails = STORAGE_ERROR
    assert bench.end() == [ErrorCode.NOT_COORDINATOR]
    bench.partition.fails = None
    bench.run()
    assert (bench.performed, bench.status()) == ([], ONGOING)


def test_effects_of_a_staged_write_wait_for_it() -> None:
    bench = TransactionBench()
    bench.begin()
    assert bench.end(failure_response=not_ended) == [ENDED]
    assert (bench.performed, bench.batcher.is_open) == ([], True)
    bench.time.advance()  # the effects run after the turn, and it has to end with the write
    assert (len(bench.performed), bench.batcher.is_open) == (1, False)


def test_a_staged_write_that_fails_takes_its_effects_with_it() -> None:
    bench = TransactionBench()
    bench.begin()
    (answer,) = bench.end(failure_response=not_ended)
    bench.partition.fails = STORAGE_ERROR
    bench.batcher.write_all()
    bench.partition.fails = None
    bench.run()
    assert answer == not_ended(ErrorCode.NOT_COORDINATOR)
    assert (bench.performed, bench.status()) == ([], ONGOING)


def test_effects_wait_for_the_write_of_a_thread() -> None:
    bench = TransactionBench()
    bench.begin()
    bench.partition.is_slow = True
    bench.end()
    bench.run()
    assert bench.performed == []
    bench.partition.finish_write()
    bench.run()
    assert len(bench.performed) == 1


def test_effects_end_with_the_shard_and_the_next_one_derives_them() -> None:
    bench = TransactionBench(lambda partition: setattr(partition, "holds", True))
    bench.begin()
    bench.end()
    bench.coordinator.reload("for a test")
    bench.partition.release()
    bench.run()
    assert bench.performed == [(markers("a"), 0)], "once, by the loaded shard"


def test_after_the_end_no_effect_runs() -> None:
    bench = TransactionBench(lambda partition: setattr(partition, "holds", True))
    bench.begin()
    bench.end()
    bench.coordinator.close()
    bench.partition.release()
    bench.run()
    assert bench.performed == []


def test_a_stop_of_the_broker_performs_nothing() -> None:
    bench = TransactionBench(lambda partition: setattr(partition, "holds", True))
    bench.begin()
    bench.end()
    bench.tasks.expire_all()
    bench.partition.release()
    bench.run()
    assert bench.performed == []


def test_an_effect_that_fails_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    performed: list[object] = []

    def fails_first(effects: object, _: int) -> None:
        performed.append(effects)
        if len(performed) == 1:
            raise RuntimeError("a fault of an effect")

    bench = TransactionBench(perform=fails_first)
    for key in "ab":
        bench.begin(key)
        bench.end(key)
    bench.run()
    assert len(performed) == 2
    assert "an effect failed" in caplog.text


def test_an_effect_without_records_waits_for_what_was_written_before() -> None:
    def decide(_: TransactionShard, ticket: Ticket) -> Decision:
        return Decision([], [(ticket, reply(1))], effects=[markers("z")])

    bench = TransactionBench(lambda partition: setattr(partition, "holds", True))
    bench.begin()
    bench.ask(decide)
    bench.run()
    assert bench.performed == []
    bench.partition.release()
    bench.run()
    assert [effect.transactional_id for effect, _ in bench.performed] == ["z"]


# Leader epochs


def test_a_reply_outlives_a_later_leader_epoch_of_the_lead() -> None:
    bench = TransactionBench(lambda partition: setattr(partition, "holds", True))
    shard, heard = bench.shard, bench.begin()
    bench.partition.leader_epoch = 1
    bench.partition.release()
    bench.run()
    assert heard == [reply(0)]
    assert bench.coordinator.shard is shard, "nothing is loaded again"


def test_a_write_of_a_thread_outlives_a_later_leader_epoch() -> None:
    bench = TransactionBench(lambda partition: setattr(partition, "is_slow", True))
    shard, heard = bench.shard, bench.begin()
    bench.partition.leader_epoch = 1
    bench.partition.is_slow = False
    bench.partition.finish_write()
    bench.run()
    assert (heard, bench.status()) == ([reply(0)], ONGOING)
    assert bench.coordinator.shard is shard, "nothing is loaded again"


def test_an_effect_has_the_leader_epoch_of_its_own_time() -> None:
    """The epochs of markers never go back, also where an earlier effect has waited for longer."""
    bench = TransactionBench()
    bench.begin()
    bench.end()
    bench.partition.leader_epoch = 1
    shard = bench.shard
    bench.run()
    assert bench.performed == [(markers("a"), 1)]
    assert bench.coordinator.shard is shard, "nothing is loaded again"


# Loading and time


def with_transaction(partition: ScriptedPartition) -> None:
    """A log with a transaction that is being committed, one that is open, and records of a third."""
    source = TransactionBench()
    source.begin("a")
    source.end("a")
    source.begin("b")
    source.write("x", producer=PRODUCER)
    for batch in source.partition.log.batches:
        partition.log.write(batch)
    partition.high_watermark = partition.log.end_offset


def test_during_a_load_clients_come_again() -> None:
    bench = TransactionBench(with_transaction)
    assert bench.begin("c") == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert bench.mark(PRODUCER, is_commit=True) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    bench.run()
    assert bench.begin("c") == [reply(0)]


def test_a_loaded_shard_goes_on_where_the_last_one_ended() -> None:
    bench = TransactionBench(with_transaction, completes=True)
    bench.run()
    assert bench.performed == [(markers("a"), 0)]
    assert (bench.status("a"), bench.status("b")) == (COMPLETE_COMMIT, ONGOING)
    bench.mark(PRODUCER, is_commit=True)
    assert bench.status("x") == COMPLETE_COMMIT
    bench.time.advance(TRANSACTION_TIMEOUT_MS + 1)
    bench.run()
    assert bench.status("b") == COMPLETE_ABORT
    assert bench.shard.transactions["b"].producer_epoch == 1, "the producer is fenced"


def test_a_transaction_that_lasts_too_long_is_aborted() -> None:
    bench = TransactionBench()
    bench.begin()
    bench.time.advance(TRANSACTION_TIMEOUT_MS)
    assert bench.status() == ONGOING
    bench.time.advance(1)
    assert bench.status() == PREPARE_ABORT
    assert bench.performed == [(markers("a", epoch=1, is_commit=False), 0)]


# The property


class History:
    """Random requests, faults and times; after each the live state is the state of the log."""

    def __init__(self) -> None:
        self.bench = TransactionBench(completes=True)
        self.bench.run()

    def begin(self, key: str) -> None:
        self.bench.begin(key)

    def begin_staged(self, key: str) -> None:
        self.bench.begin(key, failure_response=not_begun)

    def commit(self, key: str) -> None:
        self.bench.end(key)

    def abort_staged(self, key: str) -> None:
        self.bench.end(key, is_commit=False, failure_response=not_ended)

    def write(self, key: str) -> None:
        self.bench.write(key, f"{key}{key}", producer=ProducerIdAndEpoch(ord(key), 0))

    def mark_committed(self, key: str) -> None:
        self.bench.mark(ProducerIdAndEpoch(ord(key), 0), is_commit=True)

    def mark_aborted(self, key: str) -> None:
        self.bench.mark(ProducerIdAndEpoch(ord(key), 0), is_commit=False)

    def delete(self, key: str) -> None:
        records: Records = [(TransactionLogKey(key), None)]
        self.bench.ask(lambda _, ticket: Decision(list(records), [(ticket, reply(0))]), key)

    def fail(self, key: str) -> None:
        self.bench.partition.fails, self.bench.partition.tears = STORAGE_ERROR, key == "a"

    def hold(self, key: str) -> None:
        self.bench.partition.holds = True

    def slow_down(self, key: str) -> None:
        self.bench.partition.is_slow = True

    def finish_write(self, key: str) -> None:
        if self.bench.partition.writes:
            self.bench.partition.finish_write()

    def recover(self, key: str) -> None:
        partition = self.bench.partition
        partition.fails, partition.tears, partition.is_slow = None, False, False
        partition.release()

    def elect(self, key: str) -> None:
        self.bench.partition.leader_epoch += 1

    def cut(self, key: str) -> None:
        """The log loses its last batch, if nothing is being written."""
        partition = self.bench.partition
        self.bench.batcher.write_all()
        if partition.writes or not partition.log.batches:
            return
        lost = partition.log.batches.pop()
        partition.log.end_offset = read_header(lost).base_offset
        partition.high_watermark = min(partition.high_watermark, partition.log.end_offset)
        self.bench.cut()

    def wait(self, key: str) -> None:
        self.bench.time.advance(TRANSACTION_TIMEOUT_MS / 2)

    def check(self) -> None:
        """At the end of a turn, with nothing staged."""
        self.bench.batcher.write_all()
        self.bench.time.advance()
        shard = self.bench.coordinator.shard
        if shard is not None:
            assert rebuilt(self.bench).persistent_state() == shard.persistent_state()


EVENTS = [name for name in vars(History) if not name.startswith("_") and name != "check"]


@pytest.mark.slow
@settings(max_examples=share(80, soak=200), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.sampled_from("ab")), min_size=10, max_size=60))
def test_the_live_state_is_the_state_of_the_log(events: list[tuple[str, str]]) -> None:
    history = History()
    for name, key in events:
        getattr(history, name)(key)
        history.check()
    history.recover("")
    while history.bench.partition.writes:
        history.finish_write("")
    for _ in range(10):
        history.wait("")
        history.check()
    bench = history.bench
    assert bench.coordinator.shard is not None, "it is loaded in the end"
    unfinished = (ONGOING, PREPARE_COMMIT, PREPARE_ABORT)
    assert all(state.state not in unfinished for state in bench.shard.transactions.values())
