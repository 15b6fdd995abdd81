"""DescribeGroups: classic groups with their members.

v1 throttle   v3 authorized operations (KIP-430)   v4 static members (KIP-345)   v5 flexible   v6 GROUP_ID_NOT_FOUND
(KIP-1043)

An unknown group, or a group of another kind, is Dead; since version 6 it is not found. ConsumerGroupDescribe describes
consumer groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headgate.gateway.api.authorization import AclOperation, AclResource
from headgate.gateway.api.authorization_rules import authorize_group_operations, elements, every
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import describe_groups_each, with_view
from headgate.gateway.coordinator.groups.classic.requests import ClassicGroup
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.runtime.tasks import Outcome
from headgate.gateway.zookeeper.group_rows import merge_described
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from headgate.gateway.zookeeper.group_view import ZooKeeperGroup

_NOT_FOUND_FROM = 6
_DEAD = "Dead"


@handles(
    DescribeGroupsRequest,
    versions="0-6",
    authorize=every(elements(AclOperation.DESCRIBE, AclResource.GROUP, "groups", "groups"), authorize_group_operations),
)
def describe_groups(request: DescribeGroupsRequest, context: HandlerContext) -> Outcome[DescribeGroupsResponse]:
    """Describe every named group once."""
    view = context.broker.zookeeper_groups
    nothing: Mapping[str, ZooKeeperGroup] = {}
    if view is None:
        return _respond(request, context, nothing)
    return with_view(context, view.describe(request.groups), nothing, lambda found: _respond(request, context, found))


def _respond(
    request: DescribeGroupsRequest, context: HandlerContext, found: Mapping[str, ZooKeeperGroup]
) -> Outcome[DescribeGroupsResponse]:
    """The response with the groups that were found in ZooKeeper."""
    version = context.version

    def merged(rows: list[DescribedGroup]) -> DescribeGroupsResponse:
        merge_described(rows, found)
        return DescribeGroupsResponse(groups=rows)

    def refused(group_id: str, error: KafkaError) -> DescribedGroup:
        return DescribedGroup(error.code, error.message, group_id, _DEAD)

    return describe_groups_each(
        request.groups,
        lambda shard, group_id: _describe(shard, group_id, version),
        refused,
        merged if found else lambda rows: DescribeGroupsResponse(groups=rows),
        context,
        with_operations=request.include_authorized_operations,
    )


def _describe(shard: GroupShard, group_id: str, version: int) -> DescribedGroup:
    group = shard.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        return group.describe()
    if version < _NOT_FOUND_FROM:
        return DescribedGroup(group_id=group_id, group_state=_DEAD)
    message = f"group {group_id} is not a classic group" if group is not None else f"group {group_id} not found"
    return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, message, group_id, _DEAD)
