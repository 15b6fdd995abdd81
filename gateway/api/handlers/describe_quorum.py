"""DescribeQuorum: the voters of the metadata quorum, with the log end offset of each (KIP-595).

v1 times of fetches (KIP-836)   v2 messages, directory ids, addresses of the voters (KIP-853)

Kafka's tools send this request. The quorum is this node alone: it owns the metadata log, which is synced before
replies.
"""

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import cluster
from headgate.gateway.api.broker_endpoints import own_endpoint
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)

METADATA = "__cluster_metadata"
"""Kafka's name of the metadata log, which tools use in requests."""


@handles(DescribeQuorumRequest, versions="0-2", authorize=cluster(AclOperation.DESCRIBE))
def describe_quorum(request: DescribeQuorumRequest, context: HandlerContext) -> DescribeQuorumResponse:
    """Describe partition 0 of the metadata log; a request for any other partition gets unknown partitions."""
    asked = [(topic.topic_name, row.partition_index) for topic in request.topics for row in topic.partitions]
    if asked == [(METADATA, 0)] and len(request.topics) == 1:
        partitions, nodes = [_quorum(context)], [_node(context)]
        return DescribeQuorumResponse(
            error_message=None, topics=[TopicData(topic_name=METADATA, partitions=partitions)], nodes=nodes
        )
    return DescribeQuorumResponse(
        error_message=None,
        topics=[
            TopicData(
                topic_name=topic.topic_name, partitions=[_unknown(row.partition_index) for row in topic.partitions]
            )
            for topic in request.topics
        ],
    )


def _unknown(index: int) -> PartitionData:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return PartitionData(partition_index=index, error_code=code, error_message=code.message)


def _quorum(context: HandlerContext) -> PartitionData:
    node_id, metadata = context.broker.config.node_id, context.broker.metadata
    now_ms = context.broker.clock.now_ms()
    voter = ReplicaState(
        replica_id=node_id,
        log_end_offset=metadata.end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    return PartitionData(
        error_message=None, leader_id=node_id, high_watermark=metadata.end_offset, current_voters=[voter]
    )


def _node(context: HandlerContext) -> Node:
    own = own_endpoint(context)
    return Node(node_id=own.node_id, listeners=[Listener(context.client.listener, own.host, own.port)])
