"""A shard: who replays which record, ids by chance, which group is due when; and the desk of the machines' tests."""

from __future__ import annotations

import pytest

from headgate.gateway.coordinator.decision import NEVER, Decision
from headgate.gateway.coordinator.groups.classic.requests import ClassicGroup
from headgate.gateway.coordinator.groups.group_shard import Group, GroupShard
from headgate.gateway.coordinator.groups.tests.groups import Desk, FakeTopics, topic_id
from headgate.protocol.internal.offsets import (
    OffsetCommitKey,
    OffsetCommitValue,
)
from headgate.protocol.messages.heartbeat import HeartbeatRequest

COMMITTED = OffsetCommitValue(7, -1, "", 1)


# Replay


def test_offsets_alone_make_a_group_and_an_end_of_them_does_not() -> None:
    shard = Desk().shard
    shard.replay(OffsetCommitKey("g", "t", 0), None, 1)
    assert shard.groups == {}
    shard.replay(OffsetCommitKey("g", "t", 0), COMMITTED, 1)
    group = shard.groups["g"]
    assert (group.state, group.protocol_type) == ("Empty", "")
    shard.replay(OffsetCommitKey("g", "t", 1), COMMITTED, 1)
    assert shard.groups["g"] is group


def test_a_record_that_no_machine_takes() -> None:
    with pytest.raises(ValueError, match="HeartbeatRequest"):
        Desk().shard.replay(HeartbeatRequest(), None, 1)


# Ids and settings


def test_ids_are_made_of_the_shards_own_chance() -> None:
    first, second = Desk(seed=1).shard, Desk(seed=1).shard
    ids = [first.new_member_id("consumer") for _ in range(3)]
    assert ids == [second.new_member_id("consumer") for _ in range(3)]
    assert len(set(ids)) == 3
    assert all(each.startswith("consumer-") and len(each) == len("consumer-") + 36 for each in ids)
    assert first.new_uuid().version == 4


def test_a_group_may_have_settings_of_its_own() -> None:
    shard = Desk(configs={"g": {"consumer.session.timeout.ms": "50000"}}).shard
    assert shard.settings_of("g").consumer_session_timeout_ms == 50_000
    assert shard.settings_of("h") is shard.settings


# Time


def due(shard: GroupShard, **groups: float) -> None:
    """Groups that want a tick at these moments."""
    for group_id, when_ms in groups.items():
        group = shard.groups.setdefault(group_id, ClassicGroup(group_id))
        group.due_ms = when_ms
        shard.note_due(group_id)


def taken(shard: GroupShard, now_ms: float) -> list[str]:
    found = []
    while (group_id := shard.take_due(now_ms)) is not None:
        found.append(group_id)
    return found


def test_groups_are_due_in_order() -> None:
    shard = Desk().shard
    due(shard, a=30.0, b=10.0, c=20.0)
    assert shard.timers.due_ms == 10.0
    assert taken(shard, 9.9) == []
    assert taken(shard, 20.0) == ["b", "c"]
    assert shard.timers.due_ms == 30.0
    assert taken(shard, 30.0) == ["a"]
    assert shard.timers.due_ms == NEVER


def test_sooner_counts_and_later_may_come_too_early() -> None:
    shard = Desk().shard
    due(shard, a=30.0)
    due(shard, a=10.0)
    assert taken(shard, 10.0) == ["a"]
    assert taken(shard, 30.0) == []
    due(shard, a=50.0)
    due(shard, a=90.0)
    assert taken(shard, 50.0) == ["a"]


def test_a_group_that_is_gone_is_not_due() -> None:
    shard = Desk().shard
    due(shard, a=10.0)
    del shard.groups["a"]
    shard.note_due("a")
    assert taken(shard, 10.0) == []


def test_after_a_load_every_group_has_its_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(group: Group, now_ms: float) -> None:
        group.due_ms = now_ms + 5

    monkeypatch.setattr(ClassicGroup, "loaded", loaded)
    shard = Desk().shard
    shard.replay(OffsetCommitKey("g", "t", 0), COMMITTED, 1)
    shard.replay(OffsetCommitKey("h", "t", 0), COMMITTED, 1)
    assert len(list(shard.start_clocks(100.0))) == 2
    assert taken(shard, 105.0) == ["g", "h"]


# The desk


def test_a_rebuilt_shard_that_differs_is_found_out() -> None:
    desk = Desk()
    desk.run(Decision([(OffsetCommitKey("g", "t", 0), COMMITTED)]))
    desk.check_rebuilt()
    desk.shard.offsets.replay(OffsetCommitKey("g", "t", 1), COMMITTED)
    with pytest.raises(AssertionError):
        desk.check_rebuilt()


def test_fake_topics() -> None:
    topics = FakeTopics({"a": 2})
    topics.set("b", 3)
    assert (topics.partitions_of("b"), topics.name_of(topic_id("b")), topics.generation) == (3, "b", 1)
    topics.set("b", 0)
    assert (topics.partitions_of("b"), topics.name_of(topic_id("b")), topics.id_of("b")) == (0, None, None)
    assert list(topics.names()) == ["a"]
