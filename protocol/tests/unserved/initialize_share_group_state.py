"""InitializeShareGroupState: a group coordinator creates the state of share-partitions (KIP-932)."""

from headgate.protocol.schema import Message, Struct, array, int32, int64, string, uuid, v
from headgate.protocol.tests.unserved.delete_share_group_state import PartitionResult


class PartitionData(Struct):
    """A partition and its start offset; -1 leaves the offset open."""

    partition: int32 = v("0+")
    state_epoch: int32 = v("0+")
    start_offset: int64 = v("0+")


class InitializeStateData(Struct):
    """The partitions of a topic."""

    topic_id: uuid = v("0+")
    partitions: array[PartitionData] = v("0+")


class InitializeShareGroupStateRequest(Message, key=83, versions="0", flexible="0+"):
    """Create empty states. An older state epoch is fenced."""

    group_id: string = v("0+")
    topics: array[InitializeStateData] = v("0+")


class InitializeStateResult(Struct):
    """The partitions of a topic."""

    topic_id: uuid = v("0+")
    partitions: array[PartitionResult] = v("0+")


class InitializeShareGroupStateResponse(Message, key=83, response=True, versions="0", flexible="0+"):
    """One result for each partition of the request."""

    results: array[InitializeStateResult] = v("0+")
