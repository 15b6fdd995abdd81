"""Heartbeat: stay a member of a classic group.

v1 throttle   v3 static members (KIP-345)   v4 flexible
"""

from headgate.protocol.schema import Message, int16, int32, nullable_string, string, v


class HeartbeatRequest(Message, key=12, versions="0-4", flexible="4+"):
    """Prove that a member is alive."""

    group_id: string = v("0+")
    generation_id: int32 = v("0+")
    member_id: string = v("0+")
    group_instance_id: nullable_string = v("3+", default=None)


class HeartbeatResponse(Message, key=12, response=True, versions="0-4", flexible="4+"):
    """REBALANCE_IN_PROGRESS asks the member to join again."""

    throttle_time_ms: int32 = v("1+")
    error_code: int16 = v("0+")
