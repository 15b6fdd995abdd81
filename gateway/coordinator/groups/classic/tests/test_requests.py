"""The requests of the classic group protocol: given a group and a request, then these records and this reply."""

from typing import Any

import pytest

from headgate.gateway.coordinator.groups.classic import requests
from headgate.gateway.coordinator.groups.classic.group import MAX_PENDING, GroupState
from headgate.gateway.coordinator.groups.classic.requests import NEW_MEMBER_JOIN_TIMEOUT_MS
from headgate.gateway.coordinator.groups.tests.classic_desk import (
    DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    ClassicDesk,
    Joined,
)
from headgate.gateway.coordinator.groups.tests.groups import CALLER
from headgate.protocol.errors import ErrorCode
from headgate.protocol.internal.offsets import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from headgate.protocol.messages.heartbeat import HeartbeatResponse
from headgate.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from headgate.protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from headgate.protocol.messages.sync_group import SyncGroupResponse

# JoinGroup of new members


def test_a_new_dynamic_member_is_told_its_id_first() -> None:
    desk = ClassicDesk()
    asked = desk.join()
    member_id = asked.reply.member_id
    assert asked.reply == JoinGroupResponse(
        error_code=ErrorCode.MEMBER_ID_REQUIRED, protocol_name=None, member_id=member_id
    )
    assert member_id.startswith("client-")
    assert len(member_id) == len("client-") + 36
    assert list(desk.group.pending) == [member_id]
    desk.check_rebuilt()


def test_a_new_group_is_written_down() -> None:
    desk = ClassicDesk()
    desk.join()
    assert desk.records == [(GroupMetadataKey("group"), GroupMetadataValue("", 0, None, None, desk.timestamp_ms, []))]
    desk.join()
    assert len(desk.records) == 1
    assert desk.is_in(GroupState.EMPTY)


def test_the_first_member_makes_a_generation() -> None:
    desk = ClassicDesk()
    member_id, asked = desk.enter()
    assert asked.reply == JoinGroupResponse(
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
        leader=member_id,
        member_id=member_id,
        members=[JoinGroupResponseMember(member_id, None, b"wants")],
    )
    assert desk.is_in(GroupState.COMPLETING)
    assert len(desk.records) == 1, "nothing is written until the leader has assigned"
    desk.check_rebuilt()


@pytest.mark.parametrize("version", range(4))
def test_before_v4_a_new_member_joins_at_once(version: int) -> None:
    desk = ClassicDesk()
    asked = desk.join(version=version)
    assert asked.error is ErrorCode.NONE
    assert asked.reply.generation_id == 1
    assert desk.group.members.by_id.keys() == {asked.reply.member_id}
    desk.check_rebuilt()


def test_a_new_static_member_joins_at_once_named_after_its_instance() -> None:
    desk = ClassicDesk()
    asked = desk.join("", "worker")
    assert asked.error is ErrorCode.NONE
    assert asked.reply.member_id.startswith("worker-")
    assert asked.reply.members == [JoinGroupResponseMember(asked.reply.member_id, "worker", b"wants")]


def test_v0_has_no_rebalance_timeout() -> None:
    desk = ClassicDesk()
    asked = desk.join(version=0, rebalance_ms=-1)
    member = desk.group.members.by_id[asked.reply.member_id]
    assert member.rebalance_timeout_ms == SESSION_MS


@pytest.mark.parametrize("version", [0, 6, 7, 9])
def test_protocol_name_of_an_error_is_null_from_v7(version: int) -> None:
    desk = ClassicDesk()
    desk.stable()
    asked = desk.join("nobody", version=version)
    assert asked.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert asked.reply.protocol_name == (None if version >= 7 else "")
    assert asked.reply.generation_id == -1
    assert asked.reply.member_id == "nobody"


def test_a_member_id_that_no_group_knows() -> None:
    desk = ClassicDesk()
    assert desk.join("nobody").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert not desk.records
    assert not desk.shard.groups


@pytest.mark.parametrize("session_ms", [5_999, 30_001])
def test_session_timeouts_have_bounds(session_ms: int) -> None:
    desk = ClassicDesk(max_session_timeout_ms=30_000)
    assert desk.join(session_ms=session_ms).error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert not desk.shard.groups


@pytest.mark.parametrize("session_ms", [6_000, 30_000])
def test_bounds_of_session_timeouts_are_inclusive(session_ms: int) -> None:
    desk = ClassicDesk(max_session_timeout_ms=30_000)
    assert desk.join(session_ms=session_ms).error is ErrorCode.MEMBER_ID_REQUIRED


@pytest.mark.parametrize("fields", [{"protocol_type": ""}, {"protocols": {}}])
def test_a_first_member_needs_a_protocol(fields: dict[str, Any]) -> None:
    desk = ClassicDesk()
    assert desk.join(**fields).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert not desk.shard.groups
    assert not desk.records


@pytest.mark.parametrize("fields", [{"protocol_type": "connect"}, {"protocols": ["sticky"]}, {"protocols": {}}])
def test_a_member_needs_a_protocol_that_all_others_speak(fields: dict[str, Any]) -> None:
    desk = ClassicDesk()
    desk.stable(2)
    asked = desk.join(**fields)
    assert asked.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert desk.is_in(GroupState.STABLE)


def test_another_protocol_type_may_take_over_an_empty_group() -> None:
    desk = ClassicDesk()
    member = desk.stable()[0]
    desk.leave(member.member_id)
    assert desk.group.protocol_type == "consumer"
    _, asked = desk.enter(protocol_type="connect", protocols=["default"])
    assert asked.reply.protocol_type == "connect"
    assert desk.group.protocol_type == "connect"


def test_a_member_may_not_store_too_much() -> None:
    desk = ClassicDesk(max_member_bytes=1_000)
    assert desk.join(protocols={"range": bytes(1_000)}).error is ErrorCode.MESSAGE_TOO_LARGE
    assert desk.join(protocols={f"p{number}": b"" for number in range(10)}).error is ErrorCode.MESSAGE_TOO_LARGE
    assert desk.join("", "i" * 1_000).error is ErrorCode.MESSAGE_TOO_LARGE
    assert not desk.shard.groups
    assert desk.join(protocols={"range": bytes(500)}).error is ErrorCode.MEMBER_ID_REQUIRED


@pytest.mark.parametrize(
    "fields", [{"instance_id": "i" * 40_000}, {"protocols": ["p" * 40_000]}, {"protocol_type": "t" * 40_000}]
)
def test_nobody_joins_with_a_name_that_no_record_can_hold(fields: dict[str, Any]) -> None:
    """The whole group could not be written down any more."""
    desk = ClassicDesk()
    assert desk.join(**fields).error is ErrorCode.MESSAGE_TOO_LARGE
    request_context = CALLER._replace(client_id="c" * 0x7FFF)  # the id that it would be given is longer
    asked = desk.ask(lambda ticket: requests.join(desk.shard, desk.joining(), request_context, ticket, desk.now_ms))
    assert asked.error is ErrorCode.MESSAGE_TOO_LARGE


def test_ids_that_nobody_joins_with_lapse_together() -> None:
    """Each tick looks at all of them: it must not be one tick for each of them."""
    desk = ClassicDesk()
    desk.stable(1)
    for _ in range(1_000):
        desk.join()
        desk.now_ms += 0.5
    assert len(desk.group.pending) == 1_000
    ticks, end_ms = 0, desk.now_ms + SESSION_MS + 1_000
    while desk.shard.timers.due_ms <= end_ms:
        desk.now_ms = max(desk.now_ms, desk.shard.timers.due_ms)
        if desk.shard.take_due(desk.now_ms) is not None:
            ticks += 1
            desk.run(desk.shard.tick(desk.group.group_id, desk.now_ms))
    assert not desk.group.pending
    assert ticks < 10


def test_a_pending_id_lapses_with_the_session_timeout() -> None:
    desk = ClassicDesk()
    member_id = desk.join().reply.member_id
    desk.advance(SESSION_MS - 1)
    assert member_id in desk.group.pending
    desk.advance(1)
    assert not desk.group.pending
    assert desk.join(member_id).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_pending_ids_are_limited() -> None:
    desk = ClassicDesk()
    first, second = desk.join().reply.member_id, desk.join().reply.member_id
    for number in range(MAX_PENDING - 1):
        desk.group.add_pending(f"p{number}", desk.now_ms + SESSION_MS)
    assert len(desk.group.pending) == MAX_PENDING
    assert first not in desk.group.pending
    assert second in desk.group.pending


def test_a_pending_id_is_no_static_members() -> None:
    desk = ClassicDesk()
    member_id = desk.join().reply.member_id
    assert desk.join(member_id, "worker").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_member_holds_up_a_rebalance() -> None:
    desk = ClassicDesk()
    member = desk.stable()[0]
    pending = desk.join().reply.member_id
    desk.join()  # is never heard of again
    joined = desk.join(pending)
    again = desk.join(member.member_id)
    assert joined.is_parked
    assert again.is_parked
    desk.advance(SESSION_MS)
    assert joined.reply.generation_id == again.reply.generation_id == 2


# JoinGroup of members


def test_a_follower_that_rejoins_unchanged_hears_of_the_generation() -> None:
    desk = ClassicDesk()
    leader, follower = desk.stable(2)
    asked = desk.join(follower.member_id)
    assert asked.reply == JoinGroupResponse(
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
        leader=leader.member_id,
        member_id=follower.member_id,
    )
    assert desk.is_in(GroupState.STABLE)


@pytest.mark.parametrize("place", [0, 1])
def test_a_change_of_metadata_rebalances(place: int) -> None:
    desk = ClassicDesk()
    members = desk.stable(2)
    changed = desk.join(members[place].member_id, protocols={"range": b"else"})
    assert changed.is_parked
    assert desk.is_in(GroupState.PREPARING)
    other = desk.join(members[1 - place].member_id)
    rows = [*changed.reply.members, *other.reply.members]
    assert {row.member_id: row.metadata for row in rows} == {
        members[place].member_id: b"else",
        members[1 - place].member_id: b"wants",
    }


def test_another_order_of_protocols_is_a_change() -> None:
    desk = ClassicDesk()
    _, follower = desk.stable(2, protocols=["range", "sticky"])
    assert desk.join(follower.member_id, protocols=["sticky", "range"]).is_parked


def test_a_leader_that_joins_again_rebalances() -> None:
    desk = ClassicDesk()
    leader, follower = desk.stable(2)
    asked = desk.join(leader.member_id)
    assert asked.is_parked
    assert desk.heartbeat(follower).error is ErrorCode.REBALANCE_IN_PROGRESS
    desk.join(follower.member_id)
    assert asked.reply.generation_id == 2
    assert len(asked.reply.members) == 2


def test_who_lost_the_reply_to_its_join_gets_it_again() -> None:
    desk = ClassicDesk()
    desk.stable(2)
    desk.rejoin([Joined(member_id, 1) for member_id in desk.group.members.by_id])
    assert desk.is_in(GroupState.COMPLETING)
    leader = desk.group.leader
    again = desk.join(leader)
    assert again.reply.generation_id == 2
    assert len(again.reply.members) == 2
    other = next(member_id for member_id in desk.group.members.by_id if member_id != leader)
    assert desk.join(other).reply.members == []
    assert desk.is_in(GroupState.COMPLETING)


def test_a_change_while_the_leader_assigns_rebalances_again() -> None:
    desk = ClassicDesk()
    leader, follower = desk.stable(2)
    desk.rejoin([leader, follower])
    waiting = desk.sync(follower._replace(generation=2))
    assert waiting.is_parked
    desk.join(leader.member_id, protocols={"range": b"else"})
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.is_in(GroupState.PREPARING)


def test_a_second_join_of_a_member_ends_the_first() -> None:
    desk = ClassicDesk()
    leader, follower = desk.stable(2)
    first = desk.join(leader.member_id)
    second = desk.join(leader.member_id)
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert second.is_parked
    desk.join(follower.member_id)
    assert second.reply.generation_id == 2
    assert desk.group.members.joining == 0


def test_a_member_changes_its_timeouts_when_it_joins_again() -> None:
    desk = ClassicDesk()
    leader, follower = desk.stable(2)
    desk.join(leader.member_id, session_ms=20_000, rebalance_ms=90_000)
    desk.join(follower.member_id)
    member = desk.group.members.by_id[leader.member_id]
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (20_000, 90_000)
    assert member.deadline_ms == desk.now_ms + 20_000


# group.max.size


def test_a_full_group_takes_nobody_more() -> None:
    desk = ClassicDesk(max_size=2)
    desk.stable(2)
    asked = desk.join()
    assert asked.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert asked.reply.member_id == ""
    assert desk.is_in(GroupState.STABLE)
    assert not desk.group.pending


def test_a_pending_member_of_a_full_group() -> None:
    desk = ClassicDesk(max_size=2, initial_rebalance_delay_ms=DELAY_MS)
    pending = [desk.join().reply.member_id for _ in range(3)]  # an empty group promises more than it has
    first, second, third = [desk.join(member_id) for member_id in pending]
    assert third.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert third.reply.member_id == ""
    assert not desk.group.pending
    desk.advance(REBALANCE_MS)
    assert first.reply.generation_id == second.reply.generation_id == 1


def test_members_of_a_full_group_rejoin() -> None:
    desk = ClassicDesk(max_size=2)
    members = desk.stable(2)
    asked = desk.rejoin(members)
    assert [each.reply.generation_id for each in asked] == [2, 2]


def test_a_static_member_of_a_full_group_returns() -> None:
    desk = ClassicDesk(max_size=2)
    desk.stable(1, ["worker"])
    assert desk.join("", "worker").error is ErrorCode.NONE
    assert desk.join("", "other").error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_group_too_large_after_a_restart_keeps_who_comes_first() -> None:
    desk = ClassicDesk()
    members = desk.stable(3)
    desk.settings = type(desk.settings)(initial_rebalance_delay_ms=0, max_size=2)
    desk.restart()
    desk.advance(0)
    assert desk.is_in(GroupState.PREPARING)
    first, second, third = desk.rejoin(members)
    assert third.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert first.reply.generation_id == second.reply.generation_id == 2
    assert desk.group.members.by_id.keys() == {member.member_id for member in members[:2]}


# SyncGroup


def test_the_leader_assigns_and_everybody_hears_of_it() -> None:
    desk = ClassicDesk()
    members = desk.stable(2)
    leader, follower = (member._replace(generation=2) for member in members)
    desk.rejoin([leader, follower])
    waiting = desk.sync(follower)
    assert waiting.is_parked
    assert desk.is_in(GroupState.COMPLETING)
    asked = desk.sync(leader, {leader.member_id: b"left", follower.member_id: b"right", "nobody": b"?"})
    assert asked.reply == SyncGroupResponse(protocol_type="consumer", protocol_name="range", assignment=b"left")
    assert waiting.reply == SyncGroupResponse(protocol_type="consumer", protocol_name="range", assignment=b"right")
    assert desk.is_in(GroupState.STABLE)
    row = (None, "client", "/192.0.2.9", REBALANCE_MS, SESSION_MS, b"wants")
    assert desk.records[-1] == (
        GroupMetadataKey("group"),
        GroupMetadataValue(
            "consumer",
            2,
            "range",
            leader.member_id,
            desk.timestamp_ms,
            [
                MemberMetadata(leader.member_id, *row, b"left"),
                MemberMetadata(follower.member_id, *row, b"right"),
            ],
        ),
    )
    desk.check_rebuilt()


def test_a_member_that_the_leader_forgot_gets_nothing() -> None:
    desk = ClassicDesk()
    member_id, _ = desk.enter()
    assert desk.sync(Joined(member_id, 1)).reply.assignment == b""
    assert desk.last.members[0].assignment == b""


def test_who_syncs_late_gets_what_was_assigned() -> None:
    desk = ClassicDesk()
    leader, follower = (member._replace(generation=2) for member in desk.stable(2))
    desk.rejoin([leader, follower])
    desk.sync(leader, {follower.member_id: b"right"})
    assert desk.sync(follower).reply.assignment == b"right"
    assert not desk.group.pending_sync


@pytest.mark.parametrize("version", [0, 4])
def test_before_v5_sync_names_no_protocol(version: int) -> None:
    desk = ClassicDesk()
    member = desk.stable()[0]
    assert desk.sync(member, version=version, protocol=(None, None)).error is ErrorCode.NONE


@pytest.mark.parametrize(
    "protocol", [(None, "range"), ("consumer", None), ("connect", "range"), ("consumer", "sticky")]
)
def test_from_v5_sync_names_the_protocol_of_the_group(protocol: tuple[str | None, str | None]) -> None:
    desk = ClassicDesk()
    member = desk.stable()[0]
    assert desk.sync(member, version=5, protocol=protocol).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_sync_of_the_wrong_generation_or_by_nobody() -> None:
    desk = ClassicDesk()
    assert desk.sync(Joined("nobody", 1)).error is ErrorCode.UNKNOWN_MEMBER_ID
    member = desk.stable()[0]
    assert desk.sync(member._replace(generation=0)).error is ErrorCode.ILLEGAL_GENERATION
    assert desk.sync(member._replace(member_id="nobody")).error is ErrorCode.UNKNOWN_MEMBER_ID
    desk.leave(member.member_id)
    assert desk.sync(member).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_sync_while_others_join() -> None:
    desk = ClassicDesk()
    leader, follower = desk.stable(2)
    desk.join(leader.member_id)
    assert desk.sync(follower).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_second_sync_of_a_member_ends_the_first() -> None:
    desk = ClassicDesk()
    leader, follower = (member._replace(generation=2) for member in desk.stable(2))
    desk.rejoin([leader, follower])
    first, second = desk.sync(follower), desk.sync(follower)
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    desk.sync(leader)
    assert second.error is ErrorCode.NONE


def test_an_assignment_may_not_be_too_large() -> None:
    desk = ClassicDesk(max_member_bytes=1_000)
    member_id, _ = desk.enter()
    asked = desk.sync(Joined(member_id, 1), {member_id: bytes(1_001)})
    assert asked.error is ErrorCode.MESSAGE_TOO_LARGE
    assert desk.is_in(GroupState.COMPLETING)
    assert desk.sync(Joined(member_id, 1), {member_id: bytes(1_000)}).error is ErrorCode.NONE


def test_an_assignment_that_cannot_be_written_can_be_given_again() -> None:
    desk = ClassicDesk()
    leader, follower = (member._replace(generation=2) for member in desk.stable(2))
    desk.rejoin([leader, follower])
    desk.sync(follower)
    desk.fail(desk.decide_sync(desk.ticket(), leader, {leader.member_id: b"lost"}))
    assert desk.is_in(GroupState.COMPLETING)
    assert desk.last.generation == 1
    assert [asked.reply.generation_id for asked in desk.rejoin([leader, follower])] == [2, 2]
    assert [asked.reply.assignment for asked in desk.assign([leader, follower])] == [b"0", b"1"]
    assert desk.is_in(GroupState.STABLE)
    desk.check_rebuilt()


def test_after_a_failed_write_members_can_sync_until_the_end() -> None:
    desk = ClassicDesk()
    leader, follower = (member._replace(generation=2) for member in desk.stable(2))
    desk.rejoin([leader, follower])
    desk.sync(follower)
    desk.fail(desk.decide_sync(desk.ticket(), leader, {leader.member_id: b"lost"}))
    for _ in range(REBALANCE_MS // 5_000):
        assert [desk.heartbeat(each).error for each in (leader, follower)] == [ErrorCode.NONE, ErrorCode.NONE]
        desk.advance(5_000)
    assert desk.is_in(GroupState.EMPTY), "they sent heartbeats and nothing else"


# Heartbeat


def test_a_heartbeat_prolongs_the_session() -> None:
    desk = ClassicDesk()
    member = desk.stable()[0]
    for _ in range(5):
        desk.advance(SESSION_MS - 1)
        assert desk.heartbeat(member).reply == HeartbeatResponse(0, ErrorCode.NONE)
    desk.advance(SESSION_MS)
    assert desk.heartbeat(member).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_of_strangers() -> None:
    desk = ClassicDesk()
    assert desk.heartbeat(Joined("nobody", 1)).error is ErrorCode.UNKNOWN_MEMBER_ID
    member = desk.stable()[0]
    assert desk.heartbeat(member._replace(generation=2)).error is ErrorCode.ILLEGAL_GENERATION
    assert desk.heartbeat(member._replace(member_id="nobody")).error is ErrorCode.UNKNOWN_MEMBER_ID
    pending = desk.join().reply.member_id
    assert desk.heartbeat(Joined(pending, 1)).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_in_a_rebalance() -> None:
    desk = ClassicDesk()
    leader, follower = desk.stable(2)
    desk.join(leader.member_id)
    desk.advance(SESSION_MS - 1)
    assert desk.heartbeat(follower).error is ErrorCode.REBALANCE_IN_PROGRESS
    desk.advance(SESSION_MS - 1)
    assert follower.member_id in desk.group.members.by_id, "that counted as one, too"
    desk.join(follower.member_id)
    assert desk.heartbeat(follower._replace(generation=2)).error is ErrorCode.NONE, "while the leader assigns"
    assert desk.heartbeat(follower).error is ErrorCode.ILLEGAL_GENERATION


# LeaveGroup


def test_the_last_member_leaves_an_empty_group_that_is_written_down() -> None:
    desk = ClassicDesk()
    member = desk.stable()[0]
    asked = desk.leave(member.member_id)
    assert asked.reply == LeaveGroupResponse(members=[MemberResponse(member.member_id, None, ErrorCode.NONE)])
    assert desk.is_in(GroupState.EMPTY)
    assert desk.records[-1] == (
        GroupMetadataKey("group"),
        GroupMetadataValue("consumer", 2, None, None, desk.timestamp_ms, []),
    )
    desk.check_rebuilt()


def test_who_stays_rebalances() -> None:
    desk = ClassicDesk()
    leader, follower = desk.stable(2)
    desk.leave(leader.member_id)
    assert desk.is_in(GroupState.PREPARING)
    asked = desk.join(follower.member_id)
    assert asked.reply.leader == follower.member_id
    assert asked.reply.generation_id == 2
    assert len(asked.reply.members) == 1


def test_who_leaves_while_others_wait_for_it_ends_their_waiting() -> None:
    desk = ClassicDesk()
    leader, follower = desk.stable(2)
    waiting = desk.join(leader.member_id)
    desk.leave(follower.member_id)
    assert waiting.reply.generation_id == 2


def test_who_leaves_while_its_own_join_waits() -> None:
    desk = ClassicDesk()
    leader, _ = desk.stable(2)
    waiting = desk.join(leader.member_id)
    desk.leave(leader.member_id)
    assert waiting.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert waiting.reply.member_id == ""


@pytest.mark.parametrize("version", range(3))
def test_before_v3_one_member_leaves(version: int) -> None:
    desk = ClassicDesk()
    member = desk.stable()[0]
    assert desk.leave("nobody", version=version).reply == LeaveGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    assert desk.leave(member.member_id, version=version).reply == LeaveGroupResponse()
    assert desk.is_in(GroupState.EMPTY)


def test_many_leave_at_once() -> None:
    desk = ClassicDesk()
    first, second, static, _ = desk.stable(2, ["worker", "other"])
    asked = desk.leave(
        MemberIdentity(first.member_id),
        MemberIdentity("", "worker"),
        MemberIdentity("nobody"),
        MemberIdentity("", "nobody"),
        MemberIdentity(""),
        MemberIdentity(second.member_id, "worker"),
        MemberIdentity(second.member_id, "other"),
    )
    unknown, fenced = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID
    assert asked.reply.error_code == ErrorCode.NONE
    assert asked.reply.members == [
        MemberResponse(first.member_id, None, ErrorCode.NONE),
        MemberResponse("", "worker", ErrorCode.NONE),
        MemberResponse("nobody", None, unknown),
        MemberResponse("", "nobody", unknown),
        MemberResponse("", None, unknown),
        MemberResponse(second.member_id, "worker", unknown),
        MemberResponse(second.member_id, "other", fenced),
    ]
    assert static.member_id not in desk.group.members.by_id
    assert desk.is_in(GroupState.PREPARING)


def test_nobody_leaves_a_group_that_is_not_there() -> None:
    desk = ClassicDesk()
    asked = desk.leave("nobody", "either")
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert asked.reply.members == [MemberResponse("nobody", None, unknown), MemberResponse("either", None, unknown)]
    assert desk.leave("nobody", version=2).error is unknown
    assert not desk.shard.groups


def test_a_pending_member_that_leaves_is_not_waited_for() -> None:
    desk = ClassicDesk()
    member = desk.stable()[0]
    pending = desk.join().reply.member_id
    waiting = desk.join(member.member_id)
    assert waiting.is_parked
    assert desk.leave(pending).reply.members == [MemberResponse(pending, None, ErrorCode.NONE)]
    assert waiting.reply.generation_id == 2


def test_a_pending_member_leaves_without_disturbing_a_stable_group() -> None:
    desk = ClassicDesk()
    desk.stable()
    pending = desk.join().reply.member_id
    desk.leave(pending)
    assert desk.is_in(GroupState.STABLE)


def test_a_static_member_that_shuts_down_stays_until_its_session_ends() -> None:
    desk = ClassicDesk()
    leader, _ = desk.stable(1, ["worker"])
    desk.advance(SESSION_MS - 1)
    assert desk.heartbeat(leader).error is ErrorCode.NONE
    desk.advance(1)
    assert desk.heartbeat(leader).error is ErrorCode.REBALANCE_IN_PROGRESS


# New groups that cannot be written


def test_a_new_group_that_cannot_be_written_is_not_there() -> None:
    desk = ClassicDesk(initial_rebalance_delay_ms=DELAY_MS)
    ticket = desk.ticket()
    decision = desk.decide_join(ticket, version=3)
    assert not decision.replies
    desk.fail(decision)
    assert [answered for answered, _ in decision.replies] == [ticket], "nobody else would answer it"
    assert not desk.shard.groups
    desk.check_rebuilt()


def test_a_join_may_wait_five_minutes_before_the_first_generation() -> None:
    desk = ClassicDesk()
    member = desk.stable(rebalance_ms=2 * NEW_MEMBER_JOIN_TIMEOUT_MS)[0]
    _, asked = desk.enter(rebalance_ms=2 * NEW_MEMBER_JOIN_TIMEOUT_MS)
    passed = 0
    while asked.is_parked:
        assert desk.heartbeat(member).error is ErrorCode.REBALANCE_IN_PROGRESS
        desk.advance(5_000)
        passed += 5_000
    assert asked.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert passed == NEW_MEMBER_JOIN_TIMEOUT_MS
