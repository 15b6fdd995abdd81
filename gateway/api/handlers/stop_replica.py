"""StopReplica: stop replicas, and perhaps delete them, as the controller orders.

v1 broker epochs (KIP-380), partitions by topic   v2 flexible   v3 leader epochs, deletion by partition (KIP-570)
v4 KRaft (KIP-866)
"""

from __future__ import annotations

from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles_between_brokers
from headgate.gateway.runtime.tasks import Task
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from headgate.protocol.topic_partition import TopicPartition


@handles_between_brokers(StopReplicaRequest, versions="0-4", in_steps=True)
def stop_replica(request: StopReplicaRequest, context: HandlerContext) -> Task[StopReplicaResponse]:
    """Obey, and answer with a row for each partition once the files of deleted replicas are gone."""
    orders = context.broker.controller_orders
    assert orders is not None, "the API is served with ZooKeeper alone"
    errors = yield from orders.stop_replica(request)
    response = request.error_response(context.version, ErrorCode.NONE)
    for row in response.partition_errors if errors else ():
        row.error_code = errors.get(TopicPartition(row.topic_name, row.partition_index), ErrorCode.NONE)
    return response
