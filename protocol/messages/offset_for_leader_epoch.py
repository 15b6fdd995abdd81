"""OffsetForLeaderEpoch: the end of an epoch in the leader's log, to find the divergence of other logs (KIP-101).

v1 the epoch found (KIP-279)   v2 current leader epoch (KIP-320), throttle   v3 replica id   v4 flexible
"""

from headgate.protocol.schema import Message, Struct, array, int16, int32, int64, string, v

CONSUMER = -1
DEBUGGING_CONSUMER = -2


class OffsetForLeaderPartition(Struct):
    """A partition and the epoch of the requested end. `current_leader_epoch` fences, -1 does not."""

    partition: int32 = v("0+")
    current_leader_epoch: int32 = v("2+", default=-1)
    leader_epoch: int32 = v("0+")


class OffsetForLeaderTopic(Struct):
    """The partitions of a topic."""

    topic: string = v("0+")
    partitions: array[OffsetForLeaderPartition] = v("0+")


class OffsetForLeaderEpochRequest(Message, key=23, versions="0-4", flexible="4+"):
    """Ask for ends of epochs. `replica_id`: a follower, or a constant of this module."""

    replica_id: int32 = v("3+", default=DEBUGGING_CONSUMER)
    topics: array[OffsetForLeaderTopic] = v("0+")


class EpochEndOffset(Struct):
    """The largest epoch up to the requested one, and its end offset; -1 and -1 for none."""

    error_code: int16 = v("0+")
    partition: int32 = v("0+")
    leader_epoch: int32 = v("1+", default=-1)
    end_offset: int64 = v("0+", default=-1)


class OffsetForLeaderTopicResult(Struct):
    """The partitions of a topic."""

    topic: string = v("0+")
    partitions: array[EpochEndOffset] = v("0+")


class OffsetForLeaderEpochResponse(Message, key=23, response=True, versions="0-4", flexible="4+"):
    """One result for each partition of the request."""

    throttle_time_ms: int32 = v("2+")
    topics: array[OffsetForLeaderTopicResult] = v("0+")
