"""ConsumerGroupHeartbeat: join, stay in and leave a consumer group, and get the assignment (KIP-848).

v1 regular expressions; the member makes its own id (KIP-1082)
"""

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

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2


class TopicPartitions(Struct):
    """Partitions of a topic."""

    topic_id: uuid = v("0+")
    partitions: array[int32] = v("0+")


class ConsumerGroupHeartbeatRequest(Message, key=68, versions="0-1", flexible="0+"):
    """A member with its subscription and its partitions. Null, or a timeout of -1: no change since the last heartbeat.

    `member_epoch`: the epoch of the member, or a constant of this module.
    """

    group_id: string = v("0+")
    member_id: string = v("0+")
    member_epoch: int32 = v("0+")
    instance_id: nullable_string = v("0+", default=None)
    rack_id: nullable_string = v("0+", default=None)
    rebalance_timeout_ms: int32 = v("0+", default=-1)
    subscribed_topic_names: nullable_array[string] = v("0+", default=None)
    subscribed_topic_regex: nullable_string = v("1+", default=None)
    server_assignor: nullable_string = v("0+", default=None)
    topic_partitions: nullable_array[TopicPartitions] = v("0+", default=None)


class Assignment(Struct):
    """The partitions that a member may read from now on."""

    topic_partitions: array[TopicPartitions] = v("0+")


class ConsumerGroupHeartbeatResponse(Message, key=68, response=True, versions="0-1", flexible="0+"):
    """The member's epoch and its heartbeat interval. `assignment` is null if it has not changed."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+", default=None)
    member_id: nullable_string = v("0+", default=None)
    member_epoch: int32 = v("0+")
    heartbeat_interval_ms: int32 = v("0+")
    assignment: Assignment | None = v("0+", default=None)
