"""WriteShareGroupState: a leader stores the state of its share-partitions (KIP-932).

v1 how many deliveries are complete (KIP-1226)
"""

from headgate.protocol.schema import Message, Struct, array, int8, int16, int32, int64, string, uuid, v
from headgate.protocol.tests.unserved.delete_share_group_state import PartitionResult


class StateBatch(Struct):
    """Records of one state (0 available, 2 acknowledged, 4 archived), and their number of deliveries."""

    first_offset: int64 = v("0+")
    last_offset: int64 = v("0+")
    delivery_state: int8 = v("0+")
    delivery_count: int16 = v("0+")


class PartitionData(Struct):
    """The changes of a partition. A `start_offset` of -1 changes nothing."""

    partition: int32 = v("0+")
    state_epoch: int32 = v("0+")
    leader_epoch: int32 = v("0+")
    start_offset: int64 = v("0+")
    delivery_complete_count: int32 = v("1+", default=-1)
    state_batches: array[StateBatch] = v("0+")


class WriteStateData(Struct):
    """The partitions of a topic."""

    topic_id: uuid = v("0+")
    partitions: array[PartitionData] = v("0+")


class WriteShareGroupStateRequest(Message, key=85, versions="0-1", flexible="0+"):
    """Store states. Older state epochs and leader epochs are fenced."""

    group_id: string = v("0+")
    topics: array[WriteStateData] = v("0+")


class WriteStateResult(Struct):
    """The partitions of a topic."""

    topic_id: uuid = v("0+")
    partitions: array[PartitionResult] = v("0+")


class WriteShareGroupStateResponse(Message, key=85, response=True, versions="0-1", flexible="0+"):
    """One result for each partition of the request."""

    results: array[WriteStateResult] = v("0+")
