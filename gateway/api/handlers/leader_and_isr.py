"""LeaderAndIsr: lead and follow partitions, as the controller orders.

v1 whether a replica is new   v2 broker epochs (KIP-380), partitions by topic   v3 replicas that come and go (KIP-455)
v4 flexible   v5 topic ids, full requests (KIP-516)   v6 recovery of unclean leaders (KIP-704)   v7 KRaft (KIP-866)
"""

from __future__ import annotations

from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles_between_brokers
from headgate.gateway.runtime.tasks import Task
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from headgate.protocol.steps import lazy_map
from headgate.protocol.topic_partition import TopicPartition


@handles_between_brokers(LeaderAndIsrRequest, versions="0-7", in_steps=True)
def leader_and_isr(request: LeaderAndIsrRequest, context: HandlerContext) -> Task[LeaderAndIsrResponse]:
    """Obey, and answer with a row for each partition once the logs are there."""
    orders = context.broker.controller_orders
    assert orders is not None, "the API is served with ZooKeeper alone"
    errors = yield from orders.leader_and_isr(request)

    def row(topic: str, state: LeaderAndIsrPartitionState) -> LeaderAndIsrPartitionError:
        code = errors.get(TopicPartition(topic, state.partition_index), ErrorCode.NONE)
        return LeaderAndIsrPartitionError(topic, state.partition_index, code)

    if context.version < 2:
        states = request.ungrouped_partition_states
        return LeaderAndIsrResponse(partition_errors=lazy_map(states, lambda state: row(state.topic_name, state)))
    if context.version < 5:
        pairs = [(topic.topic_name, state) for topic in request.topic_states for state in topic.partition_states]
        return LeaderAndIsrResponse(partition_errors=lazy_map(pairs, lambda pair: row(*pair)))
    return LeaderAndIsrResponse(
        topics=lazy_map(
            request.topic_states,
            lambda topic: LeaderAndIsrTopicError(
                topic.topic_id, lazy_map(topic.partition_states, lambda state: row(topic.topic_name, state))
            ),
        )
    )
