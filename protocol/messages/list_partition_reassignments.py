"""ListPartitionReassignments: the ongoing reassignments of partitions (KIP-455)."""

from headgate.protocol.schema import Message, Struct, array, int16, int32, nullable_array, nullable_string, string, v


class ListPartitionReassignmentsTopics(Struct):
    """Partitions of a topic."""

    name: string = v("0+")
    partition_indexes: array[int32] = v("0+")


class ListPartitionReassignmentsRequest(Message, key=46, versions="0", flexible="0+"):
    """Ask for partitions; null: all of them."""

    timeout_ms: int32 = v("0+", default=60000)
    topics: nullable_array[ListPartitionReassignmentsTopics] = v("0+", default=None)


class OngoingPartitionReassignment(Struct):
    """A partition under reassignment: all its replicas, those to be added, and those to be removed."""

    partition_index: int32 = v("0+")
    replicas: array[int32] = v("0+")
    adding_replicas: array[int32] = v("0+")
    removing_replicas: array[int32] = v("0+")


class OngoingTopicReassignment(Struct):
    """The partitions of a topic."""

    name: string = v("0+")
    partitions: array[OngoingPartitionReassignment] = v("0+")


class ListPartitionReassignmentsResponse(Message, key=46, response=True, versions="0", flexible="0+"):
    """The ongoing reassignments."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+")
    topics: array[OngoingTopicReassignment] = v("0+")
