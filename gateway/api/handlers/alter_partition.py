"""AlterPartition: a leader asks the controller to change the in-sync sets of partitions (KIP-497).

v1 recovery of unclean leaders (KIP-704)   v2 topic ids, INELIGIBLE_REPLICA (KIP-841)   v3 epochs of replicas (KIP-903)

Brokers of Apache Kafka ask for that. A leader of Headgate writes to ZooKeeper itself.
"""

from __future__ import annotations

from typing import Final

from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles_between_brokers
from headgate.gateway.runtime.tasks import Task, at_most
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

ALTERED_WITHIN_MS: Final = 10_000.0
"""The longest wait for ZooKeeper. The leader asks again at once, perhaps the next controller."""


@handles_between_brokers(AlterPartitionRequest, versions="0-3")
def alter_partition(request: AlterPartitionRequest, context: HandlerContext) -> Task[AlterPartitionResponse]:
    """Answer once the sets are stored, with the state of each partition."""
    altered = context.broker.metadata.alter_partition(request, context.version)
    response: AlterPartitionResponse | None = yield at_most(context.broker.scheduler, ALTERED_WITHIN_MS, altered)
    if response is None:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "ZooKeeper has not taken the in-sync sets in time; ask again")
    return response
