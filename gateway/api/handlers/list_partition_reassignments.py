"""ListPartitionReassignments: the partition reassignments in progress (KIP-455).

A single node never has any; see `alter_partition_reassignments`.
"""

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import cluster
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


@handles(ListPartitionReassignmentsRequest, versions="0", authorize=cluster(AclOperation.DESCRIBE))
def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, context: HandlerContext
) -> ListPartitionReassignmentsResponse:
    """Always an empty list, even for partitions that do not exist, as in Kafka."""
    context.broker.metadata.require_controller()
    return ListPartitionReassignmentsResponse(error_message=None)
