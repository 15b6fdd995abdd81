"""ListOffsets: the offset of a timestamp, or of an end of the log.

v0 a list of segment offsets before a time   v1 one offset, with its timestamp (KIP-79)   v2 read_committed, throttle
(KIP-98)   v4 leader epochs (KIP-320)   v6 flexible   v7 the largest timestamp (KIP-734)   v8 earliest local (KIP-405)
v9 latest tiered (KIP-1005)   v10 timeout (KIP-1075)   v11 earliest pending upload (KIP-1023)
"""

from headgate.protocol.schema import Message, Struct, array, int8, int16, int32, int64, string, v

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6


class ListOffsetsPartition(Struct):
    """A partition and a time in ms, or one of the negative constants of this module."""

    partition_index: int32 = v("0+")
    current_leader_epoch: int32 = v("4+", default=-1)
    timestamp: int64 = v("0+")
    max_num_offsets: int32 = v("0", default=1)


class ListOffsetsTopic(Struct):
    """The partitions of a topic."""

    name: string = v("0+")
    partitions: array[ListOffsetsPartition] = v("0+")


class ListOffsetsRequest(Message, key=2, versions="0-11", flexible="6+"):
    """Ask for offsets. `replica_id` is -1 for a consumer. `isolation_level` 1: read_committed."""

    replica_id: int32 = v("0+")
    isolation_level: int8 = v("2+")
    topics: array[ListOffsetsTopic] = v("0+")
    timeout_ms: int32 = v("10+")


class ListOffsetsPartitionResponse(Struct):
    """The found offset and timestamp; -1 and -1 for none. v0 has a list, newest first."""

    partition_index: int32 = v("0+")
    error_code: int16 = v("0+")
    old_style_offsets: array[int64] = v("0")
    timestamp: int64 = v("1+", default=-1)
    offset: int64 = v("1+", default=-1)
    leader_epoch: int32 = v("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    """The partitions of a topic."""

    name: string = v("0+")
    partitions: array[ListOffsetsPartitionResponse] = v("0+")


class ListOffsetsResponse(Message, key=2, response=True, versions="0-11", flexible="6+"):
    """One result for each partition of the request."""

    throttle_time_ms: int32 = v("2+")
    topics: array[ListOffsetsTopicResponse] = v("0+")
