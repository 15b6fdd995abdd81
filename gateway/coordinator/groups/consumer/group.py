"""A consumer group (KIP-848): the state of its records, and the checks of requests. `heartbeats.py` decides.

    Empty        no members
    Assigning    the group's epoch is ahead of its target: any member's next heartbeat computes the target
    Reconciling  some members have not reached the target
    Stable       all members have reached the target
    Dead         deleted

Hard state: the epoch, the members, their targets, and the matches of expressions. Soft state: one clock for each
member, with the ends of its session and its revocation. A clock whose member's record could not be written is dropped;
a member without a clock gets one from the next tick.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from headgate.gateway.coordinator.decision import NEVER, Decision, Records
from headgate.gateway.coordinator.groups.consumer import group_records
from headgate.gateway.coordinator.groups.consumer.assignors import NOTHING, Assignment, TopicId
from headgate.gateway.coordinator.groups.consumer.members import ConsumerMember
from headgate.gateway.coordinator.groups.consumer.subscriptions import Resolved
from headgate.gateway.coordinator.groups.group_shard import GroupShard, TopicsView
from headgate.gateway.coordinator.groups.settings import GroupSettings
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal import offsets as layout
from headgate.protocol.internal.consumer_protocol import PROTOCOL_TYPE
from headgate.protocol.messages import consumer_group_describe as described
from headgate.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from headgate.protocol.schema import Message


class MemberClock:
    """The deadlines of one member, and the reply to its heartbeat while nothing changes.

    session_ms    end of the session                  revoked_ms  deadline for giving up revoked partitions
    join_ms       deadline of a classic member's JoinGroup, sync_ms of its SyncGroup
    steady        the reply for heartbeats with this epoch and these settings, while the group has this `version`
    """

    __slots__ = ("epoch", "join_ms", "revoked_ms", "session_ms", "settings", "steady", "sync_ms", "version")

    def __init__(self, session_ms: float) -> None:
        self.session_ms = session_ms
        self.revoked_ms = self.join_ms = self.sync_ms = NEVER
        self.version = -1
        self.epoch = 0
        self.settings: GroupSettings | None = None
        self.steady: ConsumerGroupHeartbeatResponse | None = None

    @property
    def next_ms(self) -> float:
        """The earliest deadline."""
        return min(self.session_ms, self.revoked_ms, self.join_ms, self.sync_ms)


class ConsumerGroup:
    """One consumer group.

    owners      topic -> partition -> the member that may read the partition or has not yet given it up
    static      instance id -> member id
    version     changes with every change: all results computed for an earlier version are void
    is_stale    topics changed since the epoch was computed: the next heartbeat checks them
    """

    __slots__ = (
        "clocks",
        "due_ms",
        "epoch",
        "group_id",
        "has_partition_metadata",
        "is_stale",
        "members",
        "metadata_hash",
        "owners",
        "refreshed_ms",
        "resolved",
        "static",
        "target_epoch",
        "targets",
        "version",
    )

    kind = "consumer"
    protocol_type = PROTOCOL_TYPE

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.target_epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Assignment] = {}
        self.resolved: dict[str, Resolved] = {}
        self.has_partition_metadata = False
        self.owners: dict[TopicId, dict[int, str]] = {}
        self.static: dict[str, str] = {}
        self.clocks: dict[str, MemberClock] = {}
        self.due_ms = -NEVER
        self.refreshed_ms = -NEVER
        self.version = 0
        self.is_stale = True

    # Hard state

    def copy(self) -> ConsumerGroup:
        """A copy of the hard state, for a decision that must see the effect of its own records."""
        group = ConsumerGroup(self.group_id)
        group.epoch, group.metadata_hash, group.target_epoch = self.epoch, self.metadata_hash, self.target_epoch
        group.has_partition_metadata = self.has_partition_metadata
        group.members, group.targets, group.resolved = dict(self.members), dict(self.targets), dict(self.resolved)
        group.owners = {topic: dict(owners) for topic, owners in self.owners.items()}
        group.static = dict(self.static)
        return group

    def apply(self, key: Message, value: Message | None) -> None:
        """Apply one record of this group."""
        self.version += 1
        _APPLY[type(key)](self, key, value)

    def _apply_epoch(self, key: layout.ConsumerGroupMetadataKey, value: layout.ConsumerGroupMetadataValue) -> None:
        if value is None:
            self.epoch = -1
        else:
            self.epoch, self.metadata_hash = value.epoch, value.metadata_hash

    def _apply_partition_metadata(self, key: Message, value: Message | None) -> None:
        self.has_partition_metadata = value is not None

    def _apply_member(
        self, key: layout.ConsumerGroupMemberMetadataKey, value: layout.ConsumerGroupMemberMetadataValue | None
    ) -> None:
        before = self.members.get(key.member_id)
        if value is not None:
            self._put(group_records.with_metadata(before or ConsumerMember(key.member_id), value))
        elif before is not None:
            self._release(before)
            del self.members[key.member_id]
            if self.static.get(before.instance_id or "") == key.member_id:
                del self.static[before.instance_id or ""]

    def _apply_current(
        self,
        key: layout.ConsumerGroupCurrentMemberAssignmentKey,
        value: layout.ConsumerGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        before = self.members.get(key.member_id)
        if value is not None:
            self._put(group_records.with_current(before or ConsumerMember(key.member_id), value))
        elif before is not None:
            self._put(before.gone())

    def _apply_target(
        self,
        key: layout.ConsumerGroupTargetAssignmentMemberKey,
        value: layout.ConsumerGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is None:
            self.targets.pop(key.member_id, None)
        else:
            self.targets[key.member_id] = group_records.assignment(value.topic_partitions)

    def _apply_target_epoch(
        self, key: Message, value: layout.ConsumerGroupTargetAssignmentMetadataValue | None
    ) -> None:
        self.target_epoch = -1 if value is None else value.assignment_epoch

    def _apply_expression(
        self,
        key: layout.ConsumerGroupRegularExpressionKey,
        value: layout.ConsumerGroupRegularExpressionValue | None,
    ) -> None:
        if value is None:
            self.resolved.pop(key.regular_expression, None)
        else:
            self.resolved[key.regular_expression] = Resolved(frozenset(value.topics), value.version, value.timestamp)

    def _put(self, member: ConsumerMember) -> None:
        before = self.members.get(member.member_id)
        if before is not None:
            self._release(before)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        for topic, numbers in member.owns:
            self.owners.setdefault(topic, {}).update(dict.fromkeys(numbers, member.member_id))

    def _release(self, member: ConsumerMember) -> None:
        for topic, numbers in member.owns:
            owners = self.owners.get(topic, {})
            for number in numbers:
                # Compaction may leave the record of the next owner before the release
                if owners.get(number) == member.member_id:
                    del owners[number]
            if not owners:
                self.owners.pop(topic, None)

    # Views for decisions

    @property
    def is_dead(self) -> bool:
        """Whether the last record has deleted the group."""
        return self.epoch < 0

    def is_free(self, topic: TopicId, partition: int) -> bool:
        return partition not in self.owners.get(topic, ())

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        return self.members.get(self.static.get(instance_id, ""))

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The names of a member's topics, subscribed by name or by expression."""
        resolved = self.resolved.get(member.expression) if member.expression else None
        return member.topics | resolved.topics if resolved else member.topics

    def subscribed(self) -> frozenset[str]:
        """The names of all subscribed topics. Most members share one set, which is added once."""
        expressions = {member.expression for member in self.members.values() if member.expression}
        matched = [self.resolved[expression].topics for expression in expressions if expression in self.resolved]
        return frozenset().union(*{member.topics for member in self.members.values()}, *matched)

    def uses(self, expression: str, except_for: str | None = None) -> bool:
        """Whether a member, other than `except_for`, subscribes to the expression."""
        return any(
            member.expression == expression for member in self.members.values() if member.member_id != except_for
        )

    def clock(self, member_id: str, session_ms: float) -> MemberClock:
        """The member's clock, with its session extended to `session_ms`."""
        clock = self.clocks.get(member_id)
        if clock is None:
            clock = self.clocks[member_id] = MemberClock(session_ms)
        clock.session_ms = session_ms
        self.due_ms = min(self.due_ms, session_ms)
        return clock

    def wake_at(self, when_ms: float) -> None:
        """Have the group ticked at this time or earlier."""
        self.due_ms = min(self.due_ms, when_ms)

    # The interface of the shard

    @property
    def state(self) -> str:
        """The state by Kafka's name."""
        if self.is_dead:
            return "Dead"
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if all(member.is_at(self.target_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    def loaded(self, now_ms: float) -> None:
        """Restart all sessions at the first tick, which knows the group's own timeout."""
        self.clocks.clear()
        self.due_ms = now_ms
        self.is_stale = True

    def topics_changed(self, shard: GroupShard, names: Collection[str], now_ms: float) -> Decision:
        """Leave the change to the next heartbeat: many new topics together make one rebalance."""
        if self.resolved or not self.subscribed().isdisjoint(names):
            self.mark_stale()
        return Decision()

    def mark_stale(self) -> None:
        """Void all steady replies, and have the next heartbeat resolve expressions and check topics."""
        self.is_stale = True
        self.version += 1

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, version: int, now_ms: float
    ) -> None:
        """Check the member's epoch; a client without membership may commit while the group is empty.

        Raises KafkaError: UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH, ILLEGAL_GENERATION.
        """
        if generation < 0 and not self.members:
            return
        member = self._member(member_id)
        if member.classic is None and version < 9:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, "members of the consumer protocol commit with OffsetCommit 9 or newer"
            )
        _check_epoch(member, generation)

    def check_transactional_commit(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """Check the member, if the request names one: old producers do not (KIP-447)."""
        if generation < 0 and (not self.members or (not member_id and instance_id is None)):
            return
        _check_epoch(self._member(member_id), generation)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Check the member's epoch, if the request names a member.

        Raises KafkaError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, ILLEGAL_GENERATION.
        """
        if member_id is not None or member_epoch >= 0:
            _check_epoch(self._member(member_id or ""), member_epoch)

    def check_delete(self) -> None:
        """Raises KafkaError(NON_EMPTY_GROUP) for a group with members."""
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def check_offset_delete(self) -> None:
        """Allow the deletion: `subscribes_to` protects subscribed topics."""

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic, by name or by expression."""
        return any(topic in member.topics for member in self.members.values()) or any(
            topic in resolved.topics for resolved in self.resolved.values()
        )

    def expires_from(self, committed_ms: int) -> int | None:
        """The commit: retention counts from it, with or without members."""
        return committed_ms

    def tombstones(self) -> Records:
        return group_records.no_group(
            self.group_id, self.members, self.resolved, has_partition_metadata=self.has_partition_metadata
        )

    def _member(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} is not a member of the group {self.group_id!r}"
            )
        return member

    # Views

    def describe(self, topics: TopicsView, default_assignor: str) -> described.DescribedGroup:
        """The row of ConsumerGroupDescribe."""
        return described.DescribedGroup(
            group_id=self.group_id,
            group_state=self.state,
            group_epoch=self.epoch,
            assignment_epoch=self.target_epoch,
            assignor_name=self.preferred_assignor() or default_assignor,
            members=[self._describe(member, topics) for member in self.members.values()],
        )

    def preferred_assignor(self) -> str | None:
        """The assignor with the votes of most members; among equals the first by name; None without votes."""
        votes: dict[str, int] = {}
        for member in self.members.values():
            if member.assignor is not None:
                votes[member.assignor] = votes.get(member.assignor, 0) + 1
        return max(sorted(votes), key=votes.__getitem__) if votes else None

    def _describe(self, member: ConsumerMember, topics: TopicsView) -> described.Member:
        kind = described.CONSUMER_MEMBER if member.classic is None else described.CLASSIC_MEMBER
        return described.Member(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=member.epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topics),
            subscribed_topic_regex=member.expression,
            assignment=described.Assignment(list(_named(member.assigned, topics))),
            target_assignment=described.Assignment(list(_named(self.targets.get(member.member_id, NOTHING), topics))),
            member_type=kind,
        )


def _named(assignment: Assignment, topics: TopicsView) -> Iterator[described.TopicPartitions]:
    """The rows of topics with their names; deleted topics are left out."""
    for topic, numbers in assignment.items():
        name = topics.name_of(topic)
        if name is not None:
            yield described.TopicPartitions(topic, name, sorted(numbers))


def _check_epoch(member: ConsumerMember, epoch: int) -> None:
    if epoch != member.epoch:
        raise KafkaError(
            ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION,
            f"the member {member.member_id!r} is at epoch {member.epoch}, not {epoch}",
        )


_APPLY: Final[Mapping[type[Message], Callable[[ConsumerGroup, Any, Any], None]]] = {
    layout.ConsumerGroupMetadataKey: ConsumerGroup._apply_epoch,  # noqa: SLF001 - the table of this class
    layout.ConsumerGroupPartitionMetadataKey: ConsumerGroup._apply_partition_metadata,  # noqa: SLF001
    layout.ConsumerGroupMemberMetadataKey: ConsumerGroup._apply_member,  # noqa: SLF001
    layout.ConsumerGroupTargetAssignmentMetadataKey: ConsumerGroup._apply_target_epoch,  # noqa: SLF001
    layout.ConsumerGroupTargetAssignmentMemberKey: ConsumerGroup._apply_target,  # noqa: SLF001
    layout.ConsumerGroupCurrentMemberAssignmentKey: ConsumerGroup._apply_current,  # noqa: SLF001
    layout.ConsumerGroupRegularExpressionKey: ConsumerGroup._apply_expression,  # noqa: SLF001
}


def replay(shard: GroupShard, key: Any, value: Message | None) -> None:
    """Replay one record of a consumer group. Records of a classic group of the same name may precede it.

    A simple group, created by committed offsets, has no records and is replaced, as in Kafka.
    """
    group = shard.groups.get(key.group_id)
    if not isinstance(group, ConsumerGroup):
        if value is None:
            return
        group = shard.groups[key.group_id] = ConsumerGroup(key.group_id)
    group.apply(key, value)
    if group.is_dead:
        del shard.groups[key.group_id]
