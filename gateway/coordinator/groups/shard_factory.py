"""Shards with both group protocols: the function for each type of record, group and request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from headgate.gateway.coordinator.groups.classic import group as classic_group
from headgate.gateway.coordinator.groups.classic import requests as classic_requests
from headgate.gateway.coordinator.groups.classic.group import ClassicGroup
from headgate.gateway.coordinator.groups.consumer import classic_protocol, heartbeats
from headgate.gateway.coordinator.groups.consumer import group as consumer_group
from headgate.gateway.coordinator.groups.consumer.group import ConsumerGroup
from headgate.gateway.coordinator.groups.group_shard import GroupFunctions, GroupShard, RecordReplay, TopicsView
from headgate.gateway.coordinator.groups.settings import GroupSettings
from headgate.protocol.internal import offsets as records
from headgate.protocol.messages.heartbeat import HeartbeatRequest
from headgate.protocol.messages.join_group import JoinGroupRequest
from headgate.protocol.messages.leave_group import LeaveGroupRequest
from headgate.protocol.messages.sync_group import SyncGroupRequest
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
FUNCTIONS = GroupFunctions(
    replays=REPLAYS,
    empty_group=ClassicGroup,
    ticks={ClassicGroup: classic_requests.tick, ConsumerGroup: heartbeats.tick},
    classic_requests={
        JoinGroupRequest: classic_protocol.join,
        SyncGroupRequest: classic_protocol.sync,
        HeartbeatRequest: classic_protocol.heartbeat,
        LeaveGroupRequest: classic_protocol.leave,
    },
)


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
    return GroupShard(settings, topics, random, timestamp_ms, configs_of, FUNCTIONS)
