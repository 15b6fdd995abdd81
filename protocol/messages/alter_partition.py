"""AlterPartition: a leader asks the controller to change the in-sync sets of partitions (KIP-497).

v1 recovery of unclean leaders (KIP-704)   v2 topic ids, INELIGIBLE_REPLICA (KIP-841)   v3 epochs of replicas (KIP-903)
"""

from headgate.protocol.schema import Message, Struct, array, int8, int16, int32, int64, string, uuid, v


class BrokerState(Struct):
    """A replica of the wanted set. `broker_epoch` is -1 if the leader does not know the epoch."""

    broker_id: int32 = v("3+")
    broker_epoch: int64 = v("3+", default=-1)


class RequestedPartitionData(Struct):
    """The wanted in-sync set of a partition, as the leader of this epoch sees the state of `partition_epoch`."""

    partition_index: int32 = v("0+")
    leader_epoch: int32 = v("0+")
    new_isr: array[int32] = v("0-2")
    new_isr_with_epochs: array[BrokerState] = v("3+")
    leader_recovery_state: int8 = v("1+")
    partition_epoch: int32 = v("0+")


class RequestedTopicData(Struct):
    """The partitions of a topic."""

    topic_name: string = v("0-1")
    topic_id: uuid = v("2+")
    partitions: array[RequestedPartitionData] = v("0+")


class AlterPartitionRequest(Message, key=56, versions="0-3", flexible="0+"):
    """Change in-sync sets."""

    broker_id: int32 = v("0+")
    broker_epoch: int64 = v("0+", default=-1)
    topics: array[RequestedTopicData] = v("0+")


class PartitionData(Struct):
    """The state of a partition after the change, or an error."""

    partition_index: int32 = v("0+")
    error_code: int16 = v("0+")
    leader_id: int32 = v("0+")
    leader_epoch: int32 = v("0+")
    isr: array[int32] = v("0+")
    leader_recovery_state: int8 = v("1+")
    partition_epoch: int32 = v("0+")


class TopicData(Struct):
    """The partitions of a topic."""

    topic_name: string = v("0-1")
    topic_id: uuid = v("2+")
    partitions: array[PartitionData] = v("0+")


class AlterPartitionResponse(Message, key=56, response=True, versions="0-3", flexible="0+"):
    """One result for each partition of the request; none with an error at the top."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("0+")
    topics: array[TopicData] = v("0+")
