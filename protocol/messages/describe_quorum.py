"""DescribeQuorum: the voters and observers of the metadata log, with their progress (KIP-595).

v1 times of the last fetch (KIP-836)   v2 error messages, directory ids, addresses of the voters (KIP-853)
"""

from headgate.protocol.schema import (
    Message,
    Struct,
    array,
    int16,
    int32,
    int64,
    nullable_string,
    string,
    uint16,
    uuid,
    v,
)


class RequestedPartitionData(Struct):
    """A partition of the metadata log; the only one is 0."""

    partition_index: int32 = v("0+")


class RequestedTopicData(Struct):
    """The topic of the metadata log."""

    topic_name: string = v("0+")
    partitions: array[RequestedPartitionData] = v("0+")


class DescribeQuorumRequest(Message, key=55, versions="0-2", flexible="0+"):
    """Ask for the quorum."""

    topics: array[RequestedTopicData] = v("0+")


class ReplicaState(Struct):
    """A voter or an observer. Offset and times (in ms) are -1 if the leader does not know them."""

    replica_id: int32 = v("0+")
    replica_directory_id: uuid = v("2+")
    log_end_offset: int64 = v("0+")
    last_fetch_timestamp: int64 = v("1+", default=-1)
    last_caught_up_timestamp: int64 = v("1+", default=-1)


class PartitionData(Struct):
    """The quorum of a partition, or its error."""

    partition_index: int32 = v("0+")
    error_code: int16 = v("0+")
    error_message: nullable_string = v("2+")
    leader_id: int32 = v("0+")
    leader_epoch: int32 = v("0+")
    high_watermark: int64 = v("0+")
    current_voters: array[ReplicaState] = v("0+")
    observers: array[ReplicaState] = v("0+")


class TopicData(Struct):
    """The partitions of the metadata log."""

    topic_name: string = v("0+")
    partitions: array[PartitionData] = v("0+")


class Listener(Struct):
    """An address of a voter."""

    name: string = v("2+")
    host: string = v("2+")
    port: uint16 = v("2+")


class Node(Struct):
    """A voter and its addresses."""

    node_id: int32 = v("2+")
    listeners: array[Listener] = v("2+")


class DescribeQuorumResponse(Message, key=55, response=True, versions="0-2", flexible="0+"):
    """The quorum as its leader sees it, or an error at the top."""

    error_code: int16 = v("0+")
    error_message: nullable_string = v("2+")
    topics: array[TopicData] = v("0+")
    nodes: array[Node] = v("2+")
