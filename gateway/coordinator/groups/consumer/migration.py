"""The conversion of live groups (KIP-848, "Migration"), as `group.consumer.migration.policy` allows.

    upgrade    a member of the consumer protocol joins a classic group of consumers: all others become members of the
               consumer group, still use the classic protocol (`classic_protocol.py`), and keep their partitions
    downgrade  the last member of the consumer protocol leaves: the others become a classic group, which rebalances

Either is one batch: the tombstones of the one kind, then the records of the other. An empty group is converted whatever
the policy is: it has no members that would notice.

A downgraded group is written without a leader, unlike any other classic group with assignments. By this its first tick,
also after a crash, knows that it must rebalance: no member reads the partitions of the member that left.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping

from headgate.gateway.coordinator.decision import Records, Reply, Ticket
from headgate.gateway.coordinator.groups.classic.group import ClassicGroup, join_refused
from headgate.gateway.coordinator.groups.classic.members import ClassicMember
from headgate.gateway.coordinator.groups.consumer import group_records
from headgate.gateway.coordinator.groups.consumer.assignors import NOTHING, Assignment, TopicId
from headgate.gateway.coordinator.groups.consumer.group import ConsumerGroup
from headgate.gateway.coordinator.groups.consumer.members import ConsumerMember
from headgate.gateway.coordinator.groups.group_shard import GroupShard, TopicsView
from headgate.gateway.coordinator.groups.settings import GroupSettings
from headgate.protocol.errors import ErrorCode, KafkaError, MalformedRequest
from headgate.protocol.internal import consumer_protocol
from headgate.protocol.internal.consumer_protocol import PROTOCOL_TYPE, ConsumerProtocolAssignment, TopicPartition
from headgate.protocol.internal.offsets import (
    ClassicMemberMetadata,
    ClassicProtocol,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from headgate.protocol.messages.sync_group import SyncGroupResponse

logger = logging.getLogger("headgate.groups")

_UPGRADES = ("upgrade", "bidirectional")
_DOWNGRADES = ("downgrade", "bidirectional")


# Upgrade


def upgrade(shard: GroupShard, group: ClassicGroup) -> Records:
    """The records that convert a classic group to a consumer group. Raises KafkaError(GROUP_ID_NOT_FOUND).

    `dismissed` answers members that wait for a reply, once everything else of the decision is certain.
    """
    # A group with offsets only has no record
    records = group.tombstones() if group.recorded is not None else []
    if not len(group.members):
        return records
    refusal = _refusal_of_upgrade(group, shard.settings)
    if refusal is not None:
        raise KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND, f"the classic group {group.group_id!r} cannot be converted: {refusal}"
        )
    try:
        members = _upgraded(group, shard.topics)
    except MalformedRequest as error:
        raise KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND, f"the group {group.group_id!r} cannot be converted: {error}"
        ) from None
    logger.info("group %r becomes a consumer group, with %d classic members", group.group_id, len(members))
    name, epoch = group.group_id, group.generation
    records += [group_records.member(name, member) for member in members]
    records.append(group_records.epoch(name, epoch, 0))
    records += [group_records.target(name, member.member_id, member.assigned) for member in members]
    records.append(group_records.target_epoch(name, epoch))
    records += [group_records.current(name, member) for member in members]
    return records


def _refusal_of_upgrade(group: ClassicGroup, settings: GroupSettings) -> str | None:
    if settings.consumer_migration_policy.lower() not in _UPGRADES:
        return "group.consumer.migration.policy does not allow it"
    if group.protocol_type != PROTOCOL_TYPE:
        return f"its protocol type is {group.protocol_type!r}"
    if len(group.members) > settings.consumer_max_size:
        return f"it has {len(group.members)} members, more than group.consumer.max.size"
    return None


def _upgraded(group: ClassicGroup, topics: TopicsView) -> list[ConsumerMember]:
    """The members, stable with their assignments. The first of two members that claim a partition gets it."""
    taken: set[tuple[TopicId, int]] = set()
    members = []
    for classic in group.members:
        metadata = classic.protocols.get(group.protocol or "") or next(iter(classic.protocols.values()))
        subscription = consumer_protocol.decode_subscription(metadata)
        assigned: dict[TopicId, frozenset[int]] = {}
        for topic, numbers in _assigned(classic, topics).items():
            free = frozenset(number for number in numbers if (topic, number) not in taken)
            taken.update((topic, number) for number in free)
            if free:
                assigned[topic] = free
        members.append(
            ConsumerMember(
                member_id=classic.member_id,
                instance_id=classic.instance_id,
                rack_id=subscription.rack_id or None,
                client_id=classic.client_id,
                client_host=classic.client_host,
                topics=frozenset(subscription.topics),
                rebalance_timeout_ms=classic.rebalance_timeout_ms,
                classic=metadata_of(classic.session_timeout_ms, classic.protocols),
                epoch=group.generation,
                previous_epoch=group.generation,
                assigned=assigned,
            )
        )
    return members


def _assigned(member: ClassicMember, topics: TopicsView) -> Assignment:
    if not member.assignment:
        return NOTHING
    assignment = consumer_protocol.decode_assignment(member.assignment)
    if assignment.user_data:
        raise MalformedRequest("a custom assignor put data into the assignments, which would be lost")
    return with_ids(assignment.assigned_partitions, topics)


def dismissed(group: ClassicGroup, now_ms: float) -> list[tuple[Ticket, Reply]]:
    """Answer the members that wait for a rebalance: they join again, then the consumer group.

    If the write fails, the group stays classic: the sessions of these members have just begun.
    """
    replies: list[tuple[Ticket, Reply]] = []
    for member in group.members:
        version, join, sync = member.join_version, group.members.take_join(member), member.sync
        member.sync = None
        group.wake_at(member.begin_session(now_ms))
        if join is not None:
            replies.append((join, join_refused(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id, version)))
        if sync is not None:
            replies.append((sync, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)))
    return replies


def metadata_of(session_timeout_ms: int, protocols: Mapping[str, bytes]) -> ClassicMemberMetadata:
    """The stored metadata of a member that uses the classic protocol."""
    return ClassicMemberMetadata(
        session_timeout_ms, [ClassicProtocol(name, metadata) for name, metadata in protocols.items()]
    )


# Downgrade


def may_downgrade(group: ConsumerGroup, leaving: Collection[str], settings: GroupSettings) -> bool:
    """Whether the group may become classic without the leaving members: all others use the classic protocol."""
    staying = [member for member in group.members.values() if member.member_id not in leaving]
    if not staying or any(member.classic is None for member in staying):
        return False
    if settings.consumer_migration_policy.lower() not in _DOWNGRADES:
        return False
    return len(staying) <= settings.max_size and _common_protocol(staying) is not None


def downgrade(shard: GroupShard, group: ConsumerGroup, leaving: Collection[str]) -> Records:
    """The records that convert the remaining members to a classic group."""
    staying = [member for member in group.members.values() if member.member_id not in leaving]
    protocol = _common_protocol(staying)
    assert protocol is not None  # by may_downgrade
    logger.info("group %r becomes a classic group, with %d members", group.group_id, len(staying))
    members = []
    for member in staying:
        assert member.classic is not None  # by may_downgrade
        metadata = next(each.metadata for each in member.classic.supported_protocols if each.name == protocol)
        members.append(
            MemberMetadata(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.classic.session_timeout_ms,
                metadata,
                encoded(group.targets.get(member.member_id, NOTHING), metadata, shard.topics),
            )
        )
    value = GroupMetadataValue(PROTOCOL_TYPE, group.epoch, protocol, None, shard.timestamp_ms(), members)
    return [*group.tombstones(), (GroupMetadataKey(group.group_id), value)]


def _common_protocol(members: Collection[ConsumerMember]) -> str | None:
    """The common protocol with most votes; among equals the first of the first member's; None without one."""
    names = [[each.name for each in member.classic.supported_protocols] for member in members if member.classic]
    common = set(names[0]).intersection(*names[1:])
    votes = Counter(next(name for name in own if name in common) for own in names) if common else Counter()
    return max((name for name in names[0] if name in common), key=votes.__getitem__, default=None)


# Names and ids of topics


def with_ids(partitions: Collection[TopicPartition], topics: TopicsView) -> Assignment:
    """Partitions by topic id; missing topics are left out."""
    by_id: dict[TopicId, frozenset[int]] = {}
    for each in partitions:
        topic = topics.id_of(each.topic)
        if topic is not None and each.partitions:
            by_id[topic] = by_id.get(topic, frozenset()) | frozenset(each.partitions)
    return by_id


def encoded(assignment: Assignment, metadata: bytes, topics: TopicsView) -> bytes:
    """An encoded assignment for a consumer, in the version of the consumer's own metadata."""
    named = []
    for topic, numbers in assignment.items():
        name = topics.name_of(topic)
        if name is not None:
            named.append(TopicPartition(name, sorted(numbers)))
    named.sort(key=lambda each: each.topic)
    version = min(int.from_bytes(metadata[:2], "big"), ConsumerProtocolAssignment.versions.last)
    return consumer_protocol.encode(ConsumerProtocolAssignment(named), version)
