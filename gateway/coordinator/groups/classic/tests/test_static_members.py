"""Static members (KIP-345, KIP-814): a member that comes back takes its own place."""

from typing import Any

import pytest

from headgate.gateway.coordinator.groups.classic.group import GroupState
from headgate.gateway.coordinator.groups.tests.classic_desk import SESSION_MS, ClassicDesk, Joined
from headgate.protocol.errors import ErrorCode
from headgate.protocol.internal.consumer_protocol import ConsumerProtocolSubscription, encode
from headgate.protocol.messages.join_group import JoinGroupResponse
from headgate.protocol.messages.leave_group import MemberIdentity, MemberResponse


def wants(*topics: str, version: int = 0, **fields: Any) -> dict[str, bytes]:
    """The protocols of a consumer of these topics."""
    return {"range": encode(ConsumerProtocolSubscription(list(topics), **fields), version)}


def test_a_static_member_returns_without_a_rebalance() -> None:
    desk = ClassicDesk()
    leader, old = desk.stable(1, ["worker"])
    asked = desk.join("", "worker")
    new_id = asked.reply.member_id
    assert new_id != old.member_id
    assert asked.reply == JoinGroupResponse(
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
        leader=leader.member_id,
        member_id=new_id,
    )
    assert desk.is_in(GroupState.STABLE)
    assert [(member.member_id, member.assignment) for member in desk.last.members] == [
        (leader.member_id, b"0"),
        (new_id, b"1"),
    ]
    assert desk.sync(Joined(new_id, 1, "worker")).reply.assignment == b"1"
    desk.check_rebuilt()


def test_the_old_life_of_a_static_member_is_fenced() -> None:
    desk = ClassicDesk()
    _, old = desk.stable(1, ["worker"])
    desk.join("", "worker")
    assert desk.heartbeat(old).error is ErrorCode.FENCED_INSTANCE_ID
    assert desk.sync(old).error is ErrorCode.FENCED_INSTANCE_ID
    assert desk.join(old.member_id, "worker").error is ErrorCode.FENCED_INSTANCE_ID
    assert desk.heartbeat(old._replace(instance_id=None)).error is ErrorCode.UNKNOWN_MEMBER_ID
    leaving = desk.leave(MemberIdentity(old.member_id, "worker"))
    assert leaving.reply.members == [MemberResponse(old.member_id, "worker", ErrorCode.FENCED_INSTANCE_ID)]


def test_an_instance_id_that_nobody_has() -> None:
    desk = ClassicDesk()
    member = desk.stable()[0]
    assert desk.heartbeat(member._replace(instance_id="nobody")).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_leader_skips_the_assignment_from_v9() -> None:
    desk = ClassicDesk()
    old, follower = desk.stable(0, ["worker", "other"])
    asked = desk.join("", "worker", version=9)
    new_id = asked.reply.member_id
    assert asked.reply.skip_assignment
    assert asked.reply.leader == new_id
    assert [row.member_id for row in asked.reply.members] == [new_id, follower.member_id]
    assert desk.last.leader == new_id
    assert old.member_id not in desk.group.members.by_id
    assert desk.group.leader == new_id


@pytest.mark.parametrize("version", [5, 8])
def test_before_v9_a_static_leader_is_told_of_the_leader_it_was(version: int) -> None:
    desk = ClassicDesk()
    old, _ = desk.stable(0, ["worker", "other"])
    asked = desk.join("", "worker", version=version)
    assert asked.reply.leader == old.member_id
    assert asked.reply.member_id != old.member_id
    assert not asked.reply.skip_assignment
    assert asked.reply.members == []
    assert desk.group.leader == asked.reply.member_id


def test_a_static_member_that_returns_with_other_topics_rebalances() -> None:
    desk = ClassicDesk()
    leader, _ = desk.stable(1, ["worker"], protocols=wants("a"))
    asked = desk.join("", "worker", protocols=wants("a", "b"))
    assert asked.is_parked
    assert desk.heartbeat(leader).error is ErrorCode.REBALANCE_IN_PROGRESS
    desk.join(leader.member_id, protocols=wants("a"))
    assert asked.reply.generation_id == 2


@pytest.mark.parametrize("version", [b"\0\1", b"\0\2", b"\xff\xff"])
def test_other_topics_are_seen_where_later_fields_lack(version: bytes) -> None:
    """Of kafkajs 1, which writes version 1 with the fields of version 0."""
    desk = ClassicDesk()
    desk.stable(0, ["worker"], protocols={"range": version + wants("a")["range"][2:]})
    asked = desk.join("", "worker", protocols={"range": version + wants("b")["range"][2:]})
    assert asked.reply.generation_id == 2


def test_a_static_member_that_returns_with_other_user_data_does_not() -> None:
    desk = ClassicDesk()
    desk.stable(1, ["worker"], protocols=wants("b", "a", version=1, owned_partitions=[]))
    asked = desk.join("", "worker", protocols=wants("a", "b", version=3, generation_id=7, user_data=b"sticky"))
    assert asked.error is ErrorCode.NONE
    assert desk.is_in(GroupState.STABLE)
    assert (
        desk.last.members[1].subscription == wants("a", "b", version=3, generation_id=7, user_data=b"sticky")["range"]
    )


def test_a_static_member_that_changes_the_votes_rebalances() -> None:
    desk = ClassicDesk()
    desk.stable(0, ["one", "two", "three"], protocols=["range", "sticky"])
    assert desk.group.protocol == "range"
    assert desk.join("", "one", protocols=["sticky", "range"]).error is ErrorCode.NONE, "two still prefer range"
    assert desk.join("", "two", protocols=["sticky", "range"]).is_parked
    assert desk.is_in(GroupState.PREPARING)


def test_a_static_member_that_returns_in_an_assignment_rebalances() -> None:
    desk = ClassicDesk()
    leader, old = desk.stable(1, ["worker"])
    desk.rejoin([leader, old])
    waiting = desk.sync(old._replace(generation=2))
    asked = desk.join("", "worker")
    assert waiting.error is ErrorCode.FENCED_INSTANCE_ID
    assert asked.is_parked
    assert desk.sync(leader._replace(generation=2)).error is ErrorCode.REBALANCE_IN_PROGRESS
    desk.join(leader.member_id)
    assert asked.reply.generation_id == 3


def test_a_static_member_that_returns_during_joins_takes_its_place() -> None:
    desk = ClassicDesk()
    leader, old = desk.stable(1, ["worker"])
    waiting = desk.join(old.member_id, "worker", protocols={"range": b"else"})
    asked = desk.join("", "worker")
    assert waiting.reply == JoinGroupResponse(
        error_code=ErrorCode.FENCED_INSTANCE_ID, protocol_name=None, member_id=old.member_id
    )
    desk.join(leader.member_id)
    assert asked.reply.generation_id == 2
    assert desk.group.members.by_id.keys() == {leader.member_id, asked.reply.member_id}


def test_a_static_replacement_that_cannot_be_written_changes_nothing() -> None:
    desk = ClassicDesk()
    leader, old = desk.stable(1, ["worker"])
    desk.fail(desk.decide_join(desk.ticket(), "", "worker"))
    assert desk.heartbeat(old).error is ErrorCode.NONE
    assert desk.sync(old).reply.assignment == b"1"
    assert desk.group.leader == leader.member_id
    desk.check_rebuilt()


def test_a_static_member_with_no_timeout_is_not_waited_for_each_turn() -> None:
    desk = ClassicDesk()
    leader, _ = desk.stable(1, ["worker"])
    desk.join("", "worker", rebalance_ms=0)
    desk.leave(leader.member_id)
    assert desk.is_in(GroupState.PREPARING)
    ticks, end_ms = 0, desk.now_ms + SESSION_MS - 1
    while desk.shard.timers.due_ms <= end_ms and ticks < 100:
        desk.now_ms = max(desk.now_ms, desk.shard.timers.due_ms)
        if desk.shard.take_due(desk.now_ms) is not None:
            ticks += 1
            desk.run(desk.shard.tick(desk.group.group_id, desk.now_ms))
    assert ticks <= SESSION_MS / 1_000
