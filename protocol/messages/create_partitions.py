"""CreatePartitions: add partitions to existing topics (KIP-195).

v2 flexible   v3 quota errors (KIP-599)
"""

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
    """The replicas of a new partition, the preferred leader first."""

    broker_ids: array[int32] = v("0+")


class CreatePartitionsTopic(Struct):
    """A topic and its new number of partitions. `assignments`: replicas of the new ones; null: the broker chooses."""

    name: string = v("0+")
    count: int32 = v("0+")
    assignments: nullable_array[CreatePartitionsAssignment] = v("0+")


class CreatePartitionsRequest(Message, key=37, versions="0-3", flexible="2+"):
    """Add partitions, or with `validate_only` only validate the request."""

    topics: array[CreatePartitionsTopic] = v("0+")
    timeout_ms: int32 = v("0+")
    validate_only: boolean = v("0+")


class CreatePartitionsTopicResult(Struct):
    """The result for a topic."""

    name: string = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+", default=None)


class CreatePartitionsResponse(Message, key=37, response=True, versions="0-3", flexible="2+"):
    """One result for each topic of the request."""

    throttle_time_ms: int32 = v("0+")
    results: array[CreatePartitionsTopicResult] = v("0+")
