"""AlterShareGroupOffsets: set the start offsets of an empty share group (KIP-932)."""

from headgate.protocol.schema import Message, Struct, array, int16, int32, int64, nullable_string, string, uuid, v


class AlterShareGroupOffsetsRequestPartition(Struct):
    """A partition and its start offset."""

    partition_index: int32 = v("0+")
    start_offset: int64 = v("0+")


class AlterShareGroupOffsetsRequestTopic(Struct):
    """The partitions of a topic."""

    topic_name: string = v("0+")
    partitions: array[AlterShareGroupOffsetsRequestPartition] = v("0+")


class AlterShareGroupOffsetsRequest(Message, key=91, versions="0", flexible="0+"):
    """Set the start offsets of a group."""

    group_id: string = v("0+")
    topics: array[AlterShareGroupOffsetsRequestTopic] = v("0+")


class AlterShareGroupOffsetsResponsePartition(Struct):
    """The result for a partition."""

    partition_index: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+", default=None)


class AlterShareGroupOffsetsResponseTopic(Struct):
    """The partitions of a topic."""

    topic_name: string = v("0+")
    topic_id: uuid = v("0+")
    partitions: array[AlterShareGroupOffsetsResponsePartition] = v("0+")


class AlterShareGroupOffsetsResponse(Message, key=91, response=True, versions="0", flexible="0+"):
    """One result for each partition of the request; none with an error at the top."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+", default=None)
    responses: array[AlterShareGroupOffsetsResponseTopic] = v("0+")
