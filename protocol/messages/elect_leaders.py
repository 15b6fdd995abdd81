"""ElectLeaders: elect the preferred replica, or, in an unclean election, any live one (KIP-183).

v1 unclean elections, top-level error (KIP-460)   v2 flexible
"""

from headgate.protocol.errors import ErrorCode
from headgate.protocol.schema import (
    Message,
    Struct,
    array,
    int8,
    int16,
    int32,
    nullable_array,
    nullable_string,
    string,
    v,
)

PREFERRED = 0
UNCLEAN = 1


class TopicPartitions(Struct):
    """Partitions of a topic."""

    topic: string = v("0+")
    partitions: array[int32] = v("0+")


class ElectLeadersRequest(Message, key=43, versions="0-2", flexible="2+"):
    """Elect leaders; null: of all partitions. `election_type`: a constant of this module."""

    election_type: int8 = v("1+")
    topic_partitions: nullable_array[TopicPartitions] = v("0+")
    timeout_ms: int32 = v("0+", default=60000)

    def error_response(self, version: int, error: ErrorCode, message: str | None = None) -> "ElectLeadersResponse":
        """Return the error at the top; in v0 for each partition of the request."""
        results = [
            ReplicaElectionResult(
                topic.topic, [PartitionResult(partition, error, message) for partition in topic.partitions]
            )
            for topic in self.topic_partitions or ()
        ]
        return ElectLeadersResponse(error_code=error, replica_election_results=results)


class PartitionResult(Struct):
    """The result for a partition; ELECTION_NOT_NEEDED if the leader stays."""

    partition_id: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+")


class ReplicaElectionResult(Struct):
    """The partitions of a topic."""

    topic: string = v("0+")
    partition_result: array[PartitionResult] = v("0+")


class ElectLeadersResponse(Message, key=43, response=True, versions="0-2", flexible="2+"):
    """One result for each partition of the request. A request for all omits the partitions whose leader stays."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("1+")
    replica_election_results: array[ReplicaElectionResult] = v("0+")
