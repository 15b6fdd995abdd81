"""ShareGroupHeartbeat: join, stay in and leave a share group (KIP-932).

v0 was an early access; Kafka has removed it
"""

from headgate.protocol.messages.consumer_group_heartbeat import Assignment
from headgate.protocol.schema import (
    Message,
    int16,
    int32,
    nullable_array,
    nullable_string,
    string,
    v,
)


class ShareGroupHeartbeatRequest(Message, key=76, versions="1", flexible="0+"):
    """A member with its subscription. Null: no change since the last heartbeat. Epoch 0 joins, -1 leaves."""

    group_id: string = v("0+")
    member_id: string = v("0+")
    member_epoch: int32 = v("0+")
    rack_id: nullable_string = v("0+", default=None)
    subscribed_topic_names: nullable_array[string] = v("0+", default=None)


class ShareGroupHeartbeatResponse(Message, key=76, response=True, versions="1", flexible="0+"):
    """The member's epoch and its heartbeat interval. `assignment` is null if it has not changed."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+", default=None)
    member_id: nullable_string = v("0+", default=None)
    member_epoch: int32 = v("0+")
    heartbeat_interval_ms: int32 = v("0+")
    assignment: Assignment | None = v("0+", default=None)
