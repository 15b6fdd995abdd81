"""ListGroups: the groups that this broker coordinates, and those that ZooKeeper has.

v1 throttle   v3 flexible   v4 states (KIP-518)   v5 types (KIP-848)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from headgate.gateway.api.authorization import AclOperation, AclResource, Authorization
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import with_view
from headgate.gateway.coordinator.groups.group_shard import Group
from headgate.gateway.runtime.tasks import Outcome, at_once_if_few
from headgate.gateway.zookeeper.group_rows import merge_listed
from headgate.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from headgate.protocol.steps import Steps

if TYPE_CHECKING:
    from headgate.gateway.zookeeper.group_view import Listing

_GROUPS_A_STEP = 32


def _authorize(authorization: Authorization) -> None:
    """Require DESCRIBE on the cluster, or on each group; denied groups are omitted."""
    if not authorization.holds_cluster(AclOperation.DESCRIBE):
        authorization.keep_rows(
            "groups", lambda row: authorization.shows(AclOperation.DESCRIBE, AclResource.GROUP, row.group_id)
        )


@handles(ListGroupsRequest, versions="0-5", authorize=_authorize)
def list_groups(request: ListGroupsRequest, context: HandlerContext) -> Outcome[ListGroupsResponse]:
    """The groups in the wanted states and of the wanted types, in any case; an empty filter matches all.

    While a part of the groups is loading, the request fails: clients would take a partial list for all groups.
    """
    groups = [group for shard in context.broker.groups.shards() for group in shard.groups.values()]
    view = context.broker.zookeeper_groups
    if view is None:
        return at_once_if_few(_list(request, groups), len(groups))
    nothing: Listing = {}
    return with_view(context, view.list_groups(), nothing, lambda listing: _list_both(request, groups, listing))


def _list(request: ListGroupsRequest, groups: Iterable[Group]) -> Steps[ListGroupsResponse]:
    states, types = _filter(request.states_filter), _filter(request.types_filter)
    rows = []
    for number, group in enumerate(groups, 1):
        if (not states or group.state.lower() in states) and (not types or group.kind in types):
            rows.append(ListedGroup(group.group_id, group.protocol_type, group.state, group.kind))
        if not number % _GROUPS_A_STEP:
            yield
    return ListGroupsResponse(groups=rows)


def _list_both(request: ListGroupsRequest, groups: Iterable[Group], listing: Listing) -> Steps[ListGroupsResponse]:
    response = yield from _list(ListGroupsRequest(), groups)
    states, types = _filter(request.states_filter), _filter(request.types_filter)
    response.groups = merge_listed(response.groups, listing, states, types)
    return response


def _filter(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)
