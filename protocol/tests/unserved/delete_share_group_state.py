"""DeleteShareGroupState: a group coordinator deletes the state of share-partitions (KIP-932)."""

from headgate.protocol.schema import Message, Struct, array, int16, int32, nullable_string, string, uuid, v


class PartitionData(Struct):
    """A partition."""

    partition: int32 = v("0+")


class DeleteStateData(Struct):
    """The partitions of a topic."""

    topic_id: uuid = v("0+")
    partitions: array[PartitionData] = v("0+")


class DeleteShareGroupStateRequest(Message, key=86, versions="0", flexible="0+"):
    """Delete the state of partitions."""

    group_id: string = v("0+")
    topics: array[DeleteStateData] = v("0+")


class PartitionResult(Struct):
    """The result for a partition."""

    partition: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+", default=None)


class DeleteStateResult(Struct):
    """The partitions of a topic."""

    topic_id: uuid = v("0+")
    partitions: array[PartitionResult] = v("0+")


class DeleteShareGroupStateResponse(Message, key=86, response=True, versions="0", flexible="0+"):
    """One result for each partition of the request."""

    results: array[DeleteStateResult] = v("0+")
