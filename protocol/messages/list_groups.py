"""ListGroups: the groups of one coordinator.

v1 throttle   v3 flexible   v4 states (KIP-518)   v5 types (KIP-848)
"""

from headgate.protocol.schema import Message, Struct, array, int16, int32, string, v


class ListGroupsRequest(Message, key=16, versions="0-5", flexible="3+"):
    """Ask for groups by states and types; an empty filter matches all."""

    states_filter: array[string] = v("4+")
    types_filter: array[string] = v("5+")


class ListedGroup(Struct):
    """A group. `protocol_type` is "consumer" for consumers."""

    group_id: string = v("0+")
    protocol_type: string = v("0+")
    group_state: string = v("4+")
    group_type: string = v("5+")


class ListGroupsResponse(Message, key=16, response=True, versions="0-5", flexible="3+"):
    """The groups."""

    throttle_time_ms: int32 = v("1+")
    error_code: int16 = v("0+")
    groups: array[ListedGroup] = v("0+")
