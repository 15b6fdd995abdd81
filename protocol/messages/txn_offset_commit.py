"""TxnOffsetCommit: commit offsets of a group within a transaction (KIP-98).

v2 leader epochs (KIP-320)   v3 flexible; members are checked (KIP-447)   v4 TRANSACTION_ABORTABLE (KIP-890)
v5 adds the group to the transaction by itself (KIP-890)   v6 topics by id (KIP-1319)
"""

from headgate.protocol.schema import Message, Struct, array, int16, int32, int64, nullable_string, string, uuid, v


class TxnOffsetCommitRequestPartition(Struct):
    """A partition and its next offset to read."""

    partition_index: int32 = v("0+")
    committed_offset: int64 = v("0+")
    committed_leader_epoch: int32 = v("2+", default=-1)
    committed_metadata: nullable_string = v("0+")


class TxnOffsetCommitRequestTopic(Struct):
    """The partitions of a topic, by name, from v6 by id."""

    name: string = v("0-5")
    topic_id: uuid = v("6+")
    partitions: array[TxnOffsetCommitRequestPartition] = v("0+")


class TxnOffsetCommitRequest(Message, key=28, versions="0-6", flexible="3+"):
    """Commit offsets with the transaction. Generation -1 and no member id: no check of the member."""

    transactional_id: string = v("0+")
    group_id: string = v("0+")
    producer_id: int64 = v("0+")
    producer_epoch: int16 = v("0+")
    generation_id_or_member_epoch: int32 = v("3+", default=-1)
    member_id: string = v("3+")
    group_instance_id: nullable_string = v("3+", default=None)
    topics: array[TxnOffsetCommitRequestTopic] = v("0+")


class TxnOffsetCommitResponsePartition(Struct):
    """The result for a partition's offset."""

    partition_index: int32 = v("0+")
    error_code: int16 = v("0+")


class TxnOffsetCommitResponseTopic(Struct):
    """The partitions of a topic."""

    name: string = v("0-5")
    topic_id: uuid = v("6+")
    partitions: array[TxnOffsetCommitResponsePartition] = v("0+")


class TxnOffsetCommitResponse(Message, key=28, response=True, versions="0-6", flexible="3+"):
    """One result for each partition of the request."""

    throttle_time_ms: int32 = v("0+")
    topics: array[TxnOffsetCommitResponseTopic] = v("0+")
