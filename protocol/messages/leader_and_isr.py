"""LeaderAndIsr: the controller makes a broker leader or follower of partitions.

v1 whether a replica is new   v2 broker epochs (KIP-380), partitions by topic   v3 replicas that come and go (KIP-455)
v4 flexible   v5 topic ids, full and incremental requests (KIP-516)   v6 recovery of unclean leaders (KIP-704)
v7 controllers of KRaft (KIP-866)

Clusters with ZooKeeper use it; Kafka 4 has removed it.
"""

from headgate.protocol.errors import ErrorCode
from headgate.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, int64, string, uuid, v

UNKNOWN_TYPE = 0
INCREMENTAL = 1
FULL = 2


class LeaderAndIsrPartitionState(Struct):
    """The state of a partition at the controller. `leader` is -1 for none, -2 during a deletion."""

    topic_name: string = v("0-1")
    partition_index: int32 = v("0+")
    controller_epoch: int32 = v("0+")
    leader: int32 = v("0+")
    leader_epoch: int32 = v("0+")
    isr: array[int32] = v("0+")
    partition_epoch: int32 = v("0+")
    replicas: array[int32] = v("0+")
    adding_replicas: array[int32] = v("3+")
    removing_replicas: array[int32] = v("3+")
    is_new: boolean = v("1+")
    leader_recovery_state: int8 = v("6+")


class LeaderAndIsrTopicState(Struct):
    """The partitions of a topic."""

    topic_name: string = v("2+")
    topic_id: uuid = v("5+")
    partition_states: array[LeaderAndIsrPartitionState] = v("2+")


class LeaderAndIsrLiveLeader(Struct):
    """The leader of one of the partitions, and its address for followers."""

    broker_id: int32 = v("0+")
    host_name: string = v("0+")
    port: int32 = v("0+")


class LeaderAndIsrRequest(Message, key=4, versions="0-7", flexible="4+"):
    """Become leader or follower. A broker refuses an older controller epoch, and a broker epoch that is not its own."""

    controller_id: int32 = v("0+")
    is_kraft_controller: boolean = v("7+")
    controller_epoch: int32 = v("0+")
    broker_epoch: int64 = v("2+", default=-1)
    type: int8 = v("5+")
    ungrouped_partition_states: array[LeaderAndIsrPartitionState] = v("0-1")
    topic_states: array[LeaderAndIsrTopicState] = v("2+")
    live_leaders: array[LeaderAndIsrLiveLeader] = v("0+")

    def error_response(self, version: int, error: ErrorCode, message: str | None = None) -> "LeaderAndIsrResponse":
        """Return the error at the top and for each partition: controllers read both."""
        if version >= 5:
            topics = [
                LeaderAndIsrTopicError(topic.topic_id, _refuse(topic.partition_states, error))
                for topic in self.topic_states
            ]
            return LeaderAndIsrResponse(error_code=error, topics=topics)
        rows = _refuse(self.ungrouped_partition_states, error)
        for topic in self.topic_states:
            rows += _refuse(topic.partition_states, error, topic.topic_name)
        return LeaderAndIsrResponse(error_code=error, partition_errors=rows)


class LeaderAndIsrPartitionError(Struct):
    """The result for a partition."""

    topic_name: string = v("0-4")
    partition_index: int32 = v("0+")
    error_code: int16 = v("0+")


class LeaderAndIsrTopicError(Struct):
    """The partitions of a topic."""

    topic_id: uuid = v("5+")
    partition_errors: array[LeaderAndIsrPartitionError] = v("5+")


class LeaderAndIsrResponse(Message, key=4, response=True, versions="0-7", flexible="4+"):
    """One result for each partition of the request, by topic from v5."""

    error_code: int16 = v("0+")
    partition_errors: array[LeaderAndIsrPartitionError] = v("0-4")
    topics: array[LeaderAndIsrTopicError] = v("5+")


def _refuse(
    partitions: list[LeaderAndIsrPartitionState], error: ErrorCode, topic: str | None = None
) -> list[LeaderAndIsrPartitionError]:
    """`topic`: the name, if the partition states do not have it."""
    return [
        LeaderAndIsrPartitionError(row.topic_name if topic is None else topic, row.partition_index, error)
        for row in partitions
    ]
