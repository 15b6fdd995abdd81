"""DescribeTopicPartitions: topics and partitions in pages, with eligible leader replicas (KIP-966)."""

from headgate.protocol.schema import (
    Message,
    Struct,
    array,
    boolean,
    int16,
    int32,
    nullable_array,
    nullable_string,
    string,
    uuid,
    v,
)


class TopicRequest(Struct):
    """A topic by name."""

    name: string = v("0+")


class Cursor(Struct):
    """The start of a page: the first topic and partition after the previous page."""

    topic_name: string = v("0+")
    partition_index: int32 = v("0+")


class DescribeTopicPartitionsRequest(Message, key=75, versions="0", flexible="0+"):
    """Ask for a page. No topics: all of them."""

    topics: array[TopicRequest] = v("0+")
    response_partition_limit: int32 = v("0+", default=2000)
    cursor: Cursor | None = v("0+", default=None)


class DescribeTopicPartitionsResponsePartition(Struct):
    """The leader of a partition (-1: none), its replicas, and the eligible leaders; null if unknown."""

    error_code: int16 = v("0+")
    partition_index: int32 = v("0+")
    leader_id: int32 = v("0+")
    leader_epoch: int32 = v("0+", default=-1)
    replica_nodes: array[int32] = v("0+")
    isr_nodes: array[int32] = v("0+")
    eligible_leader_replicas: nullable_array[int32] = v("0+", default=None)
    last_known_elr: nullable_array[int32] = v("0+", default=None)
    offline_replicas: array[int32] = v("0+")


class DescribeTopicPartitionsResponseTopic(Struct):
    """A topic with its partitions in this page, or its error."""

    error_code: int16 = v("0+")
    name: nullable_string = v("0+")
    topic_id: uuid = v("0+")
    is_internal: boolean = v("0+")
    partitions: array[DescribeTopicPartitionsResponsePartition] = v("0+")
    topic_authorized_operations: int32 = v("0+", default=-0x8000_0000)


class DescribeTopicPartitionsResponse(Message, key=75, response=True, versions="0", flexible="0+"):
    """A page. `next_cursor` is null in the last one."""

    throttle_time_ms: int32 = v("0+")
    topics: array[DescribeTopicPartitionsResponseTopic] = v("0+")
    next_cursor: Cursor | None = v("0+", default=None)
