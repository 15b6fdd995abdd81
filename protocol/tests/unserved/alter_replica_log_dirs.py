"""AlterReplicaLogDirs: move replicas between the log directories of one broker (KIP-113).

v2 flexible
"""

from headgate.protocol.errors import ErrorCode
from headgate.protocol.schema import Message, Struct, array, int16, int32, string, v


class AlterReplicaLogDirTopic(Struct):
    """Partitions of a topic."""

    name: string = v("0+")
    partitions: array[int32] = v("0+")


class AlterReplicaLogDir(Struct):
    """A log directory, by its absolute path, and the replicas to move there."""

    path: string = v("0+")
    topics: array[AlterReplicaLogDirTopic] = v("0+")


class AlterReplicaLogDirsRequest(Message, key=34, versions="0-2", flexible="2+"):
    """Move replicas; the moves continue after the response."""

    dirs: array[AlterReplicaLogDir] = v("0+")

    def error_response(
        self, version: int, error: ErrorCode, message: str | None = None
    ) -> "AlterReplicaLogDirsResponse":
        """Return the error for each partition: the response has no other place for an error."""
        return AlterReplicaLogDirsResponse(
            results=[_refuse(topic, error) for directory in self.dirs for topic in directory.topics]
        )


class AlterReplicaLogDirPartitionResult(Struct):
    """The result for a partition: was the move accepted?"""

    partition_index: int32 = v("0+")
    error_code: int16 = v("0+")


class AlterReplicaLogDirTopicResult(Struct):
    """The partitions of a topic."""

    topic_name: string = v("0+")
    partitions: array[AlterReplicaLogDirPartitionResult] = v("0+")


class AlterReplicaLogDirsResponse(Message, key=34, response=True, versions="0-2", flexible="2+"):
    """One result for each partition of the request."""

    throttle_time_ms: int32 = v("0+")
    results: array[AlterReplicaLogDirTopicResult] = v("0+")


def _refuse(topic: AlterReplicaLogDirTopic, error: ErrorCode) -> AlterReplicaLogDirTopicResult:
    return AlterReplicaLogDirTopicResult(
        topic.name, [AlterReplicaLogDirPartitionResult(partition, error) for partition in topic.partitions]
    )
