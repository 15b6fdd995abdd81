"""The way of a classic group from one generation to the next.

A rebalance begins when a member joins with something new, leaves, or falls silent. It has two halves. In the first,
every member has to send JoinGroup within the longest rebalance timeout of all members (KIP-62). The group then removes
members that did not join, unless they are static (KIP-345). In the second half all members get the new generation; the
leader also gets the members and their metadata. Every member sends SyncGroup within the same time again. The leader's
SyncGroup brings the assignments, which are written before any member gets one.

A new group waits `group.initial.rebalance.delay.ms` for more members, and again while new ones join, up to the
rebalance timeout (KIP-134).
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable

from headgate.gateway.coordinator.decision import NEVER, Decision, Ticket
from headgate.gateway.coordinator.groups.classic.group import ClassicGroup, GroupState, InitialWait, join_refused
from headgate.gateway.coordinator.groups.classic.members import ClassicMember
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.sync_group import SyncGroupResponse

logger = logging.getLogger("headgate.groups")

MAX_REASON_LENGTH = 255  # KIP-800
NOBODY_JOINED_MS = 1_000
"""The shortest wait for static members: with a rebalance timeout of 0 the group would check for joins at every turn."""


class RebalanceStep:
    """One decision about one group in the making: the group, and the decision so far."""

    __slots__ = ("decision", "group", "now_ms", "shard")

    def __init__(self, shard: GroupShard, group: ClassicGroup, now_ms: float) -> None:
        self.shard = shard
        self.group = group
        self.now_ms = now_ms
        self.decision = Decision()

    def log(self, message: str, *arguments: object) -> None:
        """Log a line about the group, within the limit of `may_log`."""
        if self.group.may_log(self.now_ms):
            logger.info(message, *arguments)

    # Replies

    def refuse_join(self, member: ClassicMember, code: ErrorCode, member_id: str = "") -> None:
        """Answer the member's waiting JoinGroup with an error, if any. Without an id the client starts over."""
        version, ticket = member.join_version, self.group.members.take_join(member)
        if ticket is not None:
            self.decision.replies.append((ticket, join_refused(code, member_id, version)))

    def refuse_sync(self, member: ClassicMember, code: ErrorCode) -> None:
        """Answer the member's waiting SyncGroup with an error, if any, and start a session: the client is alive."""
        ticket, member.sync = member.sync, None
        if ticket is not None:
            self.decision.replies.append((ticket, SyncGroupResponse(error_code=code)))
            self.begin_session(member)

    def begin_session(self, member: ClassicMember) -> None:
        """Start a session of the member."""
        self.group.wake_at(member.begin_session(self.now_ms))

    def park_join(self, member: ClassicMember, ticket: Ticket, version: int) -> None:
        """Park a member until the next generation. An earlier parked JoinGroup is answered with an error."""
        earlier_version = member.join_version
        earlier = self.group.members.park_join(member, ticket, version)
        if earlier is not None:
            refusal = join_refused(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id, earlier_version)
            self.decision.replies.append((earlier, refusal))

    # The first half

    def rebalance_or_complete(self, reason: str) -> None:
        """Begin a rebalance after a change. In the first half of one, continue if all members have joined now."""
        if self.group.state is GroupState.PREPARING:
            self.complete_if_all_joined()
        else:
            self.prepare(reason)

    def prepare(self, reason: str) -> None:
        """Begin a rebalance: every member has to join again."""
        group = self.group
        if group.state is GroupState.COMPLETING:
            for member in group.members:
                self.refuse_sync(member, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync.clear()
        group.sync_due_ms = NEVER
        self.log("group %r rebalances after generation %d: %s", group.group_id, group.generation, reason)
        group.initial_wait = InitialWait.QUIET if group.state is GroupState.EMPTY else InitialWait.NONE
        group.move_to(GroupState.PREPARING, self.shard.timestamp_ms())
        if group.initial_wait is InitialWait.QUIET:
            self._wait_for_more()
        elif self._all_joined():
            self.complete()
        else:
            self._wait_for_joins()

    def complete_if_all_joined(self) -> None:
        """Continue if no member is missing; a new group waits for its time in any case."""
        group = self.group
        if group.state is GroupState.PREPARING and group.initial_wait is InitialWait.NONE and self._all_joined():
            self.complete()

    def join_timeout(self) -> None:
        """End the first half; a new group gets more time if members joined since the last extension."""
        group = self.group
        if group.initial_wait is not InitialWait.GROWING or not group.remaining_delay_ms:
            self.complete()
            return
        group.initial_wait = InitialWait.QUIET
        delay_ms = min(self.shard.settings.initial_rebalance_delay_ms, group.remaining_delay_ms)
        group.remaining_delay_ms -= delay_ms
        group.join_due_ms = self.now_ms + delay_ms
        group.wake_at(group.join_due_ms)

    def complete(self) -> None:
        """Make the next generation from the members that have joined."""
        group = self.group
        group.join_due_ms = NEVER
        self._drop_missing()
        if len(group.members) and not self._elect():
            self.log("no member of group %r has joined; the group waits for its members again", group.group_id)
            self._wait_for_joins(NOBODY_JOINED_MS)
            return
        group.generation += 1
        group.initial_wait = InitialWait.NONE
        timestamp_ms = self.shard.timestamp_ms()
        if len(group.members):
            group.move_to(GroupState.COMPLETING, timestamp_ms)
            self._announce_generation()
        else:
            group.protocol = group.leader = None
            group.move_to(GroupState.EMPTY, timestamp_ms)
            self.decision.records.append(group.record(timestamp_ms))
            self.log("group %r has no more members; generation %d", group.group_id, group.generation)

    def _all_joined(self) -> bool:
        return self.group.members.all_joined and not self.group.pending

    def _wait_for_more(self) -> None:
        group = self.group
        delay_ms = self.shard.settings.initial_rebalance_delay_ms
        if delay_ms <= 0:
            self.complete()
            return
        group.remaining_delay_ms = max(group.members.rebalance_timeout_ms() - delay_ms, 0)
        group.join_due_ms = self.now_ms + delay_ms
        group.wake_at(group.join_due_ms)

    def _wait_for_joins(self, at_least_ms: int = 0) -> None:
        group = self.group
        group.join_due_ms = self.now_ms + max(group.members.rebalance_timeout_ms(), at_least_ms)
        group.wake_at(group.join_due_ms)

    def _drop_missing(self) -> None:
        """Remove the members that did not join, and new members whose connection has closed since."""
        group = self.group
        missing = [
            member
            for member in group.members
            if member.instance_id is None and (member.join is None or (member.is_new and member.join.is_gone))
        ]
        for member in missing:
            self.refuse_join(member, ErrorCode.UNKNOWN_MEMBER_ID)
            group.remove(member.member_id)
        if missing:
            names = listed(member.member_id for member in missing)
            self.log("group %r continues without %d that did not join: %s", group.group_id, len(missing), names)

    def _elect(self) -> bool:
        """Make a joined member the leader; false if none joined, as all are static."""
        members = self.group.members
        leader = members.by_id.get(self.group.leader or "")
        if leader is None or leader.join is None:
            leader = next((member for member in members if member.join is not None), None)
            if leader is None:
                return False
            self.group.leader = leader.member_id
        return True

    def _announce_generation(self) -> None:
        group = self.group
        assert group.leader is not None  # by _elect
        group.protocol = group.members.select_protocol(group.leader)
        for member in group.members:
            ticket = group.members.take_join(member)
            if ticket is not None:
                self.decision.replies.append((ticket, group.joined(member.member_id)))
            member.is_new = False
            self.begin_session(member)
        group.pending_sync = set(group.members.by_id)
        group.sync_due_ms = self.now_ms + group.members.rebalance_timeout_ms()
        group.wake_at(group.sync_due_ms)

    # Members that go

    def remove(self, member: ClassicMember) -> None:
        """Remove a member. A waiting request gets UNKNOWN_MEMBER_ID, so that a live client starts over."""
        self.refuse_join(member, ErrorCode.UNKNOWN_MEMBER_ID)
        self.refuse_sync(member, ErrorCode.UNKNOWN_MEMBER_ID)
        self.group.remove(member.member_id)

    def sync_timeout(self) -> None:
        """Remove the members that sent no SyncGroup in this generation (KAFKA-12890: else the group is stuck)."""
        group = self.group
        group.sync_due_ms = NEVER
        late = [group.members.by_id[member_id] for member_id in group.pending_sync if member_id in group.members.by_id]
        if group.state in {GroupState.COMPLETING, GroupState.STABLE} and late:
            for member in late:
                self.remove(member)
            self.prepare(f"{len(late)} members did not send SyncGroup in time")

    def expire(self) -> None:
        """Remove members whose session is over; a waiting request keeps all but new members alive."""
        group = self.group
        expired = [member_id for member_id, expires_ms in group.pending.items() if expires_ms <= self.now_ms]
        for member_id in expired:
            del group.pending[member_id]
        over = [member for member in group.members if member.deadline_ms <= self.now_ms]
        gone = []
        for member in over:
            if not member.is_new and (member.join is not None or member.sync is not None):
                member.deadline_ms = NEVER  # until the reply
            else:
                gone.append(member)
                self.remove(member)
        if gone:
            names = listed(member.member_id for member in gone)
            self.log("group %r: the session of %d members is over: %s", group.group_id, len(gone), names)
            if group.state is GroupState.PREPARING:
                self.complete_if_all_joined()
            else:
                self.prepare(f"{len(gone)} members sent no more heartbeats")
        elif expired:
            self.complete_if_all_joined()


def listed(names: Iterable[str | None]) -> str:
    """The first few of many names that clients have chosen."""
    return ", ".join(quoted(name) for name in itertools.islice(names, 10))


def quoted(reason: str | None) -> str:
    """The reason that a client gave, shortened, on one line."""
    return repr(reason[:MAX_REASON_LENGTH]) if reason else "not provided"
