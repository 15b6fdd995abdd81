"""StreamsGroupHeartbeat: join, stay in and leave a group of Kafka Streams, and get the tasks to run (KIP-1071).

v1 the response may ask for a description of the topology (KIP-1331)
"""

from headgate.protocol.schema import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    nullable_array,
    nullable_string,
    string,
    uint16,
    v,
)


class KeyValue(Struct):
    """A name and its value."""

    key: string = v("0+")
    value: string = v("0+")


class TopicInfo(Struct):
    """An internal topic of the topology; 0 leaves partitions or replicas to the broker."""

    name: string = v("0+")
    partitions: int32 = v("0+")
    replication_factor: int16 = v("0+")
    topic_configs: array[KeyValue] = v("0+")


class CopartitionGroup(Struct):
    """Topics that must have the same number of partitions: indices into the lists of the subtopology."""

    source_topics: array[int16] = v("0+")
    source_topic_regex: array[int16] = v("0+")
    repartition_source_topics: array[int16] = v("0+")


class Subtopology(Struct):
    """A part of the topology, with its topics."""

    subtopology_id: string = v("0+")
    source_topics: array[string] = v("0+")
    source_topic_regex: array[string] = v("0+")
    state_changelog_topics: array[TopicInfo] = v("0+")
    repartition_sink_topics: array[string] = v("0+")
    repartition_source_topics: array[TopicInfo] = v("0+")
    copartition_groups: array[CopartitionGroup] = v("0+")


class Topology(Struct):
    """The topology of the application; a joining member sends it."""

    epoch: int32 = v("0+")
    subtopologies: array[Subtopology] = v("0+")


class TaskIds(Struct):
    """Tasks: partitions of a subtopology."""

    subtopology_id: string = v("0+")
    partitions: array[int32] = v("0+")


class Endpoint(Struct):
    """The address of an instance for interactive queries."""

    host: string = v("0+")
    port: uint16 = v("0+")


class TaskOffset(Struct):
    """The offset of a task in its changelogs."""

    subtopology_id: string = v("0+")
    partition: int32 = v("0+")
    offset: int64 = v("0+")


class StreamsGroupHeartbeatRequest(Message, key=88, versions="0-1", flexible="0+"):
    """A member with its tasks. Null, or a timeout of -1: no change since the last heartbeat.

    Epoch 0 joins, -1 leaves, -2 leaves for a while.
    """

    group_id: string = v("0+")
    member_id: string = v("0+")
    member_epoch: int32 = v("0+")
    endpoint_information_epoch: int32 = v("0+")
    instance_id: nullable_string = v("0+", default=None)
    rack_id: nullable_string = v("0+", default=None)
    rebalance_timeout_ms: int32 = v("0+", default=-1)
    topology: Topology | None = v("0+", default=None)
    active_tasks: nullable_array[TaskIds] = v("0+", default=None)
    standby_tasks: nullable_array[TaskIds] = v("0+", default=None)
    warmup_tasks: nullable_array[TaskIds] = v("0+", default=None)
    process_id: nullable_string = v("0+", default=None)
    user_endpoint: Endpoint | None = v("0+", default=None)
    client_tags: nullable_array[KeyValue] = v("0+", default=None)
    task_offsets: nullable_array[TaskOffset] = v("0+", default=None)
    task_end_offsets: nullable_array[TaskOffset] = v("0+", default=None)
    shutdown_application: boolean = v("0+")


class Status(Struct):
    """A notice for the member: a code and a sentence."""

    status_code: int8 = v("0+")
    status_detail: string = v("0+")


class TopicPartition(Struct):
    """Partitions of a topic."""

    topic: string = v("0+")
    partitions: array[int32] = v("0+")


class EndpointToPartitions(Struct):
    """The partitions of a member. The members of one instance share an endpoint."""

    user_endpoint: Endpoint = v("0+")
    active_partitions: array[TopicPartition] = v("0+")
    standby_partitions: array[TopicPartition] = v("0+")


class StreamsGroupHeartbeatResponse(Message, key=88, response=True, versions="0-1", flexible="0+"):
    """The member's epoch, its heartbeat interval and its tasks; null for unchanged tasks."""

    throttle_time_ms: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+", default=None)
    member_id: string = v("0+")
    member_epoch: int32 = v("0+")
    heartbeat_interval_ms: int32 = v("0+")
    acceptable_recovery_lag_legacy: int32 = v("0")
    task_offset_interval_ms: int32 = v("0+")
    acceptable_recovery_lag: int64 = v("1+", default=-1)
    status: nullable_array[Status] = v("0+")
    active_tasks: nullable_array[TaskIds] = v("0+", default=None)
    standby_tasks: nullable_array[TaskIds] = v("0+", default=None)
    warmup_tasks: nullable_array[TaskIds] = v("0+", default=None)
    topology_description_required: boolean = v("1+")
    endpoint_information_epoch: int32 = v("0+")
    partitions_by_user_endpoint: nullable_array[EndpointToPartitions] = v("0+", default=None)
