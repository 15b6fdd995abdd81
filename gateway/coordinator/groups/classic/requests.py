"""The classic group protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and ticks. Pure.

The broker ensures that at most one generation is alive and that all its members know it. The members decide everything
else: the leader reads the others' metadata and assigns. The rules follow Apache Kafka's group coordinator: KIP-62
(rebalance timeouts), KIP-134 (initial delay), KIP-345 and KIP-814 (static members), KIP-394 (member ids first), KIP-559
(protocol in SyncGroup) and KIP-800 (reasons). The deliberate differences:

| what | Kafka | here |
|---|---|---|
| a static member returns with other topics | keeps its assignment (KAFKA-12759) | the group rebalances |
| a static member returns to a group of `group.max.size` | refused | takes its own place |
| a new member hangs up before its first generation | a member until its session ends | left out |
| a second JoinGroup or SyncGroup of a member | never answers the first | answers REBALANCE_IN_PROGRESS |
| votes for protocols are even | any of them | the leader's preference |
| size of a member | limit of a record | `max_member_bytes`: MESSAGE_TOO_LARGE |

Requests to a consumer group are answered by `consumer/classic_protocol.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from headgate.gateway.coordinator.decision import NEVER, Decision, RequestContext, Ticket
from headgate.gateway.coordinator.groups.classic.group import ClassicGroup, GroupState, InitialWait, join_refused
from headgate.gateway.coordinator.groups.classic.members import (
    ClassicMember,
    new_member,
    protocols_of,
    rebalance_timeout_ms,
)
from headgate.gateway.coordinator.groups.classic.rebalance import RebalanceStep, listed, quoted
from headgate.gateway.coordinator.groups.group_shard import Group, GroupShard
from headgate.gateway.coordinator.groups.settings import MAX_NAME_BYTES
from headgate.protocol.errors import ErrorCode, KafkaError, MalformedRequest
from headgate.protocol.internal import consumer_protocol
from headgate.protocol.internal.offsets import GroupMetadataKey, GroupMetadataValue
from headgate.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headgate.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from headgate.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from headgate.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from headgate.protocol.schema import Message

__all__ = ["ClassicGroup", "heartbeat", "join", "leave", "sync", "tick"]

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60_000
"""A member without a generation cannot send heartbeats: so long its first JoinGroup may wait, as in Kafka."""

_MEMBER_ID_REQUIRED_SINCE = 4
_SKIP_ASSIGNMENT_SINCE = 9
_BATCHED_LEAVE_SINCE = 3
_PROTOCOL_IN_SYNC_SINCE = 5


# JoinGroup


def join(
    shard: GroupShard, request: JoinGroupRequest, request_context: RequestContext, ticket: Ticket, now_ms: float
) -> Decision:
    """Become or stay a member. The reply comes at once, or with the next generation."""
    settings = shard.settings
    if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
        return _refuse_join(ticket, ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id, request_context)
    group = shard.groups.get(request.group_id)
    if _is_consumer(group) and group.state != GroupState.EMPTY:  # an empty one becomes a classic group
        return _ask_consumer_group(shard, group, request, request_context, ticket, now_ms)
    if isinstance(group, ClassicGroup):
        return Join(shard, group, request, request_context, ticket, now_ms).decide()
    if request.member_id:
        return _refuse_join(ticket, ErrorCode.UNKNOWN_MEMBER_ID, request.member_id, request_context)
    return _join_new_group(shard, request, request_context, ticket, now_ms)


def _join_new_group(
    shard: GroupShard, request: JoinGroupRequest, request_context: RequestContext, ticket: Ticket, now_ms: float
) -> Decision:
    """Add the first member of a group. An empty consumer group of the same name ends in the same batch."""
    group_id = str(request.group_id)
    before = shard.groups.get(group_id)
    group = ClassicGroup(group_id, shard.timestamp_ms())
    decision = Join(shard, group, request, request_context, ticket, now_ms).decide()
    if group.state is GroupState.EMPTY and not group.pending:
        return decision  # the JoinGroup is refused
    shard.groups[group_id] = group
    created = GroupMetadataKey(group_id), GroupMetadataValue("", 0, None, None, shard.timestamp_ms())
    decision.records[:0] = [*(before.tombstones() if before is not None else []), created]

    def failed() -> None:
        if before is not None:
            shard.groups[group_id] = before
        else:
            del shard.groups[group_id]
        error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        waiting = [member.join for member in group.members if member.join is not None]
        decision.replies += [(parked, error) for parked in waiting]

    decision.failed = failed
    return decision


class Join(RebalanceStep):
    """The decision about one JoinGroup."""

    __slots__ = ("request", "request_context", "ticket")

    def __init__(
        self,
        shard: GroupShard,
        group: ClassicGroup,
        request: JoinGroupRequest,
        request_context: RequestContext,
        ticket: Ticket,
        now_ms: float,
    ) -> None:
        super().__init__(shard, group, now_ms)
        self.request = request
        self.request_context = request_context
        self.ticket = ticket

    def decide(self) -> Decision:
        """Refuse the request, answer it at once, or park its ticket and continue with the rebalance."""
        group, request = self.group, self.request
        if not self._is_accepted():
            self._refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
            self._kick(request.member_id)
        elif not self._is_consistent():
            self._refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif self._is_too_large():
            self._refuse(ErrorCode.MESSAGE_TOO_LARGE)
        elif not request.member_id:
            self._join_unknown()
        elif request.member_id in group.pending and request.group_instance_id is None:
            self._add(request.member_id)
        else:
            code = group.members.check(request.member_id, request.group_instance_id)
            if code is ErrorCode.NONE:
                self._rejoin(group.members.by_id[request.member_id])
            else:
                self._refuse(code)
        return self.decision

    def _refuse(self, code: ErrorCode, member_id: str | None = None) -> None:
        member_id = self.request.member_id if member_id is None else member_id
        self._reply(join_refused(code, member_id, self.request_context.version))

    def _reply(self, response: JoinGroupResponse) -> None:
        self.decision.replies.append((self.ticket, response))

    # Checks

    def _is_accepted(self) -> bool:
        """Whether there is room (KIP-389). Of rejoining members the first ones stay: the limit may be lower now."""
        group, limit = self.group, self.shard.settings.max_size
        member_id = self.request.member_id or group.members.by_instance.get(self.request.group_instance_id or "", "")
        member = group.members.by_id.get(member_id)
        if group.state is GroupState.PREPARING:
            return group.members.joining < limit or (member is not None and member.join is not None)
        return group.state is GroupState.EMPTY or member is not None or len(group.members) < limit

    def _kick(self, member_id: str) -> None:
        """Remove a member that found no room: the others need not wait for it."""
        self.group.pending.pop(member_id, None)
        member = self.group.members.by_id.get(member_id)
        if member is not None:
            self.remove(member)
        self.complete_if_all_joined()

    def _is_consistent(self) -> bool:
        """Whether the group and this member share a protocol."""
        request, group = self.request, self.group
        names = [protocol.name for protocol in request.protocols]
        if not len(group.members):
            return bool(request.protocol_type and names)
        return request.protocol_type == group.protocol_type and group.members.supports_any(names)

    def _is_too_large(self) -> bool:
        member = self._new("")
        long_type = len((self.request.protocol_type or "").encode()) > MAX_NAME_BYTES
        return long_type or member.has_long_name() or member.stored_bytes() > self.shard.settings.max_member_bytes

    # New members

    def _join_unknown(self) -> None:
        """Join without a member id: a new member, or a restarted static member."""
        request, group = self.request, self.group
        instance_id = request.group_instance_id
        member_id = self.shard.new_member_id(self.request_context.client_id if instance_id is None else instance_id)
        if instance_id is not None and instance_id in group.members.by_instance:
            self._replace(group.members.by_id[group.members.by_instance[instance_id]], member_id)
        elif instance_id is None and self.request_context.version >= _MEMBER_ID_REQUIRED_SINCE:
            group.add_pending(member_id, self.now_ms + request.session_timeout_ms)
            self._refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        else:
            self._add(member_id)

    def _new(self, member_id: str) -> ClassicMember:
        request_context = self.request_context
        return new_member(
            member_id, self.request, request_context.client_id, request_context.client_host, request_context.version
        )

    def _add(self, member_id: str) -> None:
        group = self.group
        if not len(group.members):
            group.protocol_type = str(self.request.protocol_type)
        member = self._new(member_id)
        member.is_new = True
        member.deadline_ms = self.now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS
        group.wake_at(member.deadline_ms)
        group.add(member)
        if group.initial_wait is InitialWait.QUIET:
            group.initial_wait = InitialWait.GROWING
        self.park_join(member, self.ticket, self.request_context.version)
        self.rebalance_or_complete(f"new member {quoted(member_id)}, reason: {quoted(self.request.reason)}")

    # Known members

    def _rejoin(self, member: ClassicMember) -> None:
        """Answer with the present generation if nothing has changed; else rebalance."""
        group = self.group
        unchanged = list(member.protocols.items()) == list(protocols_of(self.request.protocols).items())
        if unchanged and (
            group.state is GroupState.COMPLETING
            or (group.state is GroupState.STABLE and member.member_id != group.leader)
        ):
            self._reply(group.joined(member.member_id))  # the last reply got lost
        else:  # the leader of a stable group joins again to assign again
            self._update(member)
            self.park_join(member, self.ticket, self.request_context.version)
            self.rebalance_or_complete(
                f"{quoted(member.member_id)} joined again, reason: {quoted(self.request.reason)}"
            )

    def _update(self, member: ClassicMember) -> None:
        self.group.members.set_protocols(member, protocols_of(self.request.protocols))
        member.session_timeout_ms = self.request.session_timeout_ms
        member.rebalance_timeout_ms = rebalance_timeout_ms(self.request, self.request_context.version)

    # Static members (KIP-345)

    def _replace(self, old: ClassicMember, member_id: str) -> None:
        """Give a static member without its id a new one, and fence the old one."""
        group = self.group
        new = self._new(member_id)
        new.assignment = old.assignment
        new.begin_session(self.now_ms)
        group.wake_at(new.deadline_ms)
        if group.state is GroupState.STABLE and self._keeps_assignment(old, new):
            self._replace_quietly(old, new)
            return
        self.refuse_join(old, ErrorCode.FENCED_INSTANCE_ID, old.member_id)
        self.refuse_sync(old, ErrorCode.FENCED_INSTANCE_ID)
        group.replace(old, new)
        self.park_join(new, self.ticket, self.request_context.version)
        # The leader may know the old id already, and would assign nothing to the new one (KAFKA-9801)
        self.rebalance_or_complete(
            f"static member {quoted(new.instance_id)} came back, reason: {quoted(self.request.reason)}"
        )

    def _keeps_assignment(self, old: ClassicMember, new: ClassicMember) -> bool:
        """Whether the new instance changes nothing for the group: the same protocol, the same topics."""
        group = self.group
        protocol = group.protocol or ""
        if group.protocol_with(old, new) != protocol:
            return False
        return old.protocols[protocol] == new.protocols[protocol] or _same_topics(
            group.protocol_type, old.protocols[protocol], new.protocols[protocol]
        )

    def _replace_quietly(self, old: ClassicMember, new: ClassicMember) -> None:
        """Replace the member without a rebalance: write a record with the new id in the place of the old one.

        From v9 on, the reply says that the member leads and has nothing to assign (KIP-814). Before v9, the reply names
        the old id as the leader, so that the client does not act as the leader.
        """
        group = self.group
        leads = group.leader == old.member_id
        key, value = group.record(self.shard.timestamp_ms())
        place = next(place for place, member in enumerate(value.members) if member.member_id == old.member_id)
        value.members[place] = new.record(group.protocol or "", old.assignment)
        value.leader = new.member_id if leads else value.leader
        group.arriving = {new.member_id: new}
        self.decision.records.append((key, value))
        skips_assignment = leads and self.request_context.version >= _SKIP_ASSIGNMENT_SINCE
        response = JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol,
            leader=(value.leader if skips_assignment else group.leader) or "",
            skip_assignment=skips_assignment,
            member_id=new.member_id,
            members=[
                JoinGroupResponseMember(member.member_id, member.group_instance_id, member.subscription)
                for member in (value.members if skips_assignment else ())
            ],
        )
        self._reply(response)


def _same_topics(protocol_type: str, old: bytes, new: bytes) -> bool:
    """Whether a consumer subscribes to the same topics. Other members, and unreadable bytes, count as unchanged."""
    if protocol_type != consumer_protocol.PROTOCOL_TYPE:
        return True
    try:
        before, after = consumer_protocol.decode_topics(old), consumer_protocol.decode_topics(new)
    except MalformedRequest:
        return True
    return set(before) == set(after)


def _refuse_join(ticket: Ticket, code: ErrorCode, member_id: str, request_context: RequestContext) -> Decision:
    return Decision.reply(ticket, join_refused(code, member_id, request_context.version))


# SyncGroup


def sync(
    shard: GroupShard, request: SyncGroupRequest, request_context: RequestContext, ticket: Ticket, now_ms: float
) -> Decision:
    """Answer with the member's assignment. The leader's request brings all assignments; the others wait for it."""
    group = shard.groups.get(request.group_id)
    if _is_consumer(group):
        return _ask_consumer_group(shard, group, request, request_context, ticket, now_ms)
    code = _check_sync(group, request, request_context)
    if code is not ErrorCode.NONE:
        return Decision.reply(ticket, SyncGroupResponse(error_code=code))
    assert isinstance(group, ClassicGroup)  # by _check_sync
    member = group.members.by_id[request.member_id]
    if group.state is GroupState.STABLE:
        _synced(group, member.member_id)
        return Decision.reply(ticket, group.synced(member.assignment))
    largest = max((len(each.assignment) for each in request.assignments), default=0)
    is_leader = member.member_id == group.leader
    if is_leader and largest > shard.settings.max_member_bytes:
        return Decision.reply(ticket, SyncGroupResponse(error_code=ErrorCode.MESSAGE_TOO_LARGE))
    turn = RebalanceStep(shard, group, now_ms)
    turn.refuse_sync(member, ErrorCode.REBALANCE_IN_PROGRESS)  # an earlier request, from a lost connection
    member.sync = ticket
    _synced(group, member.member_id)
    if is_leader:
        _assign(turn, {each.member_id: bytes(each.assignment) for each in request.assignments})
    return turn.decision


def _check_sync(group: object, request: SyncGroupRequest, request_context: RequestContext) -> ErrorCode:
    if request_context.version >= _PROTOCOL_IN_SYNC_SINCE and (
        request.protocol_type is None or request.protocol_name is None
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if not isinstance(group, ClassicGroup):
        return ErrorCode.UNKNOWN_MEMBER_ID
    code = group.members.check(request.member_id, request.group_instance_id)
    if code is not ErrorCode.NONE:
        return code
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in {None, group.protocol_type} or request.protocol_name not in {None, group.protocol}:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING else ErrorCode.NONE


def _synced(group: ClassicGroup, member_id: str) -> None:
    group.pending_sync.discard(member_id)
    if not group.pending_sync and group.state is GroupState.STABLE:
        group.sync_due_ms = NEVER


def _assign(turn: RebalanceStep, assignments: dict[str, bytes]) -> None:
    """Write the leader's assignments, and answer the waiting members. Their replay makes the group stable."""
    group = turn.group
    turn.decision.records.append(group.record(turn.shard.timestamp_ms(), assignments))
    for member in group.members:
        ticket, member.sync = member.sync, None
        if ticket is not None:
            turn.decision.replies.append((ticket, group.synced(assignments.get(member.member_id, b""))))
            turn.begin_session(member)
    missing = sum(member.member_id not in assignments for member in group.members)
    turn.log(
        "group %r has generation %d with %d members, %d of them without an assignment",
        group.group_id,
        group.generation,
        len(group.members),
        missing,
    )

    def failed() -> None:
        group.pending_sync = set(group.members.by_id)  # all clients start over, and have until `sync_due_ms`

    turn.decision.failed = failed


# Heartbeat


def heartbeat(
    shard: GroupShard, request: HeartbeatRequest, request_context: RequestContext, ticket: Ticket, now_ms: float
) -> Decision:
    """Prolong a session. During a rebalance the reply asks the member to join again."""
    group = shard.groups.get(request.group_id)
    if not isinstance(group, ClassicGroup):
        if _is_consumer(group):
            return _ask_consumer_group(shard, group, request, request_context, ticket, now_ms)
        return Decision([], [(ticket, HeartbeatResponse(0, ErrorCode.UNKNOWN_MEMBER_ID))])
    member = group.members.by_id.get(request.member_id)
    if member is None or request.group_instance_id is not None:
        code = group.members.check(request.member_id, request.group_instance_id)
        if code is not ErrorCode.NONE:
            return Decision([], [(ticket, HeartbeatResponse(0, code))])
        member = group.members.by_id[request.member_id]
    if request.generation_id != group.generation:
        return Decision([], [(ticket, HeartbeatResponse(0, ErrorCode.ILLEGAL_GENERATION))])
    group.wake_at(member.begin_session(now_ms))
    code = ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING else ErrorCode.NONE
    return Decision([], [(ticket, HeartbeatResponse(0, code))])


# LeaveGroup


def leave(
    shard: GroupShard, request: LeaveGroupRequest, request_context: RequestContext, ticket: Ticket, now_ms: float
) -> Decision:
    """Remove members: the sender or, from v3 on, any members that an administrator names by their instance ids."""
    batched = request_context.version >= _BATCHED_LEAVE_SINCE
    leaving = request.members if batched else [MemberIdentity(request.member_id)]
    group = shard.groups.get(request.group_id)
    if _is_consumer(group):
        return _ask_consumer_group(shard, group, request, request_context, ticket, now_ms)
    if not isinstance(group, ClassicGroup):
        codes = [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
        return Decision.reply(ticket, left(leaving, codes, batched=batched))
    turn = RebalanceStep(shard, group, now_ms)
    size = len(group.members)
    codes = [_leave_one(turn, identity) for identity in leaving]
    gone = [identity for identity, code in zip(leaving, codes, strict=True) if code is ErrorCode.NONE]
    if len(group.members) < size:
        names = listed(identity.member_id or identity.group_instance_id for identity in gone)
        turn.rebalance_or_complete(f"{len(gone)} members left: {names}, reason: {quoted(gone[0].reason)}")
    elif gone:
        turn.complete_if_all_joined()  # the group waited for an id that had not joined yet
    turn.decision.replies.append((ticket, left(leaving, codes, batched=batched)))
    return turn.decision


def _leave_one(turn: RebalanceStep, identity: MemberIdentity) -> ErrorCode:
    group, member_id, instance_id = turn.group, identity.member_id, identity.group_instance_id
    if not member_id:
        member_id = group.members.by_instance.get(instance_id or "", "")
    if member_id in group.pending:
        del group.pending[member_id]
        return ErrorCode.NONE
    code = group.members.check(member_id, instance_id)
    if code is ErrorCode.NONE:
        turn.remove(group.members.by_id[member_id])
    return code


def left(leaving: Sequence[MemberIdentity], codes: Sequence[ErrorCode], *, batched: bool) -> LeaveGroupResponse:
    """A row for each member; before v3 the one member's error is the error of the response."""
    if not batched:
        return LeaveGroupResponse(error_code=codes[0])
    rows = [
        MemberResponse(identity.member_id, identity.group_instance_id, code)
        for identity, code in zip(leaving, codes, strict=True)
    ]
    return LeaveGroupResponse(members=rows)


# Time


def tick(shard: GroupShard, group: ClassicGroup, now_ms: float) -> Decision:
    """End expired sessions, pending ids, and waits for JoinGroup and SyncGroup."""
    turn = RebalanceStep(shard, group, now_ms)
    if group.has_replayed_members:
        group.loaded(now_ms)
        group.has_replayed_members = False
        if group.state is GroupState.STABLE and len(group.members) > shard.settings.max_size:
            turn.prepare(f"the loaded group has {len(group.members)} members, more than group.max.size")
        elif group.state is GroupState.STABLE and group.leader is None:
            turn.prepare("the last member with the consumer protocol is gone")  # see migration.py
    turn.expire()
    if group.sync_due_ms <= now_ms:
        turn.sync_timeout()
    if group.join_due_ms <= now_ms and group.state is GroupState.PREPARING:
        turn.join_timeout()
    group.due_ms = group.next_due_ms()
    return turn.decision


def _is_consumer(group: Group | None) -> TypeGuard[Group]:
    return group is not None and not isinstance(group, ClassicGroup)


def _ask_consumer_group(
    shard: GroupShard, group: Group, request: Message, request_context: RequestContext, ticket: Ticket, now_ms: float
) -> Decision:
    """The decision of a consumer group, some of whose members use the classic protocol (KIP-848)."""
    return shard.functions.classic_requests[type(request)](shard, group, request, request_context, ticket, now_ms)
