"""Metadata: brokers, topics, partitions and their leaders.

v1 null means all topics (v0: an empty list), controller, racks   v2 cluster id   v3 throttle   v4 auto-creation flag
v5 offline replicas   v7 leader epochs (KIP-320)   v8 authorized operations (KIP-430)   v9 flexible   v10 topic ids
(KIP-516)   v11 no more cluster operations (KIP-700)   v12 topics by id   v13 top-level error (KIP-1102)
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
    uuid,
    v,
)
from headgate.protocol.steps import lazy_map

OPERATIONS_UNKNOWN = -0x8000_0000
"""The value of a bit field of authorized operations that the request did not ask for."""


class MetadataRequestTopic(Struct):
    """A topic by name, or by id if the name is null."""

    topic_id: uuid = v("10+")
    name: nullable_string = v("0+", nullable="10+")


class MetadataRequest(Message, key=3, versions="0-13", flexible="9+"):
    """Ask for topics. None: all of them. An empty list: none, but all in v0."""

    topics: nullable_array[MetadataRequestTopic] = v("0+", nullable="1+")
    allow_auto_topic_creation: boolean = v("4+", default=True)
    include_cluster_authorized_operations: boolean = v("8-10")
    include_topic_authorized_operations: boolean = v("8+")

    def error_response(self, version: int, error: ErrorCode, message: str | None = None) -> "MetadataResponse":
        """Return the error for each topic of the request; before v13 the response has no other place for an error."""

        def refuse(topic: MetadataRequestTopic) -> MetadataResponseTopic:
            return MetadataResponseTopic(error_code=error, name=topic.name or "", topic_id=topic.topic_id)

        return MetadataResponse(topics=lazy_map(self.topics or [], refuse), error_code=error)


class MetadataResponseBroker(Struct):
    """A live broker, at its address of the client's listener."""

    node_id: int32 = v("0+")
    host: string = v("0+")
    port: int32 = v("0+")
    rack: nullable_string = v("1+", default=None)


class MetadataResponsePartition(Struct):
    """The leader of a partition (-1: none) and its replicas."""

    error_code: int16 = v("0+")
    partition_index: int32 = v("0+")
    leader_id: int32 = v("0+")
    leader_epoch: int32 = v("7+", default=-1)
    replica_nodes: array[int32] = v("0+")
    isr_nodes: array[int32] = v("0+")
    offline_replicas: array[int32] = v("5+")


class MetadataResponseTopic(Struct):
    """A topic, or its error. `name` is null only for an unknown topic id."""

    error_code: int16 = v("0+")
    name: nullable_string = v("0+", nullable="12+")
    topic_id: uuid = v("10+")
    is_internal: boolean = v("1+")
    partitions: array[MetadataResponsePartition] = v("0+")
    topic_authorized_operations: int32 = v("8+", default=OPERATIONS_UNKNOWN)


class MetadataResponse(Message, key=3, response=True, versions="0-13", flexible="9+"):
    """The cluster as this broker sees it."""

    throttle_time_ms: int32 = v("3+")
    brokers: array[MetadataResponseBroker] = v("0+")
    cluster_id: nullable_string = v("2+", default=None)
    controller_id: int32 = v("1+", default=-1)
    topics: array[MetadataResponseTopic] = v("0+")
    cluster_authorized_operations: int32 = v("8-10", default=OPERATIONS_UNKNOWN)
    error_code: int16 = v("13+")
