"""Members of a consumer group that still use the classic protocol (KIP-848, "Migration").

The member's epoch in the group is its generation. A heartbeat reports a new assignment by asking the member to join
again. JoinGroup answers at once with a generation, without waiting for other members. SyncGroup answers with the
assignment that the broker made: such a member never leads. The assignment omits partitions that the member has to give
up. A cooperative consumer gives them up, joins again, and reports its remaining partitions in its metadata (KIP-429).
An eager one has given up everything when it joins.

The member has to join within its rebalance timeout after the request to join, and to send SyncGroup within the same
time after that. Source: KIP-848, and Apache Kafka's `classicGroupJoinToConsumerGroup` and its siblings for the rest.
"""

from __future__ import annotations

from dataclasses import replace

from headgate.gateway.coordinator.decision import NEVER, Decision, RequestContext, Ticket
from headgate.gateway.coordinator.groups.classic.members import new_member
from headgate.gateway.coordinator.groups.consumer import migration
from headgate.gateway.coordinator.groups.consumer.draft import Draft, static_holder, succeed, update_subscription
from headgate.gateway.coordinator.groups.consumer.group import ConsumerGroup, MemberClock
from headgate.gateway.coordinator.groups.consumer.members import ConsumerMember
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.protocol.errors import ErrorCode, KafkaError, MalformedRequest
from headgate.protocol.internal import consumer_protocol
from headgate.protocol.internal.consumer_protocol import PROTOCOL_TYPE, ConsumerProtocolSubscription
from headgate.protocol.internal.offsets import UNRELEASED_PARTITIONS, UNREVOKED_PARTITIONS, ClassicMemberMetadata
from headgate.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headgate.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from headgate.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from headgate.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_MEMBER_ID_REQUIRED_SINCE = 4
_BATCHED_LEAVE_SINCE = 3


# JoinGroup


def join(
    shard: GroupShard,
    group: ConsumerGroup,
    request: JoinGroupRequest,
    request_context: RequestContext,
    ticket: Ticket,
    now_ms: float,
) -> Decision:
    """Become or stay a member.

    Raises KafkaError: GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL, MESSAGE_TOO_LARGE, UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID.
    """
    settings = shard.settings_of(group.group_id)
    is_known = request.member_id in group.members or request.group_instance_id in group.static
    if len(group.members) >= settings.consumer_max_size and not is_known:
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
    subscription = _subscription(group, request)
    if (
        not request.member_id
        and request.group_instance_id is None
        and request_context.version >= _MEMBER_ID_REQUIRED_SINCE
    ):
        refusal = request.error_response(request_context.version, ErrorCode.MEMBER_ID_REQUIRED)
        refusal.member_id = shard.new_member_id(request_context.client_id)
        return Decision.reply(ticket, refusal)
    described = new_member(
        request.member_id, request, request_context.client_id, request_context.client_host, request_context.version
    )
    if described.has_long_name() or described.stored_bytes() > settings.max_member_bytes:
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
    draft = Draft(shard, group)
    draft.may_describe = request_context.may_describe
    before = _find(draft, request, request_context)
    member = replace(
        before,
        instance_id=request.group_instance_id or before.instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        client_id=request_context.client_id,
        client_host=request_context.client_host,
        topics=frozenset(subscription.topics),
        expression="",
        rebalance_timeout_ms=described.rebalance_timeout_ms,
        classic=migration.metadata_of(request.session_timeout_ms, described.protocols),
    )
    if member.member_id not in draft.group.members or member != before:
        draft.put(member)
    has_resubscribed = update_subscription(draft, before, member, now_ms)
    draft.compute_target()
    reported = migration.with_ids(subscription.owned_partitions, shard.topics)
    after = draft.step(draft.group.members[member.member_id], reported, has_resubscribed=has_resubscribed)
    clock = draft.live.clock(after.member_id, now_ms + request.session_timeout_ms)
    clock.join_ms = clock.revoked_ms = NEVER
    clock.sync_ms = now_ms + after.rebalance_timeout_ms
    group.wake_at(clock.sync_ms)
    _maybe_downgrade(draft, before.member_id, request.group_instance_id)
    response = JoinGroupResponse(
        generation_id=after.epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=next(iter(described.protocols)),
        member_id=after.member_id,
    )
    return Decision(draft.records, [(ticket, response)], failed=group.mark_stale)


def _maybe_downgrade(draft: Draft, member_id: str, instance_id: str | None) -> None:
    """Downgrade the group if its last consumer-protocol member was static and returned with the classic protocol."""
    had = draft.live.static_member(instance_id) if instance_id is not None else draft.live.members.get(member_id)
    if had is None or had.classic is not None:
        return
    group, settings = draft.group, draft.shard.settings
    if migration.may_downgrade(group, (), settings):
        draft.records += migration.downgrade(draft.shard, group, ())


def _subscription(group: ConsumerGroup, request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    """The subscription in the member's preferred protocol. Raises KafkaError(INCONSISTENT_GROUP_PROTOCOL)."""
    classic = [member.classic for member in group.members.values() if member.classic is not None]
    names = [{each.name for each in other.supported_protocols} for other in classic]
    if request.protocol_type != PROTOCOL_TYPE or not any(
        all(protocol.name in others for others in names) for protocol in request.protocols
    ):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    try:
        return consumer_protocol.decode_subscription(request.protocols[0].metadata)
    except MalformedRequest:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL) from None


def _find(draft: Draft, request: JoinGroupRequest, request_context: RequestContext) -> ConsumerMember:
    """The joining member. An unknown id makes a new member, as in Kafka."""
    instance_id = request.group_instance_id
    if instance_id is None:
        member_id = request.member_id or draft.shard.new_member_id(request_context.client_id)
        return draft.group.members.get(member_id) or ConsumerMember(member_id)
    holder = draft.group.static_member(instance_id)
    if request.member_id:
        return static_holder(holder, instance_id, request.member_id)
    member_id = draft.shard.new_member_id(instance_id)
    return ConsumerMember(member_id) if holder is None else succeed(draft, holder, member_id, is_classic=True)


# SyncGroup, Heartbeat


def sync(
    shard: GroupShard,
    group: ConsumerGroup,
    request: SyncGroupRequest,
    request_context: RequestContext,
    ticket: Ticket,
    now_ms: float,
) -> Decision:
    """The member's assignment.

    Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL,
    REBALANCE_IN_PROGRESS.
    """
    member, classic = _member(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    protocol = classic.supported_protocols[0]
    if request.protocol_type not in {None, PROTOCOL_TYPE} or request.protocol_name not in {None, protocol.name}:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    clock = _restart_session(group, member, classic, now_ms)
    # A member that has to give up partitions has joined already, and gives them up before it joins again
    if group.epoch > member.epoch and member.state != UNREVOKED_PARTITIONS:
        _expect_join(group, member, clock, now_ms)
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    clock.sync_ms = NEVER
    response = SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=migration.encoded(member.assigned, protocol.metadata, shard.topics),
    )
    return Decision.reply(ticket, response)


def heartbeat(
    shard: GroupShard,
    group: ConsumerGroup,
    request: HeartbeatRequest,
    request_context: RequestContext,
    ticket: Ticket,
    now_ms: float,
) -> Decision:
    """REBALANCE_IN_PROGRESS if the member has to join again, else NONE.

    Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
    """
    member, classic = _member(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    clock = _restart_session(group, member, classic, now_ms)
    code = ErrorCode.NONE
    if member.epoch < group.epoch or member.state == UNREVOKED_PARTITIONS or _may_get_more(group, member):
        _expect_join(group, member, clock, now_ms)
        code = ErrorCode.REBALANCE_IN_PROGRESS
    return Decision.reply(ticket, HeartbeatResponse(0, code))


def _may_get_more(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether all partitions that the member still waits for are free."""
    if member.state != UNRELEASED_PARTITIONS:
        return False
    return all(
        group.is_free(topic, number)
        for topic, numbers in group.targets.get(member.member_id, {}).items()
        for number in numbers - member.assigned.get(topic, frozenset())
    )


def _restart_session(
    group: ConsumerGroup, member: ConsumerMember, classic: ClassicMemberMetadata, now_ms: float
) -> MemberClock:
    return group.clock(member.member_id, now_ms + classic.session_timeout_ms)


def _expect_join(group: ConsumerGroup, member: ConsumerMember, clock: MemberClock, now_ms: float) -> None:
    """Start the time for joining again, unless an earlier reply started it."""
    if clock.join_ms == NEVER:
        clock.join_ms = now_ms + member.rebalance_timeout_ms
        group.wake_at(clock.join_ms)


def _member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicMemberMetadata]:
    """The member, if it uses the classic protocol. Raises KafkaError(UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID)."""
    if instance_id is not None:
        member: ConsumerMember | None = static_holder(group.static_member(instance_id), instance_id, member_id)
    else:
        member = group.members.get(member_id)
    if member is None or member.classic is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member, member.classic


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)


# LeaveGroup


def leave(
    shard: GroupShard,
    group: ConsumerGroup,
    request: LeaveGroupRequest,
    request_context: RequestContext,
    ticket: Ticket,
    now_ms: float,
) -> Decision:
    """Remove members that use the classic protocol; the others leave by their own heartbeat."""
    batched = request_context.version >= _BATCHED_LEAVE_SINCE
    leaving = request.members if batched else [MemberIdentity(request.member_id)]
    draft = Draft(shard, group)
    rows = []
    for identity in leaving:
        row = MemberResponse(identity.member_id, identity.group_instance_id, ErrorCode.NONE)
        try:
            member = _leaver(draft.group, identity)
            draft.remove(member)
            row.member_id = member.member_id
        except KafkaError as error:
            row.error_code = error.code
        rows.append(row)
    if draft.records:
        draft.check_topics(bump=True)
    response = LeaveGroupResponse(members=rows) if batched else LeaveGroupResponse(error_code=rows[0].error_code)
    return Decision(draft.records, [(ticket, response)])


def _leaver(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    """The leaving member; an administrator may name a static member by its instance id alone. Raises KafkaError."""
    holder = group.static_member(identity.group_instance_id or "")
    member_id = identity.member_id or (holder.member_id if holder is not None else "")
    return _member(group, member_id, identity.group_instance_id)[0]
