"""DescribeProducers: the idempotent and transactional producers of partitions (KIP-664)."""

from headgate.protocol.schema import Message, Struct, array, int16, int32, int64, nullable_string, string, v


class TopicRequest(Struct):
    """Partitions of a topic."""

    name: string = v("0+")
    partition_indexes: array[int32] = v("0+")


class DescribeProducersRequest(Message, key=61, versions="0", flexible="0+"):
    """Ask for the producers of partitions. The leader of each partition knows its producers."""

    topics: array[TopicRequest] = v("0+")


class ProducerState(Struct):
    """A producer's state in a partition. `current_txn_start_offset` is -1 outside of a transaction."""

    producer_id: int64 = v("0+")
    producer_epoch: int32 = v("0+")
    last_sequence: int32 = v("0+", default=-1)
    last_timestamp: int64 = v("0+", default=-1)
    coordinator_epoch: int32 = v("0+")
    current_txn_start_offset: int64 = v("0+", default=-1)


class PartitionResponse(Struct):
    """The producers of a partition, or its error."""

    partition_index: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+", default=None)
    active_producers: array[ProducerState] = v("0+")


class TopicResponse(Struct):
    """The partitions of a topic."""

    name: string = v("0+")
    partitions: array[PartitionResponse] = v("0+")


class DescribeProducersResponse(Message, key=61, response=True, versions="0", flexible="0+"):
    """One result for each partition of the request."""

    throttle_time_ms: int32 = v("0+")
    topics: array[TopicResponse] = v("0+")
