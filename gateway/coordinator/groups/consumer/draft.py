"""One decision about a consumer group in the making: the records so far, and the group after them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headgate.gateway.coordinator.decision import Records
from headgate.gateway.coordinator.groups.classic.group import ClassicGroup
from headgate.gateway.coordinator.groups.consumer import group_records, subscriptions, targets
from headgate.gateway.coordinator.groups.consumer.assignors import NOTHING
from headgate.gateway.coordinator.groups.consumer.group import ConsumerGroup
from headgate.gateway.coordinator.groups.consumer.members import ConsumerMember, Owned, reconcile
from headgate.gateway.coordinator.groups.consumer.subscriptions import Resolved
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.coordinator.groups.settings import MAX_NAME_BYTES, GroupSettings
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.offsets import GroupMetadataKey
from headgate.protocol.messages.consumer_group_heartbeat import LEAVE_STATIC_EPOCH


class Draft:
    """A group after the records decided so far: the input of the next step."""

    def __init__(
        self, shard: GroupShard, group: ConsumerGroup, records: Iterable[group_records.GroupRecord] = ()
    ) -> None:
        self.may_describe: Callable[[str], bool] | None = None
        """Whether the client of the request may know a topic of this name; None: every client may."""
        self.shard = shard
        self.live = group
        self.group = group
        self.records: Records = []
        self.converted: ClassicGroup | None = None  # the classic group that the decision converts
        for record in records:
            self.add(record)

    def add(self, record: group_records.GroupRecord) -> None:
        """Add a record and apply it to `group`. A record of the converted classic group changes nothing in `group`."""
        self.records.append(record)
        if isinstance(record[0], GroupMetadataKey):
            return
        if self.group is self.live:
            self.group = self.live.copy()
        self.group.apply(*record)

    def put(self, member: ConsumerMember) -> None:
        """Add the record of a member's description."""
        self.add(group_records.member(self.group.group_id, member))

    def remove(self, member: ConsumerMember) -> None:
        """Remove the member, and its expression unless another member has it."""
        for record in group_records.no_member(self.group.group_id, member.member_id):
            self.add(record)
        self.forget(member.expression)

    def forget(self, expression: str | None) -> None:
        """Remove an expression after its last member."""
        if expression and expression in self.group.resolved and not self.group.uses(expression):
            self.add(group_records.no_resolved(self.group.group_id, expression))

    def resolve(self, expressions: Iterable[str]) -> bool:
        """Match expressions with the present topics; true if an expression matches other topics than before.

        An expression matches no topic that the client of the request may not describe, as in Kafka.
        """
        changed = False
        topics = self.shard.topics
        for expression in expressions:
            matched = subscriptions.resolve(expression, topics.names())
            if self.may_describe is not None:
                matched = frozenset(filter(self.may_describe, matched))
            before = self.group.resolved.get(expression)
            if before is None or before.topics != matched:
                changed = True
                resolved = Resolved(matched, topics.generation, self.shard.timestamp_ms())
                self.add(group_records.resolved(self.group.group_id, expression, resolved))
        return changed

    def check_topics(self, *, bump: bool) -> None:
        """Begin the next epoch with `bump`, or if the topics have changed since the present epoch."""
        group = self.group
        fingerprint = subscriptions.fingerprint(group.subscribed(), self.shard.topics)
        if bump or fingerprint != group.metadata_hash:
            if group.has_partition_metadata:
                self.add(group_records.no_partition_metadata(group.group_id))
            self.add(group_records.epoch(group.group_id, group.epoch + 1, fingerprint))

    def compute_target(self) -> None:
        """Compute the target of the present epoch, if it is missing."""
        if self.group.epoch > self.group.target_epoch:
            for record in targets.compute(self.group, self.shard.topics, self.shard.settings):
                self.add(record)

    def step(self, member: ConsumerMember, reported: Owned | None, *, has_resubscribed: bool) -> ConsumerMember:
        """The member after its next step. Call this last: the step does not change `group`, which saves a copy."""
        group = self.group
        target = group.targets.get(member.member_id, NOTHING)
        if not has_resubscribed and member.is_at(group.target_epoch):
            return member
        wanted = targets.ids_of(group.topics_of(member), self.shard.topics)
        after = reconcile(member, group.target_epoch, target, wanted, group.is_free, reported, has_resubscribed)
        if after is not member:
            self.records.append(group_records.current(group.group_id, after))
        return after


def static_holder(member: ConsumerMember | None, instance_id: str, member_id: str) -> ConsumerMember:
    """The holder of the instance id, if it has this member id. Raises KafkaError."""
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has the instance id {instance_id!r}")
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID, f"the instance id {instance_id!r} belongs to {member.member_id!r} now"
        )
    return member


def succeed(draft: Draft, member: ConsumerMember, member_id: str, *, is_classic: bool = False) -> ConsumerMember:
    """Give a returning static member its old place, if the old member has left or either of the two is classic.

    Raises KafkaError(UNRELEASED_INSTANCE_ID).
    """
    if member.epoch != LEAVE_STATIC_EPOCH and member.classic is None and not is_classic:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID, f"the instance id {member.instance_id!r} belongs to {member.member_id!r}"
        )
    successor = member.successor(member_id)
    target = draft.group.targets.get(member.member_id, NOTHING)
    for record in group_records.no_member(draft.group.group_id, member.member_id):
        draft.add(record)
    draft.put(successor)
    draft.add(group_records.target(draft.group.group_id, member_id, target))
    draft.add(group_records.current(draft.group.group_id, successor))
    return successor


def check_size(member: ConsumerMember, settings: GroupSettings) -> None:
    for name in (member.member_id, member.instance_id, member.client_id):
        if name and len(name.encode()) > MAX_NAME_BYTES:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name[:100]!r}... has more than {MAX_NAME_BYTES} bytes")
    texts = (member.member_id, member.instance_id, member.rack_id, member.client_id, *member.topics)
    size = sum(len(text.encode()) for text in texts if text)
    if size > settings.max_member_bytes:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"ids and subscription of a member take {size} bytes; {settings.max_member_bytes} are allowed",
        )


def update_subscription(draft: Draft, before: ConsumerMember, member: ConsumerMember, now_ms: float) -> bool:
    """Update expressions and the group's epoch after `put`; return whether the member's subscription has changed."""
    live = draft.live
    new_expression = member.expression != before.expression
    if new_expression:
        draft.forget(before.expression)
        if member.expression and member.expression not in draft.group.resolved:
            if len(draft.group.resolved) >= subscriptions.MAX_EXPRESSIONS:
                raise KafkaError(
                    ErrorCode.INVALID_REGULAR_EXPRESSION,
                    f"the members of the group have {subscriptions.MAX_EXPRESSIONS} expressions, the maximum",
                )
            draft.resolve([member.expression])
    has_resubscribed = new_expression or member.topics != before.topics
    bump = has_resubscribed or not draft.group.epoch
    if live.is_stale and _may_refresh(draft, now_ms):
        draft.resolve(list(draft.group.resolved))
        live.is_stale = False
        live.refreshed_ms = now_ms
        draft.check_topics(bump=bump)
    elif bump:
        draft.check_topics(bump=True)
    return has_resubscribed


def _may_refresh(draft: Draft, now_ms: float) -> bool:
    """Whether to check the topics now: always without expressions, which is cheap; else after the refresh interval."""
    if not draft.group.resolved:
        return True
    topics, expressions = len(draft.shard.topics.names()), len(draft.group.resolved)
    interval_ms = subscriptions.refresh_interval_ms(topics, expressions)
    return now_ms >= draft.live.refreshed_ms + interval_ms
