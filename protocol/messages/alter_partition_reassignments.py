"""AlterPartitionReassignments: put partitions on other brokers, or stop doing so (KIP-455).

v1 a change of the number of replicas can be refused (KIP-860)
"""

from headgate.protocol.errors import ErrorCode
from headgate.protocol.schema import (
    Message,
    Struct,
    array,
    boolean,
    int16,
    int32,
    nullable_array,
    nullable_string,
    string,
    v,
)


class ReassignablePartition(Struct):
    """A partition and the brokers that are to hold it; null stops what is going on."""

    partition_index: int32 = v("0+")
    replicas: nullable_array[int32] = v("0+", default=None)


class ReassignableTopic(Struct):
    """The partitions of a topic."""

    name: string = v("0+")
    partitions: array[ReassignablePartition] = v("0+")


class AlterPartitionReassignmentsRequest(Message, key=45, versions="0-1", flexible="0+"):
    """Begin or cancel reassignments; they go on after the response."""

    timeout_ms: int32 = v("0+", default=60000)
    allow_replication_factor_change: boolean = v("1+", default=True)
    topics: array[ReassignableTopic] = v("0+")

    def error_response(
        self, version: int, error: ErrorCode, message: str | None = None
    ) -> "AlterPartitionReassignmentsResponse":
        """The error at the top and at every partition: clients look at either."""
        responses = [
            ReassignableTopicResponse(
                topic.name,
                [ReassignablePartitionResponse(row.partition_index, error, message) for row in topic.partitions],
            )
            for topic in self.topics
        ]
        return AlterPartitionReassignmentsResponse(error_code=error, error_message=message, responses=responses)


class ReassignablePartitionResponse(Struct):
    """Whether a partition's reassignment was accepted; NO_REASSIGNMENT_IN_PROGRESS where there was none to stop."""

    partition_index: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+")


class ReassignableTopicResponse(Struct):
    """The partitions of a topic."""

    name: string = v("0+")
    partitions: array[ReassignablePartitionResponse] = v("0+")


class AlterPartitionReassignmentsResponse(Message, key=45, response=True, versions="0-1", flexible="0+"):
    """A row for every partition of the request; an error at the top is one of all."""

    throttle_time_ms: int32 = v("0+")
    allow_replication_factor_change: boolean = v("1+", default=True)
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+")
    responses: array[ReassignableTopicResponse] = v("0+")
