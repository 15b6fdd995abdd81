"""AlterPartitionReassignments: move partitions to other brokers, or cancel such moves (KIP-455).

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
    """A partition and its new replicas; null cancels an ongoing reassignment."""

    partition_index: int32 = v("0+")
    replicas: nullable_array[int32] = v("0+", default=None)


class ReassignableTopic(Struct):
    """The partitions of a topic."""

    name: string = v("0+")
    partitions: array[ReassignablePartition] = v("0+")


class AlterPartitionReassignmentsRequest(Message, key=45, versions="0-1", flexible="0+"):
    """Begin or cancel reassignments; they continue after the response."""

    timeout_ms: int32 = v("0+", default=60000)
    allow_replication_factor_change: boolean = v("1+", default=True)
    topics: array[ReassignableTopic] = v("0+")

    def error_response(
        self, version: int, error: ErrorCode, message: str | None = None
    ) -> "AlterPartitionReassignmentsResponse":
        """Return the error at the top and for each partition: clients read either."""
        responses = [
            ReassignableTopicResponse(
                topic.name,
                [ReassignablePartitionResponse(row.partition_index, error, message) for row in topic.partitions],
            )
            for topic in self.topics
        ]
        return AlterPartitionReassignmentsResponse(error_code=error, error_message=message, responses=responses)


class ReassignablePartitionResponse(Struct):
    """The result for a partition; NO_REASSIGNMENT_IN_PROGRESS if there was none to cancel."""

    partition_index: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+")


class ReassignableTopicResponse(Struct):
    """The partitions of a topic."""

    name: string = v("0+")
    partitions: array[ReassignablePartitionResponse] = v("0+")


class AlterPartitionReassignmentsResponse(Message, key=45, response=True, versions="0-1", flexible="0+"):
    """One result for each partition of the request. An error at the top applies to all of them."""

    throttle_time_ms: int32 = v("0+")
    allow_replication_factor_change: boolean = v("1+", default=True)
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+")
    responses: array[ReassignableTopicResponse] = v("0+")
