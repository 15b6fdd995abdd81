"""OffsetDelete: delete committed offsets of a group (KIP-496)."""

from headgate.protocol.schema import Message, Struct, array, int16, int32, string, v


class OffsetDeleteRequestPartition(Struct):
    """A partition, whose offset is deleted."""

    partition_index: int32 = v("0+")


class OffsetDeleteRequestTopic(Struct):
    """The partitions of a topic."""

    name: string = v("0+")
    partitions: array[OffsetDeleteRequestPartition] = v("0+")


class OffsetDeleteRequest(Message, key=47, versions="0", flexible="none"):
    """Delete offsets of topics without a subscribed member."""

    group_id: string = v("0+")
    topics: array[OffsetDeleteRequestTopic] = v("0+")


class OffsetDeleteResponsePartition(Struct):
    """The result for a partition's offset; GROUP_SUBSCRIBED_TO_TOPIC if a member subscribes to the topic."""

    partition_index: int32 = v("0+")
    error_code: int16 = v("0+")


class OffsetDeleteResponseTopic(Struct):
    """The partitions of a topic."""

    name: string = v("0+")
    partitions: array[OffsetDeleteResponsePartition] = v("0+")


class OffsetDeleteResponse(Message, key=47, response=True, versions="0", flexible="none"):
    """One result for each partition of the request; none with an error at the top."""

    error_code: int16 = v("0+")
    throttle_time_ms: int32 = v("0+")
    topics: array[OffsetDeleteResponseTopic] = v("0+")
