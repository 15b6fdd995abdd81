"""CreatePartitions: more partitions for topics that exist (KIP-195).

v2 flexible   v3 quota errors (KIP-599)
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


class CreatePartitionsAssignment(Struct):
    """The brokers that shall hold one of the new partitions, the preferred leader first."""

    broker_ids: array[int32] = v("0+")


class CreatePartitionsTopic(Struct):
    """A topic and how many partitions it shall have in all. `assignments` are for the new ones; null: as it comes."""

    name: string = v("0+")
    count: int32 = v("0+")
    assignments: nullable_array[CreatePartitionsAssignment] = v("0+")


class CreatePartitionsRequest(Message, key=37, versions="0-3", flexible="2+"):
    """Grow topics, or with `validate_only` say whether they could."""

    topics: array[CreatePartitionsTopic] = v("0+")
    timeout_ms: int32 = v("0+")
    validate_only: boolean = v("0+")

    def error_response(self, version: int, error: ErrorCode, message: str | None = None) -> "CreatePartitionsResponse":
        """The error at every topic: this API has no other place for it."""
        return CreatePartitionsResponse(
            results=[CreatePartitionsTopicResult(topic.name, error, message) for topic in self.topics]
        )


class CreatePartitionsTopicResult(Struct):
    """What became of a topic."""

    name: string = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+", default=None)


class CreatePartitionsResponse(Message, key=37, response=True, versions="0-3", flexible="2+"):
    """A row for every topic of the request."""

    throttle_time_ms: int32 = v("0+")
    results: array[CreatePartitionsTopicResult] = v("0+")
