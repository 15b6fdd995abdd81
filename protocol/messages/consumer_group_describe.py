"""ConsumerGroupDescribe: consumer groups with their members and assignments (KIP-848).

v1 member types (KIP-1099)
"""

from headgate.protocol.schema import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    nullable_string,
    string,
    uuid,
    v,
)

UNKNOWN_MEMBER = -1
CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


class ConsumerGroupDescribeRequest(Message, key=69, versions="0-1", flexible="0+"):
    """Ask for groups by name."""

    group_ids: array[string] = v("0+")
    include_authorized_operations: boolean = v("0+")


class TopicPartitions(Struct):
    """Partitions of a topic."""

    topic_id: uuid = v("0+")
    topic_name: string = v("0+")
    partitions: array[int32] = v("0+")


class Assignment(Struct):
    """Partitions of topics."""

    topic_partitions: array[TopicPartitions] = v("0+")


class Member(Struct):
    """A member with its subscription, its assignment and its target. `member_type`: a constant of this module."""

    member_id: string = v("0+")
    instance_id: nullable_string = v("0+", default=None)
    rack_id: nullable_string = v("0+", default=None)
    member_epoch: int32 = v("0+")
    client_id: string = v("0+")
    client_host: string = v("0+")
    subscribed_topic_names: array[string] = v("0+")
    subscribed_topic_regex: nullable_string = v("0+", default=None)
    assignment: Assignment = v("0+")
    target_assignment: Assignment = v("0+")
    member_type: int8 = v("1+", default=UNKNOWN_MEMBER)


class DescribedGroup(Struct):
    """A group. `group_state`: Kafka's spelling (Empty, Assigning, Reconciling, Stable, Dead)."""

    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+", default=None)
    group_id: string = v("0+")
    group_state: string = v("0+")
    group_epoch: int32 = v("0+")
    assignment_epoch: int32 = v("0+")
    assignor_name: string = v("0+")
    members: array[Member] = v("0+")
    authorized_operations: int32 = v("0+", default=-0x8000_0000)


class ConsumerGroupDescribeResponse(Message, key=69, response=True, versions="0-1", flexible="0+"):
    """One result for each group of the request."""

    throttle_time_ms: int32 = v("0+")
    groups: array[DescribedGroup] = v("0+")
