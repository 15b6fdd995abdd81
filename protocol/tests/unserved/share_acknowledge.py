"""ShareAcknowledge: acknowledge records that a member of a share group has acquired (KIP-932).

v0 was an early access; Kafka has removed it   v2 renewed locks (KIP-1222)
"""

from headgate.protocol.messages.produce import NodeEndpoint
from headgate.protocol.schema import (
    Message,
    Struct,
    array,
    boolean,
    int16,
    int32,
    nullable_string,
    uuid,
    v,
)
from headgate.protocol.tests.unserved.share_fetch import AcknowledgementBatch, LeaderIdAndEpoch


class AcknowledgePartition(Struct):
    """The acknowledgements of a partition."""

    partition_index: int32 = v("0+")
    acknowledgement_batches: array[AcknowledgementBatch] = v("0+")


class AcknowledgeTopic(Struct):
    """The partitions of a topic."""

    topic_id: uuid = v("0+")
    partitions: array[AcknowledgePartition] = v("0+")


class ShareAcknowledgeRequest(Message, key=79, versions="1-2", flexible="0+"):
    """Acknowledge within a session. Session epoch -1 closes the session."""

    group_id: nullable_string = v("0+", default=None)
    member_id: nullable_string = v("0+")
    share_session_epoch: int32 = v("0+")
    is_renew_ack: boolean = v("2+")
    topics: array[AcknowledgeTopic] = v("0+")


class PartitionData(Struct):
    """The result for a partition's acknowledgements."""

    partition_index: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+", default=None)
    current_leader: LeaderIdAndEpoch = v("0+")


class ShareAcknowledgeTopicResponse(Struct):
    """The partitions of a topic."""

    topic_id: uuid = v("0+")
    partitions: array[PartitionData] = v("0+")


class ShareAcknowledgeResponse(Message, key=79, response=True, versions="1-2", flexible="0+"):
    """One result for each partition of the request."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+", default=None)
    acquisition_lock_timeout_ms: int32 = v("2+")
    responses: array[ShareAcknowledgeTopicResponse] = v("0+")
    node_endpoints: array[NodeEndpoint] = v("0+")
