"""Fetch: read batches from offsets; the broker may wait for new ones.

v0-v1 message sets of magic 0   v2-v3 of magic 1   v3 max_bytes (KIP-74)   v4 batches of magic 2, read_committed
(KIP-98)   v5 log start offset   v7 sessions (KIP-227)   v9 leader epochs (KIP-320)   v10 zstd (KIP-110)   v11 racks
(KIP-392)   v12 flexible, diverging epochs (KIP-595)   v13 topic ids (KIP-516)   v15 replica state (KIP-903)
v16 leader hints (KIP-951)   v17 directory ids (KIP-853)   v18 high watermark of the follower (KIP-1166)
"""

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.produce import LeaderIdAndEpoch, NodeEndpoint
from headgate.protocol.schema import (
    Message,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    nullable_array,
    nullable_string,
    record_data,
    string,
    uuid,
    v,
)


class ReplicaState(Struct):
    """The requesting follower, with its broker epoch; -1 for a consumer."""

    replica_id: int32 = v("15+", default=-1)
    replica_epoch: int64 = v("15+", default=-1)


class FetchPartition(Struct):
    """A partition and the offset to read from. Epochs are -1 if the client has none."""

    partition: int32 = v("0+")
    current_leader_epoch: int32 = v("9+", default=-1)
    fetch_offset: int64 = v("0+")
    last_fetched_epoch: int32 = v("12+", default=-1)
    log_start_offset: int64 = v("5+", default=-1)
    partition_max_bytes: int32 = v("0+")
    replica_directory_id: uuid = v("17+", tag=0)
    high_watermark: int64 = v("18+", tag=1, default=0x7FFF_FFFF_FFFF_FFFF)


class FetchTopic(Struct):
    """A topic by name, from v13 by id."""

    topic: string = v("0-12")
    topic_id: uuid = v("13+")
    partitions: array[FetchPartition] = v("0+")


class ForgottenTopic(Struct):
    """Partitions that leave an incremental session."""

    topic: string = v("7-12")
    topic_id: uuid = v("13+")
    partitions: array[int32] = v("7+")


class FetchRequest(Message, key=1, versions="0-18", flexible="12+"):
    """Ask for batches. The broker waits up to `max_wait_ms` for `min_bytes`. `isolation_level` 1: read_committed."""

    cluster_id: nullable_string = v("12+", tag=0, default=None)
    replica_id: int32 = v("0-14", default=-1)
    replica_state: ReplicaState = v("15+", tag=1)
    max_wait_ms: int32 = v("0+")
    min_bytes: int32 = v("0+")
    max_bytes: int32 = v("3+", default=0x7FFF_FFFF)
    isolation_level: int8 = v("4+")
    session_id: int32 = v("7+")
    session_epoch: int32 = v("7+", default=-1)
    topics: array[FetchTopic] = v("0+")
    forgotten_topics_data: array[ForgottenTopic] = v("7+")
    rack_id: string = v("11+")

    def error_response(self, version: int, error: ErrorCode, message: str | None = None) -> "FetchResponse":
        """Return the error at the top, and before v13 for each partition too: old clients only read those."""
        topics = [] if version >= 13 else [_refuse(topic, error) for topic in self.topics]
        return FetchResponse(error_code=error, session_id=self.session_id, responses=topics)


class EpochEndOffset(Struct):
    """The last epoch, with its end offset, that the client's log can share with the leader's."""

    epoch: int32 = v("12+", default=-1)
    end_offset: int64 = v("12+", default=-1)


class SnapshotId(Struct):
    """The snapshot to fetch if the log no longer has the offset. Only KRaft's metadata log uses it."""

    end_offset: int64 = v("0+", default=-1)
    epoch: int32 = v("0+", default=-1)


class AbortedTransaction(Struct):
    """A producer with an aborted transaction: consumers skip its records from `first_offset` to its next marker."""

    producer_id: int64 = v("4+")
    first_offset: int64 = v("4+")


class PartitionData(Struct):
    """The records of a partition. `records` may be a `Splice`: a piece of a segment file, sent without a copy."""

    partition_index: int32 = v("0+")
    error_code: int16 = v("0+")
    high_watermark: int64 = v("0+")
    last_stable_offset: int64 = v("4+", default=-1)
    log_start_offset: int64 = v("5+", default=-1)
    diverging_epoch: EpochEndOffset = v("12+", tag=0)
    current_leader: LeaderIdAndEpoch = v("12+", tag=1)
    snapshot_id: SnapshotId = v("12+", tag=2)
    aborted_transactions: nullable_array[AbortedTransaction] = v("4+")
    preferred_read_replica: int32 = v("11+", default=-1)
    records: record_data = v("0+")


class FetchableTopicResponse(Struct):
    """The partitions of a topic, by name or id as in the request."""

    topic: string = v("0-12")
    topic_id: uuid = v("13+")
    partitions: array[PartitionData] = v("0+")


class FetchResponse(Message, key=1, response=True, versions="0-18", flexible="12+"):
    """One result for each partition; in an incremental session, for each partition with news."""

    throttle_time_ms: int32 = v("1+")
    error_code: int16 = v("7+")
    session_id: int32 = v("7+")
    responses: array[FetchableTopicResponse] = v("0+")
    node_endpoints: array[NodeEndpoint] = v("16+", tag=0)


def _refuse(topic: FetchTopic, error: ErrorCode) -> FetchableTopicResponse:
    rows = [
        PartitionData(partition_index=partition.partition, error_code=error, high_watermark=-1, records=b"")
        for partition in topic.partitions
    ]
    return FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=rows)
