"""StopReplica: the controller makes a broker stop replicas of partitions, and perhaps delete them.

v1 broker epochs (KIP-380), partitions by topic   v2 flexible   v3 leader epochs, deletion by partition (KIP-570)
v4 controllers of KRaft (KIP-866)

Clusters with ZooKeeper use it; Kafka 4 has removed it.
"""

from headgate.protocol.errors import ErrorCode
from headgate.protocol.schema import Message, Struct, array, boolean, int16, int32, int64, string, v


class StopReplicaPartitionV0(Struct):
    """A partition, in v0."""

    topic_name: string = v("0")
    partition_index: int32 = v("0")


class StopReplicaTopicV1(Struct):
    """Partitions of a topic, in v1 and v2."""

    name: string = v("1-2")
    partition_indexes: array[int32] = v("1-2")


class StopReplicaPartitionState(Struct):
    """A partition. A leader epoch of -2 stops the replica at any epoch."""

    partition_index: int32 = v("3+")
    leader_epoch: int32 = v("3+", default=-1)
    delete_partition: boolean = v("3+")


class StopReplicaTopicState(Struct):
    """The partitions of a topic."""

    topic_name: string = v("3+")
    partition_states: array[StopReplicaPartitionState] = v("3+")


class StopReplicaRequest(Message, key=5, versions="0-4", flexible="2+"):
    """Stop replicas. Each version has its own field of partitions."""

    controller_id: int32 = v("0+")
    is_kraft_controller: boolean = v("4+")
    controller_epoch: int32 = v("0+")
    broker_epoch: int64 = v("1+", default=-1)
    delete_partitions: boolean = v("0-2")
    ungrouped_partitions: array[StopReplicaPartitionV0] = v("0")
    topics: array[StopReplicaTopicV1] = v("1-2")
    topic_states: array[StopReplicaTopicState] = v("3+")

    def error_response(self, version: int, error: ErrorCode, message: str | None = None) -> "StopReplicaResponse":
        """Return the error at the top and for each partition: controllers read both."""
        partitions = [(row.topic_name, row.partition_index) for row in self.ungrouped_partitions]
        partitions += [(topic.name, index) for topic in self.topics for index in topic.partition_indexes]
        partitions += [
            (topic.topic_name, row.partition_index) for topic in self.topic_states for row in topic.partition_states
        ]
        return StopReplicaResponse(error, [StopReplicaPartitionError(name, index, error) for name, index in partitions])


class StopReplicaPartitionError(Struct):
    """The result for a partition."""

    topic_name: string = v("0+")
    partition_index: int32 = v("0+")
    error_code: int16 = v("0+")


class StopReplicaResponse(Message, key=5, response=True, versions="0-4", flexible="2+"):
    """One result for each partition of the request."""

    error_code: int16 = v("0+")
    partition_errors: array[StopReplicaPartitionError] = v("0+")
