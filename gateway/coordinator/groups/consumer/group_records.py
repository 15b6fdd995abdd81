"""The records of a consumer group (types 3 to 8 and 16 of `__consumer_offsets`): their encoding and decoding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias

from headgate.gateway.coordinator.groups.consumer.assignors import Assignment
from headgate.gateway.coordinator.groups.consumer.members import ConsumerMember
from headgate.gateway.coordinator.groups.consumer.subscriptions import Resolved
from headgate.protocol.internal.offsets import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartitions,
)
from headgate.protocol.schema import Message

GroupRecord: TypeAlias = tuple[Message, Message | None]


def member(group_id: str, of: ConsumerMember) -> GroupRecord:
    """The record of a member's description."""
    value = ConsumerGroupMemberMetadataValue(
        instance_id=of.instance_id,
        rack_id=of.rack_id,
        client_id=of.client_id,
        client_host=of.client_host,
        subscribed_topic_names=sorted(of.topics),
        subscribed_topic_regex=of.expression,
        rebalance_timeout_ms=of.rebalance_timeout_ms,
        server_assignor=of.assignor,
        classic_member_metadata=of.classic,
    )
    return ConsumerGroupMemberMetadataKey(group_id, of.member_id), value


def current(group_id: str, of: ConsumerMember) -> GroupRecord:
    """The record of a member's epoch, state and partitions."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=of.epoch,
        previous_member_epoch=of.previous_epoch,
        state=of.state,
        assigned_partitions=_topics(of.assigned),
        partitions_pending_revocation=_topics(of.revoking),
    )
    return ConsumerGroupCurrentMemberAssignmentKey(group_id, of.member_id), value


def target(group_id: str, member_id: str, assignment: Assignment) -> GroupRecord:
    """The record of the member's target."""
    value = ConsumerGroupTargetAssignmentMemberValue(_topics(assignment))
    return ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), value


def target_epoch(group_id: str, epoch: int) -> GroupRecord:
    """The record of the epoch of all targets."""
    key = ConsumerGroupTargetAssignmentMetadataKey(group_id)
    return key, ConsumerGroupTargetAssignmentMetadataValue(epoch)


def epoch(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    """The record of the group's epoch, with a hash of its topics at that epoch."""
    return ConsumerGroupMetadataKey(group_id), ConsumerGroupMetadataValue(epoch, metadata_hash)


def resolved(group_id: str, expression: str, of: Resolved) -> GroupRecord:
    """The record of the topics that an expression matched."""
    value = ConsumerGroupRegularExpressionValue(sorted(of.topics), of.generation, of.timestamp_ms)
    return ConsumerGroupRegularExpressionKey(group_id, expression), value


def no_resolved(group_id: str, expression: str) -> GroupRecord:
    """The tombstone of an expression without members."""
    return ConsumerGroupRegularExpressionKey(group_id, expression), None


def no_partition_metadata(group_id: str) -> GroupRecord:
    """The tombstone of the record of all topics, which Kafka before 4.1 had in place of the hash."""
    return ConsumerGroupPartitionMetadataKey(group_id), None


def no_member(group_id: str, member_id: str) -> list[GroupRecord]:
    """The tombstones of a member: its state first, its description last."""
    return [
        (ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        (ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None),
        (ConsumerGroupMemberMetadataKey(group_id, member_id), None),
    ]


def no_group(
    group_id: str, member_ids: Iterable[str], expressions: Iterable[str], *, has_partition_metadata: bool
) -> list[GroupRecord]:
    """The tombstones of a deleted or converted group, in Kafka's order: one kind of record after the other."""
    member_ids = list(member_ids)
    records: list[GroupRecord] = [
        (key_class(group_id, member_id), None)
        for key_class in (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupTargetAssignmentMemberKey)
        for member_id in member_ids
    ]
    records.append((ConsumerGroupTargetAssignmentMetadataKey(group_id), None))
    records += [(ConsumerGroupMemberMetadataKey(group_id, member_id), None) for member_id in member_ids]
    records += [no_resolved(group_id, expression) for expression in expressions]
    if has_partition_metadata:
        records.append(no_partition_metadata(group_id))
    records.append((ConsumerGroupMetadataKey(group_id), None))
    return records


def with_metadata(before: ConsumerMember, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    """The member with the description of a record."""
    return replace(
        before,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=frozenset(value.subscribed_topic_names),
        expression=value.subscribed_topic_regex or "",
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.server_assignor,
        classic=value.classic_member_metadata,
    )


def with_current(before: ConsumerMember, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
    """The member with the epoch, state and partitions of a record."""
    return replace(
        before,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=value.state,
        assigned=assignment(value.assigned_partitions),
        revoking=assignment(value.partitions_pending_revocation),
    )


def assignment(topics: Iterable[TopicPartitions]) -> Assignment:
    """Partitions by topic."""
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics if topic.partitions}


def _topics(of: Assignment) -> list[TopicPartitions]:
    return [TopicPartitions(topic, sorted(numbers)) for topic, numbers in sorted(of.items())]
