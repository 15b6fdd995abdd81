"""ListGroups: the groups that this broker coordinates.

v1 throttle   v3 flexible   v4 states (KIP-518)   v5 types (KIP-848)
"""

from collections.abc import Iterable

from gateway.context import Context
from gateway.handlers import handles
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


@handles(ListGroupsRequest, versions="0-5")
def list_groups(request: ListGroupsRequest, context: Context) -> ListGroupsResponse:
    """Those in the wanted states and of the wanted types, however these are spelt; a filter that is empty takes all.

    While a part of the groups is loaded, nothing is told: the client would take it for all.
    """
    states, types = _filter(request.states_filter), _filter(request.types_filter)
    found = [
        ListedGroup(group.group_id, group.protocol_type, group.state, group.kind)
        for shard in context.broker.groups.shards()
        for group in shard.groups.values()
        if (not states or group.state.lower() in states) and (not types or group.kind in types)
    ]
    return ListGroupsResponse(groups=found)


def _filter(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)
