"""JoinGroup: join a classic group, and wait for the other members.

v1 rebalance timeout (KIP-62)   v2 throttle   v4 MEMBER_ID_REQUIRED (KIP-394)   v5 static members (KIP-345)
v6 flexible   v7 protocol type in the response (KIP-559)   v8 reasons (KIP-800)   v9 skip_assignment (KIP-814)
"""

from headgate.protocol.errors import ErrorCode
from headgate.protocol.schema import Message, Struct, array, blob, boolean, int16, int32, nullable_string, string, v


class JoinGroupRequestProtocol(Struct):
    """A protocol that the member supports. Only the members need to read its metadata."""

    name: string = v("0+")
    metadata: blob = v("0+")


class JoinGroupRequest(Message, key=11, versions="0-9", flexible="6+"):
    """Join a group. `member_id` is empty the first time. A rebalance timeout of -1 is the session timeout."""

    group_id: string = v("0+")
    session_timeout_ms: int32 = v("0+")
    rebalance_timeout_ms: int32 = v("1+", default=-1)
    member_id: string = v("0+")
    group_instance_id: nullable_string = v("5+", default=None)
    protocol_type: string = v("0+")
    protocols: array[JoinGroupRequestProtocol] = v("0+")
    reason: nullable_string = v("8+", default=None)

    def error_response(self, version: int, error: ErrorCode, message: str | None = None) -> "JoinGroupResponse":
        return JoinGroupResponse(error_code=error, protocol_name=None if version >= 7 else "", member_id=self.member_id)


class JoinGroupResponseMember(Struct):
    """A member, for the leader's assignment."""

    member_id: string = v("0+")
    group_instance_id: nullable_string = v("5+", default=None)
    metadata: blob = v("0+")


class JoinGroupResponse(Message, key=11, response=True, versions="0-9", flexible="6+"):
    """The generation and its leader. Only the leader gets the members. From v7 an error has a null `protocol_name`."""

    throttle_time_ms: int32 = v("2+")
    error_code: int16 = v("0+")
    generation_id: int32 = v("0+", default=-1)
    protocol_type: nullable_string = v("7+", default=None)
    protocol_name: nullable_string = v("0+", nullable="7+")
    leader: string = v("0+")
    skip_assignment: boolean = v("9+")
    member_id: string = v("0+")
    members: array[JoinGroupResponseMember] = v("0+")
