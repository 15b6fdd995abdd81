"""LeaveGroup: leave a classic group before the session times out.

v1 throttle   v3 many members, static ones too (KIP-345)   v4 flexible   v5 reasons (KIP-800)
"""

from headgate.protocol.schema import Message, Struct, array, int16, int32, nullable_string, string, v


class MemberIdentity(Struct):
    """A member by its id, or by its instance id if the id is empty."""

    member_id: string = v("3+")
    group_instance_id: nullable_string = v("3+", default=None)
    reason: nullable_string = v("5+", default=None)


class LeaveGroupRequest(Message, key=13, versions="0-5", flexible="4+"):
    """Leave a group: `member_id`, from v3 `members`."""

    group_id: string = v("0+")
    member_id: string = v("0-2")
    members: array[MemberIdentity] = v("3+")


class MemberResponse(Struct):
    """The result for a member."""

    member_id: string = v("3+")
    group_instance_id: nullable_string = v("3+")
    error_code: int16 = v("3+")


class LeaveGroupResponse(Message, key=13, response=True, versions="0-5", flexible="4+"):
    """From v3 one result for each member of the request."""

    throttle_time_ms: int32 = v("1+")
    error_code: int16 = v("0+")
    members: array[MemberResponse] = v("3+")
