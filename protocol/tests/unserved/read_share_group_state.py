"""ReadShareGroupState: a leader reads the state of its share-partitions (KIP-932)."""

from headgate.protocol.schema import Message, Struct, array, int16, int32, int64, nullable_string, string, uuid, v
from headgate.protocol.tests.unserved.write_share_group_state import StateBatch


class PartitionData(Struct):
    """A partition. An older leader epoch is fenced."""

    partition: int32 = v("0+")
    leader_epoch: int32 = v("0+")


class ReadStateData(Struct):
    """The partitions of a topic."""

    topic_id: uuid = v("0+")
    partitions: array[PartitionData] = v("0+")


class ReadShareGroupStateRequest(Message, key=84, versions="0", flexible="0+"):
    """Ask for the state of partitions."""

    group_id: string = v("0+")
    topics: array[ReadStateData] = v("0+")


class PartitionResult(Struct):
    """The state of a partition, or its error. `start_offset` is -1 while it is open."""

    partition: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+", default=None)
    state_epoch: int32 = v("0+")
    start_offset: int64 = v("0+")
    state_batches: array[StateBatch] = v("0+")


class ReadStateResult(Struct):
    """The partitions of a topic."""

    topic_id: uuid = v("0+")
    partitions: array[PartitionResult] = v("0+")


class ReadShareGroupStateResponse(Message, key=84, response=True, versions="0", flexible="0+"):
    """One result for each partition of the request."""

    results: array[ReadStateResult] = v("0+")
