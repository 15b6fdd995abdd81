"""Produce: append batches to partitions.

v0-v1 message sets of magic 0   v2 of magic 1, append time in the response   v3 batches of magic 2, transactions
(KIP-98)   v5 log start offset   v7 zstd (KIP-110)   v8 errors of records (KIP-467)   v9 flexible   v10 leader hints
(KIP-951)   v11-v12 transactions known by the coordinator (KIP-890)   v13 topic ids (KIP-516)
"""

from headgate.protocol.errors import ErrorCode
from headgate.protocol.schema import (
    Message,
    Struct,
    array,
    int16,
    int32,
    int64,
    nullable_string,
    record_data,
    string,
    uuid,
    v,
)


class PartitionProduceData(Struct):
    """The batches for one partition. `records` is a view of the received frame, and lives as long as the frame does."""

    index: int32 = v("0+")
    records: record_data = v("0+")


class TopicProduceData(Struct):
    """A topic by name, from v13 by id."""

    name: string = v("0-12")
    topic_id: uuid = v("13+")
    partition_data: array[PartitionProduceData] = v("0+")


class ProduceRequest(Message, key=0, versions="0-13", flexible="9+"):
    """Append batches. `acks`: -1 all in-sync replicas, 1 the leader, 0 no response."""

    transactional_id: nullable_string = v("3+", default=None)
    acks: int16 = v("0+")
    timeout_ms: int32 = v("0+")
    topic_data: array[TopicProduceData] = v("0+")


class BatchIndexAndErrorMessage(Struct):
    """A record that made the broker refuse its batch, by its index in the batch."""

    batch_index: int32 = v("8+")
    batch_index_error_message: nullable_string = v("8+", default=None)


class LeaderIdAndEpoch(Struct):
    """The current leader, with NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH; -1 if unknown."""

    leader_id: int32 = v("0+", default=-1)
    leader_epoch: int32 = v("0+", default=-1)


class PartitionProduceResponse(Struct):
    """The offset of the batch. `log_append_time_ms` is -1 with CreateTime; `base_offset` is -1 with an error."""

    index: int32 = v("0+")
    error_code: int16 = v("0+")
    base_offset: int64 = v("0+", failed=-1)
    log_append_time_ms: int64 = v("2+", default=-1)
    log_start_offset: int64 = v("5+", default=-1)
    record_errors: array[BatchIndexAndErrorMessage] = v("8+")
    error_message: nullable_string = v("8+", default=None)
    current_leader: LeaderIdAndEpoch = v("10+", tag=0)

    def refuse(self, error: ErrorCode, message: str | None) -> None:
        """Turn the result into an error: nothing was appended."""
        self.error_code, self.error_message = error, message
        self.base_offset = self.log_append_time_ms = self.log_start_offset = -1


class TopicProduceResponse(Struct):
    """The partitions of a topic, by name or id as in the request."""

    name: string = v("0-12")
    topic_id: uuid = v("13+")
    partition_responses: array[PartitionProduceResponse] = v("0+")


class NodeEndpoint(Struct):
    """The address of a broker in `current_leader`."""

    node_id: int32 = v("0+")
    host: string = v("0+")
    port: int32 = v("0+")
    rack: nullable_string = v("0+", default=None)


class ProduceResponse(Message, key=0, response=True, versions="0-13", flexible="9+"):
    """One result for each partition of the request."""

    responses: array[TopicProduceResponse] = v("0+")
    throttle_time_ms: int32 = v("1+")
    node_endpoints: array[NodeEndpoint] = v("10+", tag=0)
