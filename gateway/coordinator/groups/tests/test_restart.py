"""The coordinator of one partition from its log: loading, stopping, and killed after any batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headgate.gateway.coordinator.decision import NEVER, Decision, RequestContext, Ticket
from headgate.gateway.coordinator.groups.classic import requests
from headgate.gateway.coordinator.groups.classic.requests import ClassicGroup
from headgate.gateway.coordinator.groups.consumer import heartbeats
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.coordinator.groups.tests.groups import persistent_state
from headgate.gateway.coordinator.tests.coordinator_bench import Bench, reading
from headgate.gateway.coordinator.tests.test_shard_loader import filled
from headgate.gateway.tests.scripted import ScriptedPartition
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headgate.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment


def test_sessions_begin_anew_when_a_shard_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simple group has no clock; that `loaded` is called on it, and its due time noted, is seen by a tick."""

    def loaded(group: ClassicGroup, now_ms: float) -> None:
        group.due_ms = now_ms + 10

    def tick(shard: GroupShard, group_id: str, _: float) -> Decision:
        shard.groups[group_id].due_ms = NEVER
        ticked.append(group_id)
        return Decision()

    ticked: list[str] = []
    monkeypatch.setattr(ClassicGroup, "loaded", loaded)
    monkeypatch.setattr(GroupShard, "tick", tick)
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
    bench.tasks.expire_all()
    bench.run()
    assert (parked, committed) == ([ErrorCode.NOT_COORDINATOR], [ErrorCode.COORDINATOR_NOT_AVAILABLE])
    assert len(bench.tasks) == 0


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
