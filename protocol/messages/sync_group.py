"""SyncGroup: the leader sends the assignments of a generation, and every member gets its own.

v1 throttle   v3 static members (KIP-345)   v4 flexible   v5 protocol type and name (KIP-559)
"""

from headgate.protocol.schema import Message, Struct, array, blob, int16, int32, nullable_string, string, v


class SyncGroupRequestAssignment(Struct):
    """The assignment of a member. Only the members need to read its content."""

    member_id: string = v("0+")
    assignment: blob = v("0+")


class SyncGroupRequest(Message, key=14, versions="0-5", flexible="4+"):
    """Ask for the member's assignment. Only the leader sends `assignments`."""

    group_id: string = v("0+")
    generation_id: int32 = v("0+")
    member_id: string = v("0+")
    group_instance_id: nullable_string = v("3+", default=None)
    protocol_type: nullable_string = v("5+", default=None)
    protocol_name: nullable_string = v("5+", default=None)
    assignments: array[SyncGroupRequestAssignment] = v("0+")


class SyncGroupResponse(Message, key=14, response=True, versions="0-5", flexible="4+"):
    """The assignment of the requesting member."""

    throttle_time_ms: int32 = v("1+")
    error_code: int16 = v("0+")
    protocol_type: nullable_string = v("5+", default=None)
    protocol_name: nullable_string = v("5+", default=None)
    assignment: blob = v("0+")
