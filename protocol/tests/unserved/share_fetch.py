"""ShareFetch: acquire records for a member of a share group, and acknowledge others (KIP-932).

v0 was an early access; Kafka has removed it   v2 how many records to acquire (KIP-1206), renewed locks (KIP-1222)
"""

from headgate.protocol.messages.produce import NodeEndpoint
from headgate.protocol.schema import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    nullable_string,
    record_data,
    uuid,
    v,
)

BATCH_OPTIMIZED = 0
RECORD_LIMIT = 1


class AcknowledgementBatch(Struct):
    """Records from `first_offset` to `last_offset`, with one type for all of them or one for each.

    Types: 0 gap, 1 accept, 2 release, 3 reject, 4 renew.
    """

    first_offset: int64 = v("0+")
    last_offset: int64 = v("0+")
    acknowledge_types: array[int8] = v("0+")


class FetchPartition(Struct):
    """A partition to fetch from, and its acknowledgements."""

    partition_index: int32 = v("0+")
    partition_max_bytes: int32 = v("0")
    acknowledgement_batches: array[AcknowledgementBatch] = v("0+")


class FetchTopic(Struct):
    """The partitions of a topic."""

    topic_id: uuid = v("0+")
    partitions: array[FetchPartition] = v("0+")


class ForgottenTopic(Struct):
    """Partitions that leave the session."""

    topic_id: uuid = v("0+")
    partitions: array[int32] = v("0+")


class ShareFetchRequest(Message, key=78, versions="1-2", flexible="0+"):
    """Fetch in a session. Session epoch 0 opens it, -1 closes it. `share_acquire_mode`: a constant of this module."""

    group_id: nullable_string = v("0+", default=None)
    member_id: nullable_string = v("0+")
    share_session_epoch: int32 = v("0+")
    max_wait_ms: int32 = v("0+")
    min_bytes: int32 = v("0+")
    max_bytes: int32 = v("0+", default=0x7FFF_FFFF)
    max_records: int32 = v("1+")
    batch_size: int32 = v("1+")
    share_acquire_mode: int8 = v("2+")
    is_renew_ack: boolean = v("2+")
    topics: array[FetchTopic] = v("0+")
    forgotten_topics_data: array[ForgottenTopic] = v("0+")


class LeaderIdAndEpoch(Struct):
    """The leader of a partition; -1 if unknown."""

    leader_id: int32 = v("0+")
    leader_epoch: int32 = v("0+")


class AcquiredRecords(Struct):
    """Records that are locked for the member. `delivery_count`: the number of their deliveries."""

    first_offset: int64 = v("0+")
    last_offset: int64 = v("0+")
    delivery_count: int16 = v("0+")


class PartitionData(Struct):
    """The acquired records of a partition and the result of its acknowledgements, or their errors."""

    partition_index: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+", default=None)
    acknowledge_error_code: int16 = v("0+")
    acknowledge_error_message: nullable_string = v("0+", default=None)
    current_leader: LeaderIdAndEpoch = v("0+")
    records: record_data = v("0+", nullable="0")
    acquired_records: array[AcquiredRecords] = v("0+")


class ShareFetchableTopicResponse(Struct):
    """The partitions of a topic."""

    topic_id: uuid = v("0+")
    partitions: array[PartitionData] = v("0+")


class ShareFetchResponse(Message, key=78, response=True, versions="1-2", flexible="0+"):
    """The acquired records. They stay locked for `acquisition_lock_timeout_ms`."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+", default=None)
    acquisition_lock_timeout_ms: int32 = v("1+")
    responses: array[ShareFetchableTopicResponse] = v("0+")
    node_endpoints: array[NodeEndpoint] = v("0+")
