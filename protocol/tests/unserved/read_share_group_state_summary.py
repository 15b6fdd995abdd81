"""ReadShareGroupStateSummary: the start offsets of share-partitions, without their batches (KIP-932).

v1 how many deliveries are complete (KIP-1226)
"""

from headgate.protocol.schema import Message, Struct, array, int16, int32, int64, nullable_string, string, uuid, v
from headgate.protocol.tests.unserved.read_share_group_state import PartitionData


class ReadStateSummaryData(Struct):
    """The partitions of a topic."""

    topic_id: uuid = v("0+")
    partitions: array[PartitionData] = v("0+")


class ReadShareGroupStateSummaryRequest(Message, key=87, versions="0-1", flexible="0+"):
    """Ask for the start offsets of partitions."""

    group_id: string = v("0+")
    topics: array[ReadStateSummaryData] = v("0+")


class PartitionResult(Struct):
    """The start offset of a partition, or its error; -1 if unknown."""

    partition: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+", default=None)
    state_epoch: int32 = v("0+")
    leader_epoch: int32 = v("0+")
    start_offset: int64 = v("0+")
    delivery_complete_count: int32 = v("1+", default=-1)


class ReadStateSummaryResult(Struct):
    """The partitions of a topic."""

    topic_id: uuid = v("0+")
    partitions: array[PartitionResult] = v("0+")


class ReadShareGroupStateSummaryResponse(Message, key=87, response=True, versions="0-1", flexible="0+"):
    """One result for each partition of the request."""

    results: array[ReadStateSummaryResult] = v("0+")
