"""The consumer group protocol (KIP-848): members join, stay and leave by one request, ConsumerGroupHeartbeat.

A heartbeat with a change takes four steps. Each step adds records, and sees the records of the earlier steps:

    1. the member as the request describes it, and the matches of its expression
    2. the group's epoch, one higher if subscriptions or topics changed
    3. the target of that epoch, if it is missing (`targets.py`)
    4. the member's next step towards its target (`members.py`)

A heartbeat without news takes no step: `_steady` answers with the reply of the last time.

A member leaves with epoch -1, or by silence; the epoch then goes up, and the next heartbeat of any member computes the
target. A static member that leaves with -2 keeps its place until its session ends, or until a successor joins with its
instance id. Source: KIP-848, and Apache Kafka's `GroupMetadataManager` for the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from headgate.gateway.coordinator.decision import NEVER, Decision, Reply, RequestContext, Ticket
from headgate.gateway.coordinator.groups.classic.group import ClassicGroup
from headgate.gateway.coordinator.groups.classic.rebalance import listed
from headgate.gateway.coordinator.groups.consumer import group_records, migration, targets
from headgate.gateway.coordinator.groups.consumer.draft import (
    Draft,
    check_size,
    static_holder,
    succeed,
    update_subscription,
)
from headgate.gateway.coordinator.groups.consumer.group import ConsumerGroup, MemberClock
from headgate.gateway.coordinator.groups.consumer.members import ConsumerMember, Owned, is_within, owned
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.coordinator.groups.settings import GroupSettings
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.offsets import UNREVOKED_PARTITIONS
from headgate.protocol.messages.consumer_group_heartbeat import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

__all__ = ["ConsumerGroup", "heartbeat", "tick"]

logger = logging.getLogger("headgate.groups")


def heartbeat(
    shard: GroupShard,
    request: ConsumerGroupHeartbeatRequest,
    request_context: RequestContext,
    ticket: Ticket,
    now_ms: float,
) -> Decision:
    """Join, stay or leave.

    Raises KafkaError: INVALID_REQUEST, UNSUPPORTED_VERSION, UNSUPPORTED_ASSIGNOR, GROUP_ID_NOT_FOUND,
    GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID,
    INVALID_REGULAR_EXPRESSION.
    """
    group = shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        response = _steady(shard, group, request, request_context, now_ms)
        if response is not None:
            return Decision([], [(ticket, response)])
    _check(request, request_context.version, shard.settings)
    if request.member_epoch < 0:
        return _leave(shard, request, ticket, now_ms)
    return _regular(shard, request, request_context, ticket, now_ms)


def _steady(
    shard: GroupShard,
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    request_context: RequestContext,
    now_ms: float,
) -> ConsumerGroupHeartbeatResponse | None:
    """The last reply, if nothing has changed since and the request has no news. Makes no records and no copies."""
    clock = group.clocks.get(request.member_id)
    if (
        clock is None
        or clock.version != group.version
        or clock.epoch != request.member_epoch
        or request.subscribed_topic_names is not None
        or request.topic_partitions is not None
        or request.rebalance_timeout_ms != -1
        or request.subscribed_topic_regex is not None
        or request.server_assignor is not None
        or request.rack_id is not None
    ):
        return None
    member = group.members[request.member_id]
    settings = clock.settings
    if (
        settings is not shard.settings_of(group.group_id)
        or request.instance_id != member.instance_id
        or request_context.client_id != member.client_id
        or request_context.client_host != member.client_host
    ):
        return None
    clock.session_ms = now_ms + settings.consumer_session_timeout_ms
    return clock.steady


def _regular(
    shard: GroupShard,
    request: ConsumerGroupHeartbeatRequest,
    request_context: RequestContext,
    ticket: Ticket,
    now_ms: float,
) -> Decision:
    draft = _open(shard, request)
    draft.may_describe = request_context.may_describe
    settings = shard.settings_of(request.group_id)
    _check_room(draft.group, request, settings)
    reported = owned(request.topic_partitions)
    before = _find(draft, request, reported)
    member = _described(before, request, request_context)
    if member is not before or member.member_id not in draft.group.members:
        check_size(member, settings)
        draft.put(member)
    has_resubscribed = update_subscription(draft, before, member, now_ms)
    draft.compute_target()
    after = draft.step(draft.group.members[member.member_id], reported, has_resubscribed=has_resubscribed)
    clock = _restart(draft, after, settings, now_ms)
    is_full = (
        request.rebalance_timeout_ms != -1
        and reported is not None
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
    )
    response = ConsumerGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=settings.consumer_heartbeat_interval_ms,
    )
    if not draft.records:
        _remember(draft.live, after, clock, response, settings)
    if is_full or request.member_epoch == JOIN_EPOCH or after.assigned != before.assigned:
        response = replace_assignment(response, after)
    replies: list[tuple[Ticket, Reply]] = [(ticket, response)]
    if draft.converted is not None:
        replies += migration.dismissed(draft.converted, now_ms)
    return Decision(draft.records, replies, failed=draft.live.mark_stale)


def replace_assignment(
    response: ConsumerGroupHeartbeatResponse, member: ConsumerMember
) -> ConsumerGroupHeartbeatResponse:
    """A reply with the member's assignment; `response` itself stays without it, for later heartbeats."""
    topics = [TopicPartitions(topic, sorted(numbers)) for topic, numbers in sorted(member.assigned.items())]
    return ConsumerGroupHeartbeatResponse(
        member_id=response.member_id,
        member_epoch=response.member_epoch,
        heartbeat_interval_ms=response.heartbeat_interval_ms,
        assignment=Assignment(topics),
    )


def _remember(
    group: ConsumerGroup,
    member: ConsumerMember,
    clock: MemberClock,
    response: ConsumerGroupHeartbeatResponse,
    settings: GroupSettings,
) -> None:
    """Keep the reply for `_steady`, if this heartbeat needed no step."""
    if member.is_at(group.target_epoch) and group.epoch == group.target_epoch and not group.is_stale:
        clock.version, clock.epoch, clock.settings, clock.steady = group.version, member.epoch, settings, response


def _check(request: ConsumerGroupHeartbeatRequest, version: int, settings: GroupSettings) -> None:
    """Check the fields of a request. Raises KafkaError."""
    if "consumer" not in settings.rebalance_protocols:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the consumer group protocol is disabled on this broker")
    epoch = request.member_epoch
    needs_id = version >= 1 or epoch > 0 or epoch == LEAVE_EPOCH
    refusal = None
    if needs_id and not request.member_id.strip():
        refusal = "the member id is empty"
    elif not request.group_id.strip():
        refusal = "the group id is empty"
    elif request.instance_id is not None and not request.instance_id.strip():
        refusal = "the instance id is empty; leave it null if there is none"
    elif request.rack_id is not None and not request.rack_id.strip():
        refusal = "the rack id is empty; leave it null if there is none"
    elif epoch == JOIN_EPOCH:
        refusal = _refusal_of_join(request)
    elif epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        refusal = "a member without an instance id leaves with epoch -1"
    elif epoch < LEAVE_STATIC_EPOCH:
        refusal = f"{epoch} is no member epoch"
    if refusal is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, refusal)
    if request.server_assignor is not None and request.server_assignor not in targets.supported(settings):
        names = ", ".join(targets.supported(settings))
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR, f"the assignor {request.server_assignor!r} does not exist; use {names}"
        )


def _refusal_of_join(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == -1:
        return "a joining member needs a rebalance timeout (the time for giving up partitions)"
    if request.topic_partitions is None or request.topic_partitions:
        return "a joining member owns no partitions: send an empty list"
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "a joining member needs a subscription; an empty one is allowed"
    return None


def _open(shard: GroupShard, request: ConsumerGroupHeartbeatRequest) -> Draft:
    """The group of the request; created or converted for a joining member. Raises KafkaError(GROUP_ID_NOT_FOUND)."""
    group = shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        return Draft(shard, group)
    if isinstance(group, ClassicGroup) and request.member_epoch != JOIN_EPOCH:
        # Kafka's GROUP_ID_NOT_FOUND makes clients give up: this member was away during the group's downgrade
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"the group {request.group_id!r} is a classic group now")
    if request.member_epoch != JOIN_EPOCH:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"the consumer group {request.group_id!r} does not exist")
    if group is None:
        return Draft(shard, ConsumerGroup(request.group_id))
    if not isinstance(group, ClassicGroup):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"the group {request.group_id!r} is no consumer group")
    draft = Draft(shard, ConsumerGroup(request.group_id), migration.upgrade(shard, group))
    draft.converted = group
    return draft


def _check_room(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, settings: GroupSettings) -> None:
    is_known = request.member_id in group.members or request.instance_id in group.static
    if len(group.members) >= settings.consumer_max_size and not is_known:
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"the group has {len(group.members)} members, the maximum")


def _find(draft: Draft, request: ConsumerGroupHeartbeatRequest, reported: Owned | None) -> ConsumerMember:
    """The member that sends the request; a new one if it joins. Raises KafkaError."""
    joins = request.member_epoch == JOIN_EPOCH
    member_id = request.member_id or str(draft.shard.new_uuid())
    if request.instance_id is not None:
        member = draft.group.static_member(request.instance_id)
        if joins and member is not None and member.member_id != member_id:
            return succeed(draft, member, member_id)
        if not joins:
            member = static_holder(member, request.instance_id, member_id)
    else:
        member = draft.group.members.get(member_id)
    if member is None:
        if joins:
            return ConsumerMember(member_id)
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} is not a member of {request.group_id!r}")
    if member.epoch == LEAVE_STATIC_EPOCH and joins:
        return succeed(draft, member, member_id)
    _check_epoch(member, request.member_epoch, reported)
    return member


def _check_epoch(member: ConsumerMember, epoch: int, reported: Owned | None) -> None:
    """Check that the member is at the group's epoch for it. Raises KafkaError(FENCED_MEMBER_EPOCH).

    Epoch 0 starts over. A member at the previous epoch missed the last reply; it must then read nothing new.
    """
    if epoch in (JOIN_EPOCH, member.epoch):
        return
    if epoch == member.previous_epoch < member.epoch and is_within(reported, member.assigned):
        return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"the member is at epoch {member.epoch}, not {epoch}; it has to give up its partitions and join again",
    )


def _described(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, request_context: RequestContext
) -> ConsumerMember:
    """The member with the fields of the request; absent fields stay. The same object if nothing changes."""
    fields: dict[str, object] = {
        "client_id": request_context.client_id,
        "client_host": request_context.client_host,
        "classic": None,
    }
    if request.instance_id is not None:
        fields["instance_id"] = request.instance_id
    if request.rack_id is not None:
        fields["rack_id"] = request.rack_id
    if request.rebalance_timeout_ms != -1:
        fields["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    if request.server_assignor is not None:
        fields["assignor"] = request.server_assignor
    if request.subscribed_topic_names is not None:
        fields["topics"] = frozenset(request.subscribed_topic_names)
    if request.subscribed_topic_regex is not None:
        fields["expression"] = request.subscribed_topic_regex
    changes = {name: value for name, value in fields.items() if value != getattr(member, name)}
    return replace(member, **changes) if changes else member  # type: ignore[arg-type]


def _restart(draft: Draft, member: ConsumerMember, settings: GroupSettings, now_ms: float) -> MemberClock:
    """Restart the member's session, and the time for giving up partitions if these are new."""
    clock = draft.live.clock(member.member_id, now_ms + settings.consumer_session_timeout_ms)
    clock.join_ms = clock.sync_ms = NEVER
    before = draft.live.members.get(member.member_id)
    if member.state != UNREVOKED_PARTITIONS:
        clock.revoked_ms = NEVER
    elif before is None or before.state != member.state or before.revoking != member.revoking:
        clock.revoked_ms = now_ms + member.rebalance_timeout_ms
        draft.live.wake_at(clock.revoked_ms)
    return clock


def _leave(shard: GroupShard, request: ConsumerGroupHeartbeatRequest, ticket: Ticket, now_ms: float) -> Decision:
    group = shard.groups.get(request.group_id)
    if not isinstance(group, ConsumerGroup):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"the consumer group {request.group_id!r} does not exist")
    if request.instance_id is None:
        member = group.members.get(request.member_id)
    else:
        member = static_holder(group.static_member(request.instance_id), request.instance_id, request.member_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{request.member_id!r} is not a member of {request.group_id!r}")
    response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    if request.member_epoch == LEAVE_STATIC_EPOCH:
        away = [group_records.current(group.group_id, member.away())]
        return Decision(list(away), [(ticket, response)])
    decision = give_up(shard, group, [member], now_ms)
    decision.replies.append((ticket, response))
    return decision


def give_up(shard: GroupShard, group: ConsumerGroup, members: Iterable[ConsumerMember], now_ms: float) -> Decision:
    """Remove members. The next heartbeat of any member computes the target without them."""
    members = list(members)
    names = {member.member_id for member in members}
    if any(member.classic is None for member in members) and migration.may_downgrade(group, names, shard.settings):
        return Decision(migration.downgrade(shard, group, names))
    draft = Draft(shard, group)
    for member in members:
        draft.remove(member)
    draft.check_topics(bump=True)
    return Decision(draft.records)


def tick(shard: GroupShard, group: ConsumerGroup, now_ms: float) -> Decision:
    """Remove the members with a missed deadline, and start clocks for members without one."""
    settings = shard.settings_of(group.group_id)
    for member_id in [member_id for member_id in group.clocks if member_id not in group.members]:
        del group.clocks[member_id]
    expired: dict[str, ConsumerMember] = {}
    reasons: dict[str, list[str]] = {}
    for member in group.members.values():
        clock = group.clocks.get(member.member_id) or _start(group, member, settings, now_ms)
        if member.state != UNREVOKED_PARTITIONS:
            clock.revoked_ms = NEVER  # the record of the revocation could not be written
        reason = _overdue(member, clock, now_ms)
        if reason is not None:
            expired[member.member_id] = member
            reasons.setdefault(reason, []).append(member.member_id)
    for reason, names in reasons.items():
        logger.info("group %r removes %d members that %s: %s", group.group_id, len(names), reason, listed(names))
    group.due_ms = min((clock.next_ms for name, clock in group.clocks.items() if name not in expired), default=NEVER)
    if not expired:
        return Decision()
    # The replay of their tombstones removes them; if these cannot be written they stay: tick again in any case
    group.wake_at(now_ms + settings.consumer_heartbeat_interval_ms)
    return give_up(shard, group, expired.values(), now_ms)


def _start(group: ConsumerGroup, member: ConsumerMember, settings: GroupSettings, now_ms: float) -> MemberClock:
    """The first clock of a member, after a start of the broker or the conversion of its group."""
    timeout_ms = settings.consumer_session_timeout_ms if member.classic is None else member.classic.session_timeout_ms
    clock = group.clock(member.member_id, now_ms + timeout_ms)
    if member.state == UNREVOKED_PARTITIONS and member.classic is None:
        clock.revoked_ms = now_ms + member.rebalance_timeout_ms
    return clock


def _overdue(member: ConsumerMember, clock: MemberClock, now_ms: float) -> str | None:
    """The deadline that a member has missed, as text for the log; None if it has missed none."""
    if clock.session_ms <= now_ms:
        return "sent no heartbeat within their session timeouts"
    if clock.revoked_ms <= now_ms:
        return "did not give up partitions within their rebalance timeouts"
    if clock.join_ms <= now_ms:
        return "did not join again within their rebalance timeouts"
    if clock.sync_ms <= now_ms:
        return "did not send SyncGroup within their rebalance timeouts"
    return None
