"""The records of `__consumer_offsets`: the function that replays each type, and shards with both protocols."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from headgate.gateway.coordinator.groups.classic import group as classic_group
from headgate.gateway.coordinator.groups.classic.group import ClassicGroup
from headgate.gateway.coordinator.groups.consumer import group as consumer_group
from headgate.gateway.coordinator.groups.group_shard import GroupShard, RecordReplay, TopicsView
from headgate.gateway.coordinator.groups.settings import GroupSettings
from headgate.protocol.internal import offsets as records
from headgate.protocol.schema import Message

REPLAYS: Mapping[type[Message], RecordReplay] = {
    records.GroupMetadataKey: classic_group.replay,
    records.ConsumerGroupMetadataKey: consumer_group.replay,
    records.ConsumerGroupPartitionMetadataKey: consumer_group.replay,
    records.ConsumerGroupMemberMetadataKey: consumer_group.replay,
    records.ConsumerGroupTargetAssignmentMetadataKey: consumer_group.replay,
    records.ConsumerGroupTargetAssignmentMemberKey: consumer_group.replay,
    records.ConsumerGroupCurrentMemberAssignmentKey: consumer_group.replay,
    records.ConsumerGroupRegularExpressionKey: consumer_group.replay,
}


def _no_configs(_: str) -> Mapping[str, str]:
    return {}


def new_shard(
    settings: GroupSettings,
    topics: TopicsView,
    random: Random,
    timestamp_ms: Callable[[], int],
    configs_of: Callable[[str], Mapping[str, str]] = _no_configs,
) -> GroupShard:
    """An empty shard; see `GroupShard` for the parameters."""
    return GroupShard(settings, topics, random, timestamp_ms, configs_of, REPLAYS, ClassicGroup)
