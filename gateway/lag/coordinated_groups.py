"""The groups that this broker coordinates: their offsets and members, in steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, Protocol

from headgate.gateway.coordinator.groups.classic.group import ClassicGroup
from headgate.gateway.coordinator.groups.consumer.group import ConsumerGroup
from headgate.gateway.coordinator.groups.group_shard import Group, GroupShard
from headgate.gateway.lag.readers import Committed, GroupReading, OwningMember
from headgate.protocol.errors import MalformedRequest
from headgate.protocol.internal.consumer_protocol import PROTOCOL_TYPE, decode_assignment
from headgate.protocol.internal.offsets import decode_offset
from headgate.protocol.steps import Steps

AT_ONCE: Final = 256
"""The offsets of one step: some 0.4 ms."""
_CACHED_ASSIGNMENTS: Final = 4_096


class CoordinatedGroups(Protocol):
    """The coordinator of groups, as the survey needs it."""

    def loaded_shards(self) -> Sequence[GroupShard]:
        """The shards that are loaded."""


def read_groups(groups: CoordinatedGroups) -> Steps[list[GroupReading]]:
    """All groups of the loaded shards, as they are at the step that reads them."""
    readings: list[GroupReading] = []
    count = 0
    for shard in groups.loaded_shards():
        for name, group in list(shard.groups.items()):
            reading = GroupReading(name, group.kind, str(group.state))
            reading.members, reading.owners = _members(shard, group)
            for topic, partitions in list(shard.offsets.groups.get(name, {}).items()):
                rows = reading.offsets[topic] = {}
                for index, packed in list(partitions.items()):
                    value = decode_offset(packed)
                    rows[index] = Committed(value.offset, value.commit_timestamp)
                    count += 1
                    if count % AT_ONCE == 0:
                        yield
            count += 1 + len(reading.owners)
            readings.append(reading)
            if count >= AT_ONCE:
                count = 0
                yield
    return readings


def _members(shard: GroupShard, group: Group) -> tuple[int, dict[tuple[str, int], OwningMember]]:
    """The number of members, and who reads which partition."""
    if isinstance(group, ClassicGroup):
        is_of_consumers = group.protocol_type == PROTOCOL_TYPE
        owners = {
            partition: OwningMember(member.member_id, member.client_id, member.client_host)
            for member in (group.members if is_of_consumers else ())
            for partition in _assigned(member.assignment)
        }
        return len(group.members), owners
    if isinstance(group, ConsumerGroup):
        return len(group.members), dict(_owned(shard, group))
    return 0, {}


def _owned(shard: GroupShard, group: ConsumerGroup) -> Iterator[tuple[tuple[str, int], OwningMember]]:
    for member in group.members.values():
        owner = OwningMember(member.member_id, member.client_id, member.client_host)
        for topic_id, numbers in member.assigned.items():
            name = shard.topics.name_of(topic_id)
            if name is not None:
                yield from (((name, index), owner) for index in numbers)


@lru_cache(_CACHED_ASSIGNMENTS)
def _assigned(data: bytes) -> Iterable[tuple[str, int]]:
    """The partitions in the assignment of a classic member; none if only the member's own client can read it."""
    try:
        topics = decode_assignment(data).assigned_partitions if data else ()
    except MalformedRequest:
        return ()
    return tuple([(topic.topic, index) for topic in topics for index in topic.partitions])
