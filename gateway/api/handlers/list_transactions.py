"""ListTransactions: the transactions of this broker (KIP-664).

v1 by their duration   v2 by a pattern of their ids

Transactions are not supported yet, so the list is empty. The filters are checked nevertheless: tools that look for
hanging transactions ask every broker.
"""

from headgate.gateway.api.authorization import AclOperation, AclResource, Authorization
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
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
    """Require DESCRIBE on each transactional id; denied ones are omitted."""

    def is_allowed(row: TransactionState) -> bool:
        return authorization.allows(AclOperation.DESCRIBE, AclResource.TRANSACTIONAL_ID, row.transactional_id)

    authorization.keep_rows("transaction_states", is_allowed)


@handles(ListTransactionsRequest, versions="0-2", authorize=_authorize)
def list_transactions(request: ListTransactionsRequest, context: HandlerContext) -> ListTransactionsResponse:
    """An empty list, with the unknown states among the filters."""
    if request.transactional_id_pattern:
        subscriptions.check(request.transactional_id_pattern)
    unknown = [state for state in dict.fromkeys(request.state_filters) if state not in STATES]
    return ListTransactionsResponse(unknown_state_filters=unknown)
