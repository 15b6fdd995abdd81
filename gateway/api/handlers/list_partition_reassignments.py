"""ListPartitionReassignments: partitions that are being moved to other brokers (KIP-455).

A node that stands alone never moves any; see `alter_partition_reassignments`.
"""

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import cluster
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handlers import handles
from headgate.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


@handles(ListPartitionReassignmentsRequest, versions="0", authorize=cluster(AclOperation.DESCRIBE))
def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, context: HandlerContext
) -> ListPartitionReassignmentsResponse:
    """Nothing, whatever partitions are named: also of those that do not exist, as in Kafka."""
    return ListPartitionReassignmentsResponse(error_message=None)
