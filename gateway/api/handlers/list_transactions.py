"""ListTransactions: the transactions that are known here (KIP-664).

v1 by their duration   v2 by a pattern of their ids

Transactions are not served yet, so there are none. What is asked for is checked as if there were some: tools that look
for hanging transactions ask every broker.
"""

from headgate.gateway.api.authorization import AclOperation, AclResource, Authorization
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handlers import handles
from headgate.gateway.coordinator.groups.consumer import subscriptions
from headgate.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

# org.apache.kafka.clients.admin.TransactionState
STATES = frozenset(
    (
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "PrepareEpochFence",
        "Dead",
    )
)


def _authorize(authorization: Authorization) -> None:
    """DESCRIBE on each transactional id: a denied one is left out."""

    def is_allowed(row: TransactionState) -> bool:
        return authorization.allows(AclOperation.DESCRIBE, AclResource.TRANSACTIONAL_ID, row.transactional_id)

    authorization.keep_rows("transaction_states", is_allowed)


@handles(ListTransactionsRequest, versions="0-2", authorize=_authorize)
def list_transactions(request: ListTransactionsRequest, context: HandlerContext) -> ListTransactionsResponse:
    """None; and which of the states that are asked for are no states."""
    if request.transactional_id_pattern:
        subscriptions.check(request.transactional_id_pattern)
    unknown = [state for state in dict.fromkeys(request.state_filters) if state not in STATES]
    return ListTransactionsResponse(unknown_state_filters=unknown)
