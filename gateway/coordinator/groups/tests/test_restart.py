"""The coordinator of one partition from its log: loading, stopping, and killed after any batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headgate.gateway.coordinator.coordinator import LOAD_RETRY_MS
from headgate.gateway.coordinator.decision import NEVER, Decision, RequestContext, Ticket
from headgate.gateway.coordinator.groups.classic import requests
from headgate.gateway.coordinator.groups.classic.requests import ClassicGroup
from headgate.gateway.coordinator.groups.consumer import heartbeats
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.coordinator.groups.tests.groups import persistent_state
from headgate.gateway.coordinator.tests.coordinator_bench import Bench, read, reading
from headgate.gateway.tests.scripted import ScriptedPartition
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headgate.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from headgate.protocol.records import legacy
from headgate.protocol.records.batch import iterate


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
    assert bench.coordinator.shard is None
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


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("magic", [0, 1])
def test_what_apache_kafka_left_in_an_old_format_is_loaded(magic: int, codec: int) -> None:
    def adopted(partition: ScriptedPartition) -> None:
        filled(4)(partition)
        log = partition.log
        sets = [legacy.build(iterate(memoryview(one)), magic, codec=codec) for one in log.batches[:2]]
        log.batches[:2] = [bytes(one) for one in sets]
        log.batches_a_segment = 3

    bench = Bench(adopted)
    bench.run()
    ((work, done),) = bench.threads
    bench.threads.clear()
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

    def tick(group: ClassicGroup, _: GroupShard, __: float) -> Decision:
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
    now_ms, request_context = bench.time.clock.monotonic_ms, RequestContext("c", "/192.0.2.9", 5)
    joined: list[str] = []

    def join(member_id: str = "") -> JoinGroupRequest:
        return JoinGroupRequest(
            "classic", 10_000, 60_000, member_id, None, "consumer", [JoinGroupRequestProtocol("range", b"wants")]
        )

    def beat(member_id: str, epoch: int, **options: Any) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest("new", member_id, epoch, **options)

    def put(decide: Callable[[GroupShard, Ticket], Decision], group: str) -> Any:
        heard = bench.ask(decide, group)
        bench.run()
        return heard[0] if heard else None

    for _ in range(2):
        given = put(lambda shard, ticket: requests.join(shard, join(), request_context, ticket, now_ms()), "classic")
        yield
        joined.append(given.member_id)
    for member_id in joined:
        put(lambda shard, ticket: requests.join(shard, join(member_id), request_context, ticket, now_ms()), "classic")  # noqa: B023
        bench.time.advance(3_000)
        yield
    rows = [SyncGroupRequestAssignment(joined[0], b"all")]
    request = SyncGroupRequest("classic", 1, joined[0], assignments=rows)
    put(lambda shard, ticket: requests.sync(shard, request, request_context, ticket, now_ms()), "classic")
    yield
    for member_id in "ab":
        first = beat(member_id, 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[])
        put(lambda shard, ticket: heartbeats.heartbeat(shard, first, request_context, ticket, now_ms()), "new")  # noqa: B023
        yield
        bench.commit(len(member_id), "simple")
        yield
    put(lambda shard, ticket: heartbeats.heartbeat(shard, beat("a", -1), request_context, ticket, now_ms()), "new")
    yield
    for _ in range(4):  # sessions end
        bench.time.advance(20_000)
        yield


def test_groups_of_both_kinds_survive_a_kill_after_any_batch() -> None:
    """After every step and any prefix of the log, what is loaded is what was live then."""
    live = Bench()
    states = {0: persistent_state(live.shard)}
    for _ in _scenario(live):
        states[len(live.partition.log.batches)] = persistent_state(live.shard)
    assert len(states) > 8
    for batches, state in states.items():

        def cut(partition: ScriptedPartition, batches: int = batches) -> None:
            for batch in live.partition.log.batches[:batches]:
                partition.log.write(batch)
            partition.high_watermark = partition.log.end_offset

        bench = Bench(cut)
        bench.run()
        assert persistent_state(bench.shard) == state


def test_a_log_that_is_cut_while_it_is_loaded_is_loaded_again() -> None:
    """What was read of it may be gone."""

    def cold(partition: ScriptedPartition) -> None:
        filled(3)(partition)
        partition.log.is_warm = False

    bench = Bench(cold)
    bench.run()
    ((work, done),) = bench.threads
    bench.threads.clear()
    read_before = work()
    del bench.partition.log.batches[1:]
    bench.partition.log.end_offset = bench.partition.high_watermark = 1
    bench.partition.log.is_warm = True
    bench.cut()
    done(read_before)
    bench.run()
    assert bench.ask(reading) == [read(0)]
