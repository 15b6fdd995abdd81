"""OffsetFetch: the committed offsets of groups.

v0 from ZooKeeper   v1 from the coordinator   v2 null means all topics, top-level error   v3 throttle   v5 leader epochs
(KIP-320)   v6 flexible   v7 require_stable (KIP-447)   v8 many groups (KIP-709)   v9 member epochs (KIP-848)
v10 topic ids (KIP-848)

From v8 on `groups` has everything. Kafka names the structs there with the plural of the older names.
"""

from headgate.protocol.errors import ErrorCode
from headgate.protocol.schema import (
    Message,
    Struct,
    array,
    boolean,
    int16,
    int32,
    int64,
    nullable_array,
    nullable_string,
    string,
    uuid,
    v,
)


class OffsetFetchRequestTopic(Struct):
    """The partitions of a topic, before v8."""

    name: string = v("0-7")
    partition_indexes: array[int32] = v("0-7")


class OffsetFetchRequestTopics(Struct):
    """The partitions of a topic, by name, from v10 by id."""

    name: string = v("8-9")
    topic_id: uuid = v("10+")
    partition_indexes: array[int32] = v("8+")


class OffsetFetchRequestGroup(Struct):
    """A group and the requested topics; null: all of them. Member id and epoch belong to KIP-848's protocol."""

    group_id: string = v("8+")
    member_id: nullable_string = v("9+", default=None)
    member_epoch: int32 = v("9+", default=-1)
    topics: nullable_array[OffsetFetchRequestTopics] = v("8+")


class OffsetFetchRequest(Message, key=9, versions="0-10", flexible="6+"):
    """Ask for one group, from v8 for many. `require_stable`: a pending offset is UNSTABLE_OFFSET_COMMIT."""

    group_id: string = v("0-7")
    topics: nullable_array[OffsetFetchRequestTopic] = v("0-7", nullable="2-7")
    groups: array[OffsetFetchRequestGroup] = v("8+")
    require_stable: boolean = v("7+")

    def error_response(self, version: int, error: ErrorCode, message: str | None = None) -> "OffsetFetchResponse":
        """Return the error where the version has a place for it.

        A request of v0 without topics asks Headgate for all: a topic without a name has the error.
        """
        if version == 0 and not self.topics:
            return OffsetFetchRequest(topics=[OffsetFetchRequestTopic("", [-1])]).error_response(version, error)
        response: OffsetFetchResponse = super().error_response(version, error, message)
        return response


class OffsetFetchResponsePartition(Struct):
    """A committed offset, before v8; -1 for none."""

    partition_index: int32 = v("0-7")
    committed_offset: int64 = v("0-7", failed=-1)
    committed_leader_epoch: int32 = v("5-7", default=-1)
    metadata: nullable_string = v("0-7")
    error_code: int16 = v("0-7")


class OffsetFetchResponseTopic(Struct):
    """The partitions of a topic, before v8."""

    name: string = v("0-7")
    partitions: array[OffsetFetchResponsePartition] = v("0-7")


class OffsetFetchResponsePartitions(Struct):
    """A committed offset; -1 for none."""

    partition_index: int32 = v("8+")
    committed_offset: int64 = v("8+")
    committed_leader_epoch: int32 = v("8+", default=-1)
    metadata: nullable_string = v("8+")
    error_code: int16 = v("8+")


class OffsetFetchResponseTopics(Struct):
    """The partitions of a topic, by name or id as in the request."""

    name: string = v("8-9")
    topic_id: uuid = v("10+")
    partitions: array[OffsetFetchResponsePartitions] = v("8+")


class OffsetFetchResponseGroup(Struct):
    """A group with its offsets, or its error."""

    group_id: string = v("8+")
    topics: array[OffsetFetchResponseTopics] = v("8+")
    error_code: int16 = v("8+")


class OffsetFetchResponse(Message, key=9, response=True, versions="0-10", flexible="6+"):
    """The offsets of one group, from v8 of many."""

    throttle_time_ms: int32 = v("3+")
    topics: array[OffsetFetchResponseTopic] = v("0-7")
    error_code: int16 = v("2-7")
    groups: array[OffsetFetchResponseGroup] = v("8+")
