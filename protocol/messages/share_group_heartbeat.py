"""ShareGroupHeartbeat: join, stay in and leave a share group (KIP-932).

v0 an early access, gone
"""

from headgate.protocol.errors import ErrorCode
from headgate.protocol.schema import (
    Message,
    Struct,
    array,
    int16,
    int32,
    nullable_array,
    nullable_string,
    string,
    uuid,
    v,
)


class ShareGroupHeartbeatRequest(Message, key=76, versions="1", flexible="0+"):
    """What a member is and wants; null for what is as it was. Epoch 0 joins, -1 leaves."""

    group_id: string = v("0+")
    member_id: string = v("0+")
    member_epoch: int32 = v("0+")
    rack_id: nullable_string = v("0+", default=None)
    subscribed_topic_names: nullable_array[string] = v("0+", default=None)

    def error_response(
        self, version: int, error: ErrorCode, message: str | None = None
    ) -> "ShareGroupHeartbeatResponse":
        return ShareGroupHeartbeatResponse(error_code=error, error_message=message)


class TopicPartitions(Struct):
    """Partitions of a topic."""

    topic_id: uuid = v("0+")
    partitions: array[int32] = v("0+")


class Assignment(Struct):
    """What a member may fetch from now on."""

    topic_partitions: array[TopicPartitions] = v("0+")


class ShareGroupHeartbeatResponse(Message, key=76, response=True, versions="1", flexible="0+"):
    """The member's epoch and when to come again; `assignment` is null if it is as it was."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+", default=None)
    member_id: nullable_string = v("0+", default=None)
    member_epoch: int32 = v("0+")
    heartbeat_interval_ms: int32 = v("0+")
    assignment: Assignment | None = v("0+", default=None)
