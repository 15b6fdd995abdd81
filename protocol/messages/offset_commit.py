"""OffsetCommit: store the offsets of a group.

v0 in ZooKeeper   v1 in the coordinator, with generation and member; a timestamp for each offset   v2-v4 retention
v3 throttle   v6 leader epochs (KIP-320)   v7 static members (KIP-345)   v8 flexible   v9 member epochs (KIP-848)
v10 topic ids (KIP-848)
"""

from headgate.protocol.schema import Message, Struct, array, int16, int32, int64, nullable_string, string, uuid, v


class OffsetCommitRequestPartition(Struct):
    """The next offset to read, with the epoch of the record before it (-1: unknown) and the client's own note."""

    partition_index: int32 = v("0+")
    committed_offset: int64 = v("0+")
    committed_leader_epoch: int32 = v("6+", default=-1)
    commit_timestamp: int64 = v("1", default=-1)
    committed_metadata: nullable_string = v("0+")


class OffsetCommitRequestTopic(Struct):
    """A topic by name, from v10 by id."""

    name: string = v("0-9")
    topic_id: uuid = v("10+")
    partitions: array[OffsetCommitRequestPartition] = v("0+")


class OffsetCommitRequest(Message, key=8, versions="0-10", flexible="8+"):
    """Commit offsets. A client without group management has generation -1 and an empty member id."""

    group_id: string = v("0+")
    generation_id_or_member_epoch: int32 = v("1+", default=-1)
    member_id: string = v("1+")
    group_instance_id: nullable_string = v("7+", default=None)
    retention_time_ms: int64 = v("2-4", default=-1)
    topics: array[OffsetCommitRequestTopic] = v("0+")


class OffsetCommitResponsePartition(Struct):
    """The result for a partition's offset."""

    partition_index: int32 = v("0+")
    error_code: int16 = v("0+")


class OffsetCommitResponseTopic(Struct):
    """The partitions of a topic, by name or id as in the request."""

    name: string = v("0-9")
    topic_id: uuid = v("10+")
    partitions: array[OffsetCommitResponsePartition] = v("0+")


class OffsetCommitResponse(Message, key=8, response=True, versions="0-10", flexible="8+"):
    """One result for each partition of the request."""

    throttle_time_ms: int32 = v("3+")
    topics: array[OffsetCommitResponseTopic] = v("0+")
