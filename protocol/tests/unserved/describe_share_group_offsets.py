"""DescribeShareGroupOffsets: the start offsets of share groups (KIP-932).

v1 lag (KIP-1226)
"""

from headgate.protocol.schema import (
    Message,
    Struct,
    array,
    int16,
    int32,
    int64,
    nullable_array,
    nullable_string,
    string,
    uuid,
    v,
)


class DescribeShareGroupOffsetsRequestTopic(Struct):
    """Partitions of a topic."""

    topic_name: string = v("0+")
    partitions: array[int32] = v("0+")


class DescribeShareGroupOffsetsRequestGroup(Struct):
    """A group and its topics; null: all of them."""

    group_id: string = v("0+")
    topics: nullable_array[DescribeShareGroupOffsetsRequestTopic] = v("0+")


class DescribeShareGroupOffsetsRequest(Message, key=90, versions="0-1", flexible="0+"):
    """Ask for offsets."""

    groups: array[DescribeShareGroupOffsetsRequestGroup] = v("0+")


class DescribeShareGroupOffsetsResponsePartition(Struct):
    """The start offset and the lag of a group in a partition; -1 if unknown."""

    partition_index: int32 = v("0+")
    start_offset: int64 = v("0+")
    leader_epoch: int32 = v("0+")
    lag: int64 = v("1+", default=-1)
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+", default=None)


class DescribeShareGroupOffsetsResponseTopic(Struct):
    """The partitions of a topic."""

    topic_name: string = v("0+")
    topic_id: uuid = v("0+")
    partitions: array[DescribeShareGroupOffsetsResponsePartition] = v("0+")


class DescribeShareGroupOffsetsResponseGroup(Struct):
    """A group, or its error."""

    group_id: string = v("0+")
    topics: array[DescribeShareGroupOffsetsResponseTopic] = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+", default=None)


class DescribeShareGroupOffsetsResponse(Message, key=90, response=True, versions="0-1", flexible="0+"):
    """One result for each group of the request."""

    throttle_time_ms: int32 = v("0+")
    groups: array[DescribeShareGroupOffsetsResponseGroup] = v("0+")
