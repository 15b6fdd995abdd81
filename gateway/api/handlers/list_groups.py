"""ListGroups: the groups that this broker coordinates.

v1 throttle   v3 flexible   v4 states (KIP-518)   v5 types (KIP-848)
"""

from collections.abc import Iterable
from typing import Any

from headgate.gateway.api.context import Context
from headgate.gateway.api.handlers import handles
from headgate.gateway.coordinator.groups.group_shard import Group
from headgate.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from headgate.protocol.steps import Steps, at_once

_GROUPS_A_STEP = 32


@handles(ListGroupsRequest, versions="0-5")
def list_groups(request: ListGroupsRequest, context: Context) -> Any:
    """Those in the wanted states and of the wanted types, however these are spelt; a filter that is empty takes all.

    While a part of the groups is loaded, nothing is told: the client would take it for all.
    """
    groups = [group for shard in context.broker.groups.shards() for group in shard.groups.values()]
    return at_once(_list(request, groups), len(groups))


def _list(request: ListGroupsRequest, groups: Iterable[Group]) -> Steps[ListGroupsResponse]:
    states, types = _filter(request.states_filter), _filter(request.types_filter)
    found = []
    for number, group in enumerate(groups, 1):
        if (not states or group.state.lower() in states) and (not types or group.kind in types):
            found.append(ListedGroup(group.group_id, group.protocol_type, group.state, group.kind))
        if not number % _GROUPS_A_STEP:
            yield
    return ListGroupsResponse(groups=found)


def _filter(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)
