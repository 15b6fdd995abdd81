"""DescribeGroups: classic groups with their members.

v1 throttle   v3 authorized operations (KIP-430)   v4 static members (KIP-345)   v5 flexible   v6 GROUP_ID_NOT_FOUND
(KIP-1043)
"""

from headgate.protocol.schema import Message, Struct, array, blob, boolean, int16, int32, nullable_string, string, v


class DescribeGroupsRequest(Message, key=15, versions="0-6", flexible="5+"):
    """Ask for groups by name."""

    groups: array[string] = v("0+")
    include_authorized_operations: boolean = v("3+")


class DescribedGroupMember(Struct):
    """A member. Its metadata and assignment are empty unless the group is Stable."""

    member_id: string = v("0+")
    group_instance_id: nullable_string = v("4+", default=None)
    client_id: string = v("0+")
    client_host: string = v("0+")
    member_metadata: blob = v("0+")
    member_assignment: blob = v("0+")


class DescribedGroup(Struct):
    """A group. `group_state`: Kafka's spelling (Stable, Empty, Dead ...). `protocol_data`: the chosen protocol."""

    error_code: int16 = v("0+")
    error_message: nullable_string = v("6+", default=None)
    group_id: string = v("0+")
    group_state: string = v("0+")
    protocol_type: string = v("0+")
    protocol_data: string = v("0+")
    members: array[DescribedGroupMember] = v("0+")
    authorized_operations: int32 = v("3+", default=-0x8000_0000)


class DescribeGroupsResponse(Message, key=15, response=True, versions="0-6", flexible="5+"):
    """One result for each group of the request."""

    throttle_time_ms: int32 = v("1+")
    groups: array[DescribedGroup] = v("0+")
