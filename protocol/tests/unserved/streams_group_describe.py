"""StreamsGroupDescribe: groups of Kafka Streams with their topologies, members and tasks (KIP-1071).

v1 descriptions of topologies (KIP-1331), the assignor (KIP-1357)
"""

from headgate.protocol.schema import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    nullable_array,
    nullable_string,
    string,
    v,
)
from headgate.protocol.tests.unserved.streams_group_heartbeat import Endpoint, KeyValue, TaskIds, TaskOffset, TopicInfo
from headgate.protocol.tests.unserved.streams_group_topology_description_update import (
    TopologyDescription,
)


class StreamsGroupDescribeRequest(Message, key=89, versions="0-1", flexible="0+"):
    """Ask for groups by name."""

    group_ids: array[string] = v("0+")
    include_authorized_operations: boolean = v("0+")
    include_topology_description: boolean = v("1+")


class Subtopology(Struct):
    """A part of the topology, with its topics."""

    subtopology_id: string = v("0+")
    source_topics: array[string] = v("0+")
    repartition_sink_topics: array[string] = v("0+")
    state_changelog_topics: array[TopicInfo] = v("0+")
    repartition_source_topics: array[TopicInfo] = v("0+")


class Topology(Struct):
    """The topology of the group. Subtopologies are null if their topics are missing or do not fit."""

    epoch: int32 = v("0+")
    subtopologies: nullable_array[Subtopology] = v("0+", default=None)


class Assignment(Struct):
    """The tasks of a member."""

    active_tasks: array[TaskIds] = v("0+")
    standby_tasks: array[TaskIds] = v("0+")
    warmup_tasks: array[TaskIds] = v("0+")


class Member(Struct):
    """A member with its tasks and its target tasks."""

    member_id: string = v("0+")
    member_epoch: int32 = v("0+")
    instance_id: nullable_string = v("0+", default=None)
    rack_id: nullable_string = v("0+", default=None)
    client_id: string = v("0+")
    client_host: string = v("0+")
    topology_epoch: int32 = v("0+")
    process_id: string = v("0+")
    user_endpoint: Endpoint | None = v("0+", default=None)
    client_tags: array[KeyValue] = v("0+")
    task_offsets: array[TaskOffset] = v("0+")
    task_end_offsets: array[TaskOffset] = v("0+")
    assignment: Assignment = v("0+")
    target_assignment: Assignment = v("0+")
    is_classic: boolean = v("0+")


class DescribedGroup(Struct):
    """A group. The description is null unless its status is 3, available (0 not requested, 1 not stored, 2 error)."""

    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+", default=None)
    group_id: string = v("0+")
    group_state: string = v("0+")
    group_epoch: int32 = v("0+")
    assignment_epoch: int32 = v("0+")
    topology: Topology | None = v("0+", default=None)
    members: array[Member] = v("0+")
    authorized_operations: int32 = v("0+", default=-0x8000_0000)
    topology_description: TopologyDescription | None = v("1+", default=None)
    topology_description_status: int8 = v("1+")
    assignor_name: nullable_string = v("1+", default=None)


class StreamsGroupDescribeResponse(Message, key=89, response=True, versions="0-1", flexible="0+"):
    """One result for each group of the request."""

    throttle_time_ms: int32 = v("0+")
    groups: array[DescribedGroup] = v("0+")
