"""The coordinator of one partition: what is replayed, when replies go out, and what happens if the disk fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, cast

import pytest

from gateway.coordinator import classic, consumer
from gateway.coordinator.classic import ClassicGroup
from gateway.coordinator.coordinator import LOAD_RETRY_MS, TICK_RETRY_MS, Coordinator, Tools, translated
from gateway.coordinator.decision import Caller, Decision, Ticket
from gateway.coordinator.groups import NEVER, Shard
from gateway.coordinator.settings import GroupSettings
from gateway.coordinator.slices import Slices
from gateway.replication.appends import Appends
from gateway.replication.partition import Partition
from gateway.tests.groups import FakeTopics, hard
from gateway.tests.manual import ManualTime
from gateway.tests.scripted import STORAGE_ERROR, ScriptedPartition
from gateway.waiting import Purgatory, Waiting
from protocol.errors import ErrorCode, KafkaError
from protocol.internal.offsets import OffsetCommitKey, OffsetCommitValue
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.heartbeat import HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

TIMEOUT_MS = 5_000


class Bench:
    """A coordinator over a scripted partition, and what its clients hear."""

    def __init__(self, prepare: Callable[[ScriptedPartition], None] = lambda _: None) -> None:
        self.time = ManualTime()
        clock, scheduler = self.time.clock, self.time.scheduler
        self.purgatory = Purgatory(clock, scheduler)
        self.partition = ScriptedPartition(self.purgatory)
        self.appends = Appends()
        self.threads: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        scheduler.in_thread = lambda work, done: self.threads.append((work, done))  # type: ignore[method-assign]
        prepare(self.partition)
        slices = Slices(clock, scheduler)
        tools = Tools(clock, scheduler, self.purgatory, self.appends, slices, TIMEOUT_MS, 1 << 20, 0)
        self.coordinator = Coordinator(cast("Partition", self.partition), tools, self._shard)

    def _shard(self) -> Shard:
        return Shard(GroupSettings(), FakeTopics({"t": 1}), Random(0), self.time.clock.now_ms)

    @property
    def shard(self) -> Shard:
        shard = self.coordinator.shard
        assert shard is not None
        return shard

    def ask(self, decide: Callable[[Shard, Ticket], Decision], group: str = "g", **options: Any) -> list[Any]:
        """Put a request; returns what its client hears, in time, as a list that holds one reply in the end."""
        heard: list[Any] = []
        try:
            outcome = self.coordinator.submit(group, decide, **options)
        except KafkaError as error:
            return [error.code]
        if isinstance(outcome, Waiting):
            self.purgatory.park(
                outcome, lambda reply: heard.append(reply.code if isinstance(reply, KafkaError) else reply)
            )
        else:
            heard.append(outcome)
        return heard

    def commit(self, offset: int, group: str = "g") -> list[Any]:
        return self.ask(committing(offset, group), group)

    def stage(self, offset: int, group: str = "g") -> list[Any]:
        """A commit whose write is left to the end of the turn."""
        return self.ask(committing(offset, group), group, lost=refused)

    def offset(self, group: str = "g") -> int | None:
        value = self.shard.offsets.of(group).get(("t", 0))
        return None if value is None else value.offset

    def run(self) -> None:
        """Let everything happen that needs no time."""
        for _ in range(4):
            self.time.advance()


def row(code: int) -> OffsetCommitResponse:
    partitions = [OffsetCommitResponsePartition(0, code)]
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic("t", partitions=partitions)])


def refused(code: ErrorCode) -> OffsetCommitResponse:
    return row(code)


def committing(offset: int, group: str = "g") -> Callable[[Shard, Ticket], Decision]:
    records = [(OffsetCommitKey(group, "t", 0), OffsetCommitValue(offset, -1, "", 1))]
    return lambda _, ticket: Decision(list(records), [(ticket, row(0))])


def reading(shard: Shard, ticket: Ticket) -> Decision:
    value = shard.offsets.of("g").get(("t", 0))
    return Decision.reply(ticket, HeartbeatResponse(throttle_time_ms=-1 if value is None else value.offset))


def read(offset: int) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time_ms=offset)


# The way of a decision


def test_what_is_written_at_once_is_answered_at_once() -> None:
    bench = Bench()
    assert bench.commit(7) == [row(0)]
    assert bench.offset() == 7
    assert bench.partition.appended == 1
    assert bench.ask(reading) == [read(7)]
    assert bench.partition.appended == 1


def test_a_refusal_of_the_machine_writes_nothing() -> None:
    def decide(_: Shard, __: Ticket) -> Decision:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    bench = Bench()
    assert bench.ask(decide) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert bench.ask(lambda _, ticket: Decision.refuse(ticket, ErrorCode.ILLEGAL_GENERATION)) == [
        ErrorCode.ILLEGAL_GENERATION
    ]
    assert bench.partition.log.batches == []


def test_a_parked_ticket_is_answered_by_a_later_decision() -> None:
    tickets: list[Ticket] = []

    def park(_: Shard, ticket: Ticket) -> Decision:
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

    def park(_: Shard, ticket: Ticket) -> Decision:
        tickets.append(ticket)
        return Decision()

    bench = Bench()
    waiting = bench.coordinator.submit("g", park)
    bench.purgatory.park(waiting, lambda _: None)
    assert not tickets[0].is_gone
    bench.purgatory.abandon(waiting)
    assert tickets[0].is_gone
    bench.ask(lambda _, ticket: Decision([], [(tickets[0], read(1)), (ticket, read(2))]))
    bench.run()
    assert len(bench.purgatory) == 0


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


def test_a_commit_that_is_not_replicated_in_time_makes_the_client_try_again() -> None:
    bench = Bench(lambda partition: setattr(partition, "holds", True))
    heard = bench.commit(7)
    bench.time.advance(TIMEOUT_MS)
    assert heard == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    bench.partition.release()
    bench.run()
    assert heard == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert bench.ask(reading) == [read(7)]


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

    def decide(shard: Shard, ticket: Ticket) -> Decision:
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

    def park(_: Shard, ticket: Ticket) -> Decision:
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
    bench.appends.commit()
    assert len(bench.partition.log.batches) == 4


def test_a_staged_write_that_fails_takes_back_answers_and_state() -> None:
    bench = Bench()
    bench.commit(1)
    (first,), (second,) = bench.stage(2), bench.stage(3)
    bench.partition.fails = STORAGE_ERROR
    bench.appends.commit()
    assert (first, second) == (row(ErrorCode.NOT_COORDINATOR), row(ErrorCode.NOT_COORDINATOR))
    assert bench.ask(reading) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    bench.partition.fails = None
    bench.run()
    assert bench.ask(reading) == [read(1)]


def test_a_tick_that_writes_takes_staged_commits_with_it_into_failure() -> None:
    bench = Bench()
    (first,) = bench.stage(2)
    bench.partition.fails = STORAGE_ERROR
    bench.coordinator.run("g", committing(3))
    bench.appends.commit()
    assert first == row(ErrorCode.NOT_COORDINATOR)
    bench.partition.fails = None
    bench.run()
    assert bench.offset() is None


def test_a_reply_to_somebody_else_is_not_staged() -> None:
    tickets: list[Ticket] = []

    def park(_: Shard, ticket: Ticket) -> Decision:
        tickets.append(ticket)
        return Decision()

    bench = Bench()
    bench.ask(park)
    bench.ask(
        lambda shard, ticket: Decision(committing(1)(shard, ticket).records, [(tickets[0], row(0)), (ticket, row(0))]),
        lost=refused,
    )
    assert not bench.appends.is_open
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
    def fails(_: Shard, __: Ticket) -> Decision:
        raise RuntimeError("a fault of a machine")

    bench = Bench(lambda partition: setattr(partition, "is_slow", True))
    heard = [bench.commit(1), bench.ask(fails), bench.ask(reading)]
    bench.partition.finish_write()
    bench.run()
    assert heard == [[row(0)], [ErrorCode.UNKNOWN_SERVER_ERROR], [read(1)]]


def test_a_writer_that_refuses_at_once_refuses_however_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def append(self, _: memoryview, __: int, ___: int, done: Callable[[Any], None]) -> None:
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
    monkeypatch.setattr("gateway.coordinator.coordinator.MAX_QUEUED", 2)
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

    def tick(self, shard: Shard, now_ms: float) -> Decision:
        self.ticks.append(now_ms)
        self.due_ms = NEVER
        return Decision([(OffsetCommitKey("g", "t", 0), OffsetCommitValue(int(now_ms), -1, "", 1))])


def with_group(group: Ticking) -> Callable[[Shard, Ticket], Decision]:
    def decide(shard: Shard, ticket: Ticket) -> Decision:
        shard.groups["g"] = group
        return Decision.reply(ticket, read(0))

    return decide


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


def test_what_no_record_can_hold_is_refused_as_if_it_could_not_be_written() -> None:
    """Whoever waits must hear of it, and what the decision changed is put right."""
    failures: list[int] = []

    def decide(_: Shard, ticket: Ticket) -> Decision:
        too_long = OffsetCommitKey("g", "t" * 40_000, 0), OffsetCommitValue(1, -1, "", 1)
        return Decision([too_long], [(ticket, row(0))], failed=lambda: failures.append(1))

    bench = Bench()
    assert bench.ask(decide) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert failures == [1]
    assert bench.commit(7) == [row(0)]


def test_many_groups_that_are_due_leave_turns_to_others() -> None:
    bench = Bench()

    class Slow(Ticking):
        def tick(self, shard: Shard, now_ms: float) -> Decision:
            bench.time.clock.elapsed_ms += 0.6
            return super().tick(shard, now_ms)

    groups = {f"g{number}": Slow(100.0) for number in range(10)}
    for name, group in groups.items():
        bench.shard.groups[name] = group
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
    assert "group 'g' cannot be ticked" in caplog.text
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


# Loading


def filled(count: int) -> Callable[[ScriptedPartition], None]:
    """A log of so many commits, offset 0 first."""
    source = Bench()
    for offset in range(count):
        source.commit(offset)

    def prepare(partition: ScriptedPartition) -> None:
        for batch in source.partition.log.batches:
            partition.log.write(batch)
        partition.high_watermark = partition.log.end_offset

    return prepare


def test_until_it_is_loaded_clients_come_again() -> None:
    bench = Bench(filled(3))
    assert not bench.coordinator.is_loaded
    assert bench.ask(reading) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    bench.run()
    assert bench.ask(reading) == [read(2)]


def test_what_is_not_in_memory_is_read_by_a_thread() -> None:
    def cold(partition: ScriptedPartition) -> None:
        filled(4)(partition)
        partition.log.is_warm = False
        partition.log.batches_a_segment = 2

    bench = Bench(cold)
    for _ in range(2):
        bench.run()
        ((work, done),) = bench.threads
        bench.threads.clear()
        assert bench.ask(reading) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        done(work())
    bench.run()
    assert bench.ask(reading) == [read(3)]


def test_a_log_that_cannot_be_read_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    def broken(partition: ScriptedPartition) -> None:
        filled(2)(partition)
        partition.log.is_warm = False

    bench = Bench(broken)
    bench.run()
    ((_, done),) = bench.threads
    bench.threads.clear()
    done(OSError(5, "Input/output error"))
    assert bench.ask(reading) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert "cannot be loaded, and is tried again" in caplog.text
    bench.partition.log.is_warm = True
    bench.time.advance(LOAD_RETRY_MS)
    assert bench.ask(reading) == [read(1)]


def test_sessions_begin_anew_when_a_shard_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simple group has no clock; that `loaded` is called on it, and its due time noted, is seen by a tick."""

    def loaded(group: ClassicGroup, now_ms: float) -> None:
        group.due_ms = now_ms + 10

    def tick(group: ClassicGroup, _: Shard, __: float) -> Decision:
        group.due_ms = NEVER
        ticked.append(group.group_id)
        return Decision()

    ticked: list[str] = []
    monkeypatch.setattr(ClassicGroup, "loaded", loaded)
    monkeypatch.setattr(ClassicGroup, "tick", tick)
    bench = Bench(filled(1))
    bench.run()
    bench.time.advance(10)
    assert ticked == ["g"]


def test_the_end_while_it_is_loaded() -> None:
    bench = Bench(filled(3))
    bench.coordinator.close()
    bench.run()
    assert bench.ask(reading) == [ErrorCode.NOT_COORDINATOR]


def test_a_stop_answers_all_who_wait() -> None:
    bench = Bench(lambda partition: setattr(partition, "holds", True))
    parked, committed = bench.ask(lambda *_: Decision()), bench.commit(1)
    bench.purgatory.expire_all()
    bench.run()
    assert (parked, committed) == ([ErrorCode.NOT_COORDINATOR], [ErrorCode.COORDINATOR_NOT_AVAILABLE])
    assert len(bench.purgatory) == 0


@pytest.mark.parametrize("batches", range(6))
def test_state_survives_a_kill_after_any_batch(batches: int) -> None:
    """The log ends after so many batches: what is loaded is what was live then."""
    live = Bench()
    states: list[dict[str, int | None]] = [{}]
    for number in range(5):
        live.commit(number, "gh"[number % 2])
        states.append({group: live.offset(group) for group in live.shard.offsets.groups})

    def cut(partition: ScriptedPartition) -> None:
        for batch in live.partition.log.batches[:batches]:
            partition.log.write(batch)
        partition.high_watermark = partition.log.end_offset

    bench = Bench(cut)
    bench.run()
    assert {group: bench.offset(group) for group in bench.shard.offsets.groups} == states[batches]


def _scenario(bench: Bench) -> Iterator[None]:
    """Groups of both kinds at work, one request a step."""
    now_ms, caller = bench.time.clock.monotonic_ms, Caller("c", "/192.0.2.9", 5)
    joined: list[str] = []

    def join(member_id: str = "") -> JoinGroupRequest:
        return JoinGroupRequest(
            "classic", 10_000, 60_000, member_id, None, "consumer", [JoinGroupRequestProtocol("range", b"wants")]
        )

    def beat(member_id: str, epoch: int, **options: Any) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest("new", member_id, epoch, **options)

    def put(decide: Callable[[Shard, Ticket], Decision], group: str) -> Any:
        heard = bench.ask(decide, group)
        bench.run()
        return heard[0] if heard else None

    for _ in range(2):
        given = put(lambda shard, ticket: classic.join(shard, join(), caller, ticket, now_ms()), "classic")
        yield
        joined.append(given.member_id)
    for member_id in joined:
        put(lambda shard, ticket: classic.join(shard, join(member_id), caller, ticket, now_ms()), "classic")  # noqa: B023
        bench.time.advance(3_000)
        yield
    rows = [SyncGroupRequestAssignment(joined[0], b"all")]
    request = SyncGroupRequest("classic", 1, joined[0], assignments=rows)
    put(lambda shard, ticket: classic.sync(shard, request, caller, ticket, now_ms()), "classic")
    yield
    for member_id in "ab":
        first = beat(member_id, 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[])
        put(lambda shard, ticket: consumer.heartbeat(shard, first, caller, ticket, now_ms()), "new")  # noqa: B023
        yield
        bench.commit(len(member_id), "simple")
        yield
    put(lambda shard, ticket: consumer.heartbeat(shard, beat("a", -1), caller, ticket, now_ms()), "new")
    yield
    for _ in range(4):  # sessions end
        bench.time.advance(20_000)
        yield


def test_groups_of_both_kinds_survive_a_kill_after_any_batch() -> None:
    """After every step and any prefix of the log, what is loaded is what was live then."""
    live = Bench()
    states = {0: hard(live.shard)}
    for _ in _scenario(live):
        states[len(live.partition.log.batches)] = hard(live.shard)
    assert len(states) > 8
    for batches, state in states.items():

        def cut(partition: ScriptedPartition, batches: int = batches) -> None:
            for batch in live.partition.log.batches[:batches]:
                partition.log.write(batch)
            partition.high_watermark = partition.log.end_offset

        bench = Bench(cut)
        bench.run()
        assert hard(bench.shard) == state
