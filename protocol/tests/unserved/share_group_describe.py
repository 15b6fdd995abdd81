"""ShareGroupDescribe: share groups with their members and assignments (KIP-932).

v0 was an early access; Kafka has removed it
"""

from headgate.protocol.messages.consumer_group_describe import Assignment
from headgate.protocol.schema import Message, Struct, array, boolean, int16, int32, nullable_string, string, v


class ShareGroupDescribeRequest(Message, key=77, versions="1", flexible="0+"):
    """Ask for groups by name."""

    group_ids: array[string] = v("0+")
    include_authorized_operations: boolean = v("0+")


class Member(Struct):
    """A member with its subscription and its assignment."""

    member_id: string = v("0+")
    rack_id: nullable_string = v("0+", default=None)
    member_epoch: int32 = v("0+")
    client_id: string = v("0+")
    client_host: string = v("0+")
    subscribed_topic_names: array[string] = v("0+")
    assignment: Assignment = v("0+")


class DescribedGroup(Struct):
    """A group. `group_state`: Kafka's spelling (Empty, Stable, Dead)."""

    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+", default=None)
    group_id: string = v("0+")
    group_state: string = v("0+")
    group_epoch: int32 = v("0+")
    assignment_epoch: int32 = v("0+")
    assignor_name: string = v("0+")
    members: array[Member] = v("0+")
    authorized_operations: int32 = v("0+", default=-0x8000_0000)


class ShareGroupDescribeResponse(Message, key=77, response=True, versions="1", flexible="0+"):
    """One result for each group of the request."""

    throttle_time_ms: int32 = v("0+")
    groups: array[DescribedGroup] = v("0+")
