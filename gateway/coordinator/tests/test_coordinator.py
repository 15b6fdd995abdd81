"""The coordinator of one partition: what is replayed, when replies go out, and what happens if the disk fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headgate.gateway.coordinator.coordinator import TICK_RETRY_MS, translated
from headgate.gateway.coordinator.decision import NEVER, Decision, Ticket
from headgate.gateway.coordinator.groups.classic.requests import ClassicGroup
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.coordinator.tests.coordinator_bench import (
    TIMEOUT_MS,
    Bench,
    committing,
    read,
    reading,
    refused,
    row,
)
from headgate.gateway.tests.scripted import STORAGE_ERROR
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.offsets import OffsetCommitKey, OffsetCommitValue

# The way of a decision


def test_what_is_written_at_once_is_answered_at_once() -> None:
    bench = Bench()
    assert bench.commit(7) == [row(0)]
    assert bench.offset() == 7
    assert bench.partition.appended == 1
    assert bench.ask(reading) == [read(7)]
    assert bench.partition.appended == 1


def test_a_refusal_of_the_machine_writes_nothing() -> None:
    def decide(_: GroupShard, __: Ticket) -> Decision:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    bench = Bench()
    assert bench.ask(decide) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert bench.ask(lambda _, ticket: Decision.refuse(ticket, ErrorCode.ILLEGAL_GENERATION)) == [
        ErrorCode.ILLEGAL_GENERATION
    ]
    assert bench.partition.log.batches == []


def test_a_parked_ticket_is_answered_by_a_later_decision() -> None:
    tickets: list[Ticket] = []

    def park(_: GroupShard, ticket: Ticket) -> Decision:
        tickets.append(ticket)
        return Decision()

    bench = Bench()
    first, second = bench.ask(park), bench.ask(park)
    bench.run()
    assert (first, second) == ([], [])
    third = bench.ask(lambda _, ticket: Decision([], [(tickets[0], read(1)), (tickets[1], read(2)), (ticket, read(3))]))
    bench.run()
    assert (first, second, third) == ([read(1)], [read(2)], [read(3)])


def test_a_machine_may_know_that_a_client_is_gone() -> None:
    tickets: list[Ticket] = []

    def park(_: GroupShard, ticket: Ticket) -> Decision:
        tickets.append(ticket)
        return Decision()

    bench = Bench()
    task: Any = bench.coordinator.submit("g", park)
    running = bench.tasks.start(task)
    assert not tickets[0].is_gone
    running.cancel()
    assert tickets[0].is_gone
    bench.ask(lambda _, ticket: Decision([], [(tickets[0], read(1)), (ticket, read(2))]))
    bench.run()
    assert len(bench.tasks) == 0


# The high watermark


def test_replies_wait_for_the_high_watermark_reads_too() -> None:
    bench = Bench(lambda partition: setattr(partition, "holds", True))
    first, second = bench.commit(7), bench.ask(reading)
    bench.time.advance(TIMEOUT_MS - 1)
    assert (first, second) == ([], [])
    bench.partition.release()
    bench.run()
    assert (first, second) == ([row(0)], [read(7)])
    bench.time.advance(TIMEOUT_MS)
    assert (first, second) == ([row(0)], [read(7)])


def test_a_commit_not_replicated_in_time_makes_the_client_retry() -> None:
    bench = Bench(lambda partition: setattr(partition, "holds", True))
    heard = bench.commit(7)
    bench.time.advance(TIMEOUT_MS)
    assert heard == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    bench.partition.release()
    bench.run()
    assert heard == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert bench.ask(reading) == [read(7)]


def test_a_commit_without_followers_fails_at_once() -> None:
    bench = Bench(lambda partition: setattr(partition, "holds", True))
    heard = bench.commit(7)
    bench.run()
    assert heard == []
    bench.partition.fail_waiting_appends()
    bench.run()
    assert heard == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_too_few_in_sync_after_a_write_make_clients_retry() -> None:
    bench = Bench(lambda partition: setattr(partition, "holds", True))
    commit, reads = bench.commit(7), bench.ask(reading)
    bench.partition.is_short = True
    bench.partition.release()
    bench.run()
    assert commit == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert reads == [read(7)], "the offset is in the log, and every replica of the set has it"


def test_too_few_in_sync_when_a_thread_has_written() -> None:
    bench = Bench(lambda partition: setattr(partition, "is_slow", True))
    commit = bench.commit(7)
    bench.partition.is_short = True
    bench.partition.finish_write()
    bench.run()
    assert commit == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert bench.offset() == 7


# Failing appends


@pytest.mark.parametrize(
    "code, told",
    [
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_errors_of_the_log_are_told_as_kafka_tells_them(code: ErrorCode, told: ErrorCode) -> None:
    assert translated(KafkaError(code)).code is told


def test_a_failed_append_changes_nothing() -> None:
    bench = Bench()
    bench.commit(7)
    bench.partition.fails = STORAGE_ERROR
    undone: list[bool] = []

    def decide(shard: GroupShard, ticket: Ticket) -> Decision:
        decision = committing(8)(shard, ticket)
        decision.failed = lambda: undone.append(True)
        return decision

    shard = bench.shard
    assert bench.ask(decide) == [ErrorCode.NOT_COORDINATOR]
    assert undone == [True]
    assert bench.offset() == 7
    assert bench.shard is shard
    bench.partition.fails = None
    assert bench.commit(9) == [row(0)]
    assert bench.offset() == 9


def test_who_was_parked_hears_of_the_failure_too() -> None:
    tickets: list[Ticket] = []

    def park(_: GroupShard, ticket: Ticket) -> Decision:
        tickets.append(ticket)
        return Decision()

    bench = Bench()
    parked = bench.ask(park)
    bench.partition.fails = STORAGE_ERROR
    bench.ask(lambda shard, ticket: Decision(committing(1)(shard, ticket).records, [(tickets[0], read(1))]))
    bench.run()
    assert parked == [ErrorCode.NOT_COORDINATOR]


def test_what_is_in_the_log_in_spite_of_a_failure_is_loaded_from_it() -> None:
    bench = Bench()
    bench.commit(7)
    bench.partition.fails, bench.partition.tears = STORAGE_ERROR, True
    assert bench.commit(8) == [ErrorCode.NOT_COORDINATOR]
    bench.partition.fails = None
    assert bench.ask(reading) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    bench.run()
    assert bench.ask(reading) == [read(8)]


def test_what_cannot_be_replayed_is_loaded_from_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    shard = bench.shard

    def replay(*_: object) -> None:
        raise RuntimeError("a fault of a machine")

    monkeypatch.setattr(shard, "replay", replay)
    heard = bench.commit(7)
    bench.run()
    assert heard == [ErrorCode.NOT_COORDINATOR]
    assert bench.offset() == 7
    assert bench.shard is not shard


# Staged with the round's others


def test_commits_of_a_turn_are_written_together() -> None:
    bench = Bench()
    bench.commit(1)
    assert [bench.stage(2), bench.stage(3, "h"), bench.stage(4)] == [[row(0)]] * 3
    assert (bench.offset(), bench.offset("h")) == (4, 3)
    assert len(bench.partition.log.batches) == 1
    bench.batcher.write_all()
    assert len(bench.partition.log.batches) == 4


def test_a_staged_write_that_fails_takes_back_answers_and_state() -> None:
    bench = Bench()
    bench.commit(1)
    (first,), (second,) = bench.stage(2), bench.stage(3)
    bench.partition.fails = STORAGE_ERROR
    bench.batcher.write_all()
    assert (first, second) == (row(ErrorCode.NOT_COORDINATOR), row(ErrorCode.NOT_COORDINATOR))
    assert bench.ask(reading) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    bench.partition.fails = None
    bench.run()
    assert bench.ask(reading) == [read(1)]


def test_a_tick_that_writes_takes_staged_commits_with_it_into_failure() -> None:
    bench = Bench()
    (first,) = bench.stage(2)
    bench.partition.fails = STORAGE_ERROR
    bench.coordinator.decide_alone("g", committing(3))
    bench.batcher.write_all()
    assert first == row(ErrorCode.NOT_COORDINATOR)
    bench.partition.fails = None
    bench.run()
    assert bench.offset() is None


def test_a_reply_to_somebody_else_is_not_staged() -> None:
    tickets: list[Ticket] = []

    def park(_: GroupShard, ticket: Ticket) -> Decision:
        tickets.append(ticket)
        return Decision()

    bench = Bench()
    bench.ask(park)
    bench.ask(
        lambda shard, ticket: Decision(committing(1)(shard, ticket).records, [(tickets[0], row(0)), (ticket, row(0))]),
        failure_response=refused,
    )
    assert not bench.batcher.is_open
    assert len(bench.partition.log.batches) == 1


# A slow disk


def test_while_a_thread_writes_later_decisions_wait_in_order() -> None:
    bench = Bench(lambda partition: setattr(partition, "is_slow", True))
    heard = [bench.commit(1), bench.ask(reading), bench.commit(2), bench.ask(reading)]
    bench.run()
    assert heard == [[], [], [], []]
    bench.partition.finish_write()
    bench.run()
    assert heard == [[row(0)], [read(1)], [], []]
    bench.partition.finish_write()
    bench.run()
    assert heard == [[row(0)], [read(1)], [row(0)], [read(2)]]


def test_a_write_of_a_thread_that_fails_changes_nothing() -> None:
    bench = Bench(lambda partition: setattr(partition, "is_slow", True))
    heard = [bench.commit(1), bench.ask(reading)]
    bench.partition.fails = STORAGE_ERROR
    bench.partition.finish_write()
    bench.run()
    assert heard == [[ErrorCode.NOT_COORDINATOR], [read(-1)]]


def test_a_fault_in_one_that_waited_stops_no_other() -> None:
    def fails(_: GroupShard, __: Ticket) -> Decision:
        raise RuntimeError("a fault of a machine")

    bench = Bench(lambda partition: setattr(partition, "is_slow", True))
    heard = [bench.commit(1), bench.ask(fails), bench.ask(reading)]
    bench.partition.finish_write()
    bench.run()
    assert heard == [[row(0)], [ErrorCode.UNKNOWN_SERVER_ERROR], [read(1)]]


def test_a_writer_that_refuses_at_once_refuses_however_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def append(self, _: memoryview, __: int, ___: int, done: Callable[[Any], None], **____: object) -> None:
            done(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the disk is slow"))

    bench = Bench(lambda partition: setattr(partition, "is_slow", True))
    heard = [bench.commit(offset) for offset in range(1_000)]
    with monkeypatch.context() as full:
        full.setattr(bench.partition, "writer", Full)
        bench.partition.finish_write()
    bench.run()
    assert heard[0] == [row(0)]
    assert {code for each in heard[1:] for code in each} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    after = bench.commit(7)
    bench.partition.finish_write()
    bench.run()
    assert (after, bench.offset()) == ([row(0)], 7)


def test_no_more_than_a_limit_wait_for_a_slow_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.gateway.coordinator.coordinator.MAX_QUEUED", 2)
    bench = Bench(lambda partition: setattr(partition, "is_slow", True))
    heard = [bench.commit(offset) for offset in range(4)]
    assert heard == [[], [], [], [ErrorCode.COORDINATOR_NOT_AVAILABLE]]
    bench.partition.is_slow = False
    bench.partition.finish_write()
    bench.run()
    assert heard[:3] == [[row(0)]] * 3
    assert bench.offset() == 2


def test_a_stop_while_a_thread_writes_is_told_to_all_who_wait() -> None:
    bench = Bench(lambda partition: setattr(partition, "is_slow", True))
    heard = [bench.commit(1), bench.ask(reading)]
    bench.coordinator.close()
    bench.run()
    assert heard == [[ErrorCode.NOT_COORDINATOR], [ErrorCode.NOT_COORDINATOR]]
    bench.partition.finish_write()
    bench.run()
    assert heard == [[ErrorCode.NOT_COORDINATOR], [ErrorCode.NOT_COORDINATOR]]


# Time


class Ticking(ClassicGroup):
    """A group that says when it wants to be ticked, and writes an offset then."""

    def __init__(self, due_ms: float) -> None:
        super().__init__("g")
        self.due_ms = due_ms
        self.ticks: list[float] = []

    def tick(self, shard: GroupShard, now_ms: float) -> Decision:
        self.ticks.append(now_ms)
        self.due_ms = NEVER
        return Decision([(OffsetCommitKey("g", "t", 0), OffsetCommitValue(int(now_ms), -1, "", 1))])


def with_group(group: Ticking) -> Callable[[GroupShard, Ticket], Decision]:
    def decide(shard: GroupShard, ticket: Ticket) -> Decision:
        put(shard, "g", group)
        return Decision.reply(ticket, read(0))

    return decide


def put(shard: GroupShard, name: str, group: Ticking) -> None:
    shard.groups[name] = group
    ticks = {type(group): lambda shard, group, now_ms: group.tick(shard, now_ms)}
    shard.functions = shard.functions._replace(ticks=ticks)


def test_a_group_is_ticked_when_it_is_due() -> None:
    bench, group = Bench(), Ticking(100.0)
    bench.ask(with_group(group))
    bench.time.advance(99)
    assert group.ticks == []
    group.due_ms = 150.0  # later than it said: the tick may come too early
    bench.time.advance(1)
    assert group.ticks == [100.0]
    assert bench.offset() == 100
    bench.time.advance(1_000)
    assert group.ticks == [100.0]


def test_a_group_that_becomes_due_sooner_is_ticked_sooner() -> None:
    bench, group = Bench(), Ticking(1_000.0)
    bench.ask(with_group(group))
    group.due_ms = 50.0
    bench.ask(reading)
    bench.time.advance(50)
    assert group.ticks == [50.0]


def test_what_no_record_can_hold_is_refused_like_a_failed_write() -> None:
    """Whoever waits must hear of it, and what the decision changed is put right."""
    failures: list[int] = []

    def decide(_: GroupShard, ticket: Ticket) -> Decision:
        too_long = OffsetCommitKey("g", "t" * 40_000, 0), OffsetCommitValue(1, -1, "", 1)
        return Decision([too_long], [(ticket, row(0))], failed=lambda: failures.append(1))

    bench = Bench()
    assert bench.ask(decide) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert failures == [1]
    assert bench.commit(7) == [row(0)]


def test_many_groups_that_are_due_leave_turns_to_others() -> None:
    bench = Bench()

    class Slow(Ticking):
        def tick(self, shard: GroupShard, now_ms: float) -> Decision:
            bench.time.clock.elapsed_ms += 0.6
            return super().tick(shard, now_ms)

    groups = {f"g{number}": Slow(100.0) for number in range(10)}
    for name, group in groups.items():
        put(bench.shard, name, group)
        bench.ask(reading, name)
    bench.time.clock.elapsed_ms = 100.0
    for turn in range(1, 6):
        bench.time.scheduler.run_due()
        assert sum(len(group.ticks) for group in groups.values()) == 2 * turn


def test_a_tick_that_cannot_be_written_is_tried_again() -> None:
    bench, group = Bench(), Ticking(100.0)
    bench.ask(with_group(group))
    bench.partition.fails = STORAGE_ERROR
    bench.time.advance(100)
    assert bench.offset() is None
    bench.partition.fails = None
    bench.time.advance(TICK_RETRY_MS)
    assert bench.offset() == 100 + TICK_RETRY_MS


def test_a_tick_that_raises_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    bench, group = Bench(), Ticking(100.0)
    bench.ask(with_group(group))
    tick = group.tick
    group.tick = lambda *_: 1 / 0  # type: ignore[method-assign,assignment]
    bench.time.advance(100)
    assert "the tick of group 'g' failed" in caplog.text
    group.tick = tick  # type: ignore[method-assign]
    bench.time.advance(TICK_RETRY_MS)
    assert group.ticks == [100 + TICK_RETRY_MS]


def test_ticks_wait_for_the_thread_that_writes() -> None:
    bench, group = Bench(), Ticking(100.0)
    bench.ask(with_group(group))
    bench.partition.is_slow = True
    bench.commit(1)
    bench.time.advance(100)
    assert group.ticks == []
    bench.partition.is_slow = False
    bench.partition.finish_write()
    bench.run()
    assert group.ticks == [100.0]


def test_after_the_end_nothing_is_ticked() -> None:
    bench, group = Bench(), Ticking(100.0)
    bench.ask(with_group(group))
    bench.coordinator.close()
    bench.time.advance(100)
    assert group.ticks == []


# Many decisions, one after another


def _run_each(bench: Bench, count: int) -> list[KafkaError | None]:
    """The errors with which commits of `count` groups have ended."""
    ended: list[KafkaError | None] = []
    decisions = (
        Decision([(OffsetCommitKey(str(one), "t", 0), OffsetCommitValue(one, -1, "", 1))]) for one in range(count)
    )
    bench.coordinator.run_each(bench.shard, decisions, ended.append)
    return ended


def test_many_decisions_end_once_all_are_committed() -> None:
    bench = Bench()
    bench.partition.holds = True
    ended = _run_each(bench, 3)
    bench.run()
    assert ended == []
    bench.partition.holds = False
    bench.partition.release()
    bench.run()
    assert (ended, bench.offset("2")) == ([None], 2)


def test_many_decisions_go_on_after_one_that_is_refused() -> None:
    bench = Bench()
    bench.partition.fails = STORAGE_ERROR
    ended = _run_each(bench, 3)
    bench.partition.fails = None
    bench.time.advance(TICK_RETRY_MS)
    bench.run()
    assert [one and one.message for one in ended] == [STORAGE_ERROR.message]
    assert [bench.offset(group) for group in "012"] == [None, 1, 2]


def test_many_decisions_end_with_their_shard() -> None:
    bench = Bench()
    bench.partition.is_slow = True
    ended = _run_each(bench, 3)
    bench.cut()
    bench.partition.finish_write()
    bench.run()
    bench.time.advance(TICK_RETRY_MS)
    bench.run()
    assert [one and one.code for one in ended] == [ErrorCode.NOT_COORDINATOR]
