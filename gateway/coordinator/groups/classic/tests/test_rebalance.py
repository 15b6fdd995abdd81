"""Time and rebalances: who is waited for, how long, who leads, which protocol is spoken."""

import logging
from collections.abc import Iterator

import pytest

from headgate.gateway.coordinator.groups.classic.group import LOG_INTERVAL_MS, LOG_LINES, GroupState
from headgate.gateway.coordinator.groups.classic.members import ClassicMember, ClassicMembers
from headgate.gateway.coordinator.groups.classic.rebalance import MAX_REASON_LENGTH
from headgate.gateway.coordinator.groups.tests.classic_desk import (
    DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    ClassicDesk,
    Joined,
)
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.leave_group import MemberIdentity

# The first rebalance (KIP-134)


def test_a_new_group_waits_for_more_members() -> None:
    desk = ClassicDesk(initial_rebalance_delay_ms=DELAY_MS)
    _, asked = desk.enter()
    desk.advance(DELAY_MS - 1)
    assert asked.is_parked
    assert desk.is_in(GroupState.PREPARING)
    desk.advance(1)
    assert asked.reply.generation_id == 1


def test_every_new_member_extends_the_first_rebalance_once() -> None:
    desk = ClassicDesk(initial_rebalance_delay_ms=DELAY_MS)
    _, first = desk.enter()
    desk.advance(1_000)
    _, second = desk.enter()
    desk.advance(DELAY_MS - 1_000)
    assert first.is_parked, "somebody came meanwhile"
    desk.advance(DELAY_MS - 1)
    assert first.is_parked
    desk.advance(1)
    assert first.reply.generation_id == second.reply.generation_id == 1


def test_the_first_rebalance_ends_within_the_rebalance_timeout() -> None:
    desk = ClassicDesk(initial_rebalance_delay_ms=DELAY_MS)
    began_ms = desk.now_ms
    _, first = desk.enter(rebalance_ms=10_000)
    while first.is_parked:
        desk.advance(500)
        if first.is_parked:
            desk.enter(rebalance_ms=10_000)
    assert desk.now_ms - began_ms == 10_000
    assert len(first.reply.members) == 20


def test_a_rebalance_timeout_shorter_than_the_delay() -> None:
    desk = ClassicDesk(initial_rebalance_delay_ms=DELAY_MS)
    _, first = desk.enter(rebalance_ms=1_000)
    desk.advance(1_000)
    desk.enter(rebalance_ms=1_000)
    desk.advance(DELAY_MS - 1_000)
    assert first.reply.generation_id == 1


def test_pending_members_do_not_hold_up_the_first_rebalance() -> None:
    desk = ClassicDesk(initial_rebalance_delay_ms=DELAY_MS)
    desk.join()
    _, asked = desk.enter()
    desk.advance(DELAY_MS)
    assert asked.reply.generation_id == 1


def test_a_group_whose_only_member_left_before_its_first_generation() -> None:
    desk = ClassicDesk(initial_rebalance_delay_ms=DELAY_MS)
    member_id, asked = desk.enter()
    desk.leave(member_id)
    assert asked.error is ErrorCode.UNKNOWN_MEMBER_ID
    desk.advance(DELAY_MS)
    assert desk.is_in(GroupState.EMPTY)
    assert desk.last.members == []
    desk.check_rebuilt()


def test_a_new_member_that_hung_up_is_left_out() -> None:
    desk = ClassicDesk(initial_rebalance_delay_ms=DELAY_MS)
    _, gone = desk.enter()
    member_id, asked = desk.enter()
    gone.ticket.hang_up()
    desk.advance(2 * DELAY_MS)
    assert [row.member_id for row in asked.reply.members] == [member_id]
    assert asked.reply.leader == member_id


def test_a_known_member_that_hung_up_may_come_back() -> None:
    desk = ClassicDesk()
    leader, follower = desk.stable(2)
    desk.join(follower.member_id).ticket.hang_up()
    desk.join(leader.member_id)
    assert follower.member_id in desk.group.members.by_id
    assert desk.join(follower.member_id).reply.generation_id == 2


# Later rebalances


def test_a_later_rebalance_does_not_wait_longer_than_it_must() -> None:
    desk = ClassicDesk(initial_rebalance_delay_ms=DELAY_MS)
    members = desk.stable(2)
    first, second = desk.rejoin(members)
    assert first.reply.generation_id == second.reply.generation_id == 2


def test_who_does_not_rejoin_in_time_is_removed() -> None:
    desk = ClassicDesk()
    leader, late, third = desk.stable(3)
    asked = [desk.join(leader.member_id), desk.join(third.member_id)]
    for _ in range(REBALANCE_MS // 5_000):
        assert asked[0].is_parked
        assert desk.heartbeat(late).error is ErrorCode.REBALANCE_IN_PROGRESS, "alive, but busy with its records"
        desk.advance(5_000)
    assert [each.reply.generation_id for each in asked] == [2, 2]
    assert desk.heartbeat(late).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.join(late.member_id).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_slowest_member_says_how_long_the_others_wait() -> None:
    desk = ClassicDesk()
    leader, slow = desk.stable(2, session_ms=1_000_000)
    desk.join(slow.member_id, protocols={"range": b"1"}, rebalance_ms=500_000, session_ms=1_000_000)
    desk.advance(REBALANCE_MS)
    desk.join(leader.member_id, session_ms=1_000_000)
    waiting = desk.join(leader.member_id, session_ms=1_000_000)
    desk.sync(Joined(slow.member_id, 2))
    assert waiting.reply.generation_id == 2
    desk.join(leader.member_id, protocols={"range": b"2"}, session_ms=1_000_000)
    desk.advance(499_999)
    assert slow.member_id in desk.group.members.by_id
    desk.advance(1)
    assert slow.member_id not in desk.group.members.by_id


def test_a_leader_that_does_not_rejoin_is_replaced() -> None:
    desk = ClassicDesk()
    leader, second, third = desk.stable(3)
    asked = desk.join(third.member_id, protocols={"range": b"else"})
    desk.join(second.member_id)
    for _ in range(REBALANCE_MS // 5_000):
        assert desk.heartbeat(leader).error is ErrorCode.REBALANCE_IN_PROGRESS
        desk.advance(5_000)
    assert desk.group.members.by_id.keys() == {second.member_id, third.member_id}
    assert asked.reply.leader == second.member_id


def test_a_static_member_need_not_rejoin_but_does_not_lead() -> None:
    desk = ClassicDesk()
    static = desk.stable(0, ["worker"])[0]
    assert desk.group.leader == static.member_id
    dynamic, asked = desk.enter(session_ms=2 * REBALANCE_MS)
    for _ in range(REBALANCE_MS // 5_000):
        desk.heartbeat(static)
        desk.advance(5_000)
    assert asked.reply.generation_id == 2
    assert asked.reply.leader == dynamic
    assert [row.member_id for row in asked.reply.members] == [static.member_id, dynamic]


def test_static_members_of_which_none_rejoins_are_waited_for_again() -> None:
    desk = ClassicDesk()
    first, second = desk.stable(0, ["one", "two"], session_ms=1_000_000)
    desk.join(first.member_id, "one", protocols={"range": b"else"}, session_ms=1_000_000)
    desk.leave(first.member_id)
    desk.advance(REBALANCE_MS)
    assert desk.is_in(GroupState.PREPARING)
    assert desk.group.generation == 1
    desk.advance(REBALANCE_MS - 1)
    assert desk.join(second.member_id, "two", session_ms=1_000_000).reply.generation_id == 2


def test_members_that_wait_for_a_reply_are_alive() -> None:
    desk = ClassicDesk()
    leader, follower = desk.stable(2)
    asked = desk.join(leader.member_id)
    for _ in range(4):
        desk.heartbeat(follower)
        desk.advance(SESSION_MS - 1)
    assert asked.is_parked
    desk.join(follower.member_id)
    assert asked.reply.generation_id == 2
    waiting = desk.sync(follower._replace(generation=2))
    for _ in range(4):
        desk.heartbeat(leader._replace(generation=2))
        desk.advance(SESSION_MS - 1)
    assert waiting.is_parked
    desk.sync(leader._replace(generation=2), {follower.member_id: b"1"})
    assert waiting.reply.assignment == b"1"
    desk.advance(SESSION_MS - 1)
    assert follower.member_id in desk.group.members.by_id


# Sessions


def test_who_is_not_heard_of_is_removed() -> None:
    desk = ClassicDesk()
    leader, follower = desk.stable(2)
    desk.advance(SESSION_MS - 1)
    desk.heartbeat(follower)
    desk.advance(1)
    assert desk.group.members.by_id.keys() == {follower.member_id}
    assert desk.heartbeat(follower).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.heartbeat(leader).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_everybody_dies() -> None:
    desk = ClassicDesk()
    desk.stable(5, ["one", "two"])
    desk.advance(SESSION_MS)
    assert desk.is_in(GroupState.EMPTY)
    assert (desk.last.generation, desk.last.members, desk.last.protocol) == (2, [], None)
    assert desk.group.due_ms == float("inf")
    desk.check_rebuilt()


def test_who_dies_while_others_wait_for_it_ends_their_waiting() -> None:
    desk = ClassicDesk()
    leader, _ = desk.stable(2)
    asked = desk.join(leader.member_id)
    desk.advance(SESSION_MS)
    assert asked.reply.generation_id == 2
    assert len(asked.reply.members) == 1


def test_a_leader_that_dies_before_it_assigns() -> None:
    desk = ClassicDesk()
    leader, follower = desk.stable(2)
    desk.rejoin([leader, follower])
    waiting = desk.sync(follower._replace(generation=2))
    desk.advance(SESSION_MS)
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    asked = desk.join(follower.member_id)
    assert asked.reply.leader == follower.member_id
    assert asked.reply.generation_id == 3


def test_a_tick_that_comes_too_early_does_nothing() -> None:
    desk = ClassicDesk()
    desk.stable(2)
    before = desk.group.due_ms
    assert desk.run(desk.shard.tick(desk.group.group_id, desk.now_ms)) == []
    assert desk.group.due_ms == before


# Waiting for SyncGroup: KAFKA-12890


def test_a_leader_that_sends_heartbeats_and_no_assignment_is_removed() -> None:
    desk = ClassicDesk()
    leader, follower = (member._replace(generation=2) for member in desk.stable(2))
    desk.rejoin([leader, follower])
    waiting = desk.sync(follower)
    for _ in range(REBALANCE_MS // 5_000):
        assert desk.heartbeat(leader).error is ErrorCode.NONE
        assert waiting.is_parked
        desk.advance(5_000)
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.heartbeat(leader).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_follower_that_sends_heartbeats_and_never_syncs_is_removed() -> None:
    desk = ClassicDesk()
    leader, follower = (member._replace(generation=2) for member in desk.stable(2))
    desk.rejoin([leader, follower])
    desk.sync(leader)
    assert desk.is_in(GroupState.STABLE)
    for _ in range(REBALANCE_MS // 5_000):
        assert desk.heartbeat(leader).error is ErrorCode.NONE
        assert desk.heartbeat(follower).error is ErrorCode.NONE
        desk.advance(5_000)
    assert desk.heartbeat(leader).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.heartbeat(follower).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_when_all_have_synced_nothing_is_waited_for() -> None:
    desk = ClassicDesk()
    members = desk.stable(2)
    for _ in range(2 * REBALANCE_MS // 5_000):
        assert [desk.heartbeat(member).error for member in members] == [ErrorCode.NONE, ErrorCode.NONE]
        desk.advance(5_000)
    assert desk.is_in(GroupState.STABLE)


# Restarts


def test_members_keep_ids_and_generation_and_get_a_whole_session() -> None:
    desk = ClassicDesk()
    members = desk.stable(2, ["worker"])
    desk.advance(SESSION_MS - 1)
    desk.restart()
    desk.advance(SESSION_MS - 1)
    assert [desk.heartbeat(member).error for member in members] == [ErrorCode.NONE] * 3
    assert desk.sync(members[2]).reply.assignment == b"2"
    desk.restart()
    desk.advance(SESSION_MS)
    assert desk.is_in(GroupState.EMPTY)


def test_a_restart_in_a_rebalance_comes_back_to_the_generation_before() -> None:
    desk = ClassicDesk()
    members = desk.stable(2)
    desk.rejoin(members)
    assert desk.group.generation == 2
    desk.restart()
    assert desk.group.generation == 1
    assert desk.heartbeat(members[0]._replace(generation=2)).error is ErrorCode.ILLEGAL_GENERATION
    again = desk.rejoin(members)
    assert [asked.reply.generation_id for asked in again] == [2, 2]


def test_after_a_restart_one_protocol_is_known_of_every_member() -> None:
    desk = ClassicDesk()
    _, follower = desk.stable(2, protocols=["range", "sticky"])
    desk.restart()
    assert desk.join(protocols=["sticky"]).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert desk.join(follower.member_id, protocols=["range", "sticky"]).is_parked, "that is a change"


# Large groups


def walks(count: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often somebody goes through all members while one of so many is restarted, and everybody rebalances."""
    desk = ClassicDesk()
    members = desk.stable(count)
    walked = 0
    walk = ClassicMembers.__iter__

    def counted(self: ClassicMembers) -> Iterator[ClassicMember]:
        nonlocal walked
        walked += 1
        return walk(self)

    with monkeypatch.context() as patch:
        patch.setattr(ClassicMembers, "__iter__", counted)
        desk.leave(members[0].member_id)
        staying = [member._replace(generation=2) for member in members[1:]]
        asked = desk.rejoin(staying)
        assert asked[-1].reply.generation_id == 2
        desk.assign(staying)
        for member in staying:
            assert desk.heartbeat(member).error is ErrorCode.NONE
    return walked


def test_a_rebalance_does_not_go_through_all_members_for_every_member(monkeypatch: pytest.MonkeyPatch) -> None:
    assert walks(40, monkeypatch) == walks(5, monkeypatch) > 0


# Protocols


@pytest.mark.parametrize(
    "likes, selected",
    [
        ([["a", "b"], ["b", "a"], ["b", "a"]], "b"),
        ([["a", "b"], ["b", "a"]], "a"),
        ([["b", "a"], ["a", "b"]], "b"),
        ([["a", "b", "c"], ["c", "b"], ["c", "b"]], "c"),
        ([["a", "b", "c"], ["c", "b"], ["b"]], "b"),
        ([["x", "c", "b"], ["b", "c", "y"], ["z", "b", "c"]], "b"),
    ],
)
def test_most_votes_win_and_the_leader_decides_ties(likes: list[list[str]], selected: str) -> None:
    desk = ClassicDesk(initial_rebalance_delay_ms=DELAY_MS)
    asked = [desk.enter(protocols=protocols)[1] for protocols in likes]
    desk.advance(2 * DELAY_MS)
    assert {each.reply.protocol_name for each in asked} == {selected}
    assert asked[0].reply.leader == asked[0].reply.member_id


def test_a_group_may_move_to_another_protocol_member_by_member() -> None:
    desk = ClassicDesk()
    leader, follower = desk.stable(2, protocols=["range"])
    both, new = ["cooperative-sticky", "range"], ["cooperative-sticky"]
    desk.join(follower.member_id, protocols=both)
    assert desk.join(leader.member_id, protocols=["range"]).reply.protocol_name == "range"
    assert desk.join(follower.member_id, protocols=new).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    desk.join(leader.member_id, protocols=both)
    assert desk.join(follower.member_id, protocols=both).reply.protocol_name == "cooperative-sticky"
    desk.join(follower.member_id, protocols=new)
    assert desk.join(leader.member_id, protocols=new).reply.protocol_name == "cooperative-sticky"


# Log lines


def test_reasons_are_logged_short_and_on_one_line(caplog: pytest.LogCaptureFixture) -> None:
    desk = ClassicDesk("group\nof mine")
    member = desk.stable(0, ["in\nstance"])[0]
    with caplog.at_level(logging.INFO, "headgate.groups"):
        desk.join(member.member_id, member.instance_id, reason="tired\nof " + "x" * 1_000)
        desk.leave(MemberIdentity("", member.instance_id))
    assert not [line for line in caplog.messages if "\n" in line]
    line = caplog.messages[0]
    assert "tired\\nof" in line
    assert len(line) < MAX_REASON_LENGTH + 200


def test_a_group_logs_a_limited_number_of_lines(caplog: pytest.LogCaptureFixture) -> None:
    desk = ClassicDesk()
    member = desk.stable()[0]
    desk.advance(LOG_INTERVAL_MS - SESSION_MS)
    with caplog.at_level(logging.INFO, "headgate.groups"):
        for number in range(3 * LOG_LINES):
            desk.join(member.member_id, protocols={"range": b"%d" % number})
    assert 0 < len(caplog.messages) <= LOG_LINES
