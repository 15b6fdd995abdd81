"""DeleteRecords: delete all records before an offset (KIP-107).

v2 flexible
"""

from headgate.protocol.schema import Message, Struct, array, int16, int32, int64, string, v

TO_HIGH_WATERMARK = -1


class DeleteRecordsPartition(Struct):
    """A partition and the first offset to keep; TO_HIGH_WATERMARK deletes all readable records."""

    partition_index: int32 = v("0+")
    offset: int64 = v("0+")


class DeleteRecordsTopic(Struct):
    """The partitions of a topic."""

    name: string = v("0+")
    partitions: array[DeleteRecordsPartition] = v("0+")


class DeleteRecordsRequest(Message, key=21, versions="0-2", flexible="2+"):
    """Delete records. The broker waits up to `timeout_ms` for all replicas."""

    topics: array[DeleteRecordsTopic] = v("0+")
    timeout_ms: int32 = v("0+")


class DeleteRecordsPartitionResult(Struct):
    """The first offset of a partition on all replicas; -1 with an error."""

    partition_index: int32 = v("0+")
    low_watermark: int64 = v("0+", failed=-1)
    error_code: int16 = v("0+")


class DeleteRecordsTopicResult(Struct):
    """The partitions of a topic."""

    name: string = v("0+")
    partitions: array[DeleteRecordsPartitionResult] = v("0+")


class DeleteRecordsResponse(Message, key=21, response=True, versions="0-2", flexible="2+"):
    """One result for each partition of the request."""

    throttle_time_ms: int32 = v("0+")
    topics: array[DeleteRecordsTopicResult] = v("0+")
