"""ListTransactions: the transactions that this broker coordinates (KIP-664).

v1 by their duration (KIP-994)   v2 by a pattern of their ids (KIP-1152)
"""

from collections.abc import Iterable

from headgate.gateway.api.authorization import AclOperation, AclResource, Authorization
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.coordinator.groups.consumer import subscriptions
from headgate.gateway.coordinator.transactions.listing import Filter
from headgate.gateway.coordinator.transactions.transaction import Transaction
from headgate.gateway.runtime.tasks import Outcome, at_once_if_few
from headgate.protocol.internal.transactions import STATES
from headgate.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from headgate.protocol.steps import Steps

_IDS_A_STEP = 32


def _authorize(authorization: Authorization) -> None:
    """Require DESCRIBE on each transactional id; denied ones are omitted."""

    def is_allowed(row: TransactionState) -> bool:
        return authorization.shows(AclOperation.DESCRIBE, AclResource.TRANSACTIONAL_ID, row.transactional_id)

    authorization.keep_rows("transaction_states", is_allowed)


@handles(ListTransactionsRequest, versions="0-2", authorize=_authorize)
def list_transactions(request: ListTransactionsRequest, context: HandlerContext) -> Outcome[ListTransactionsResponse]:
    """The matching transactions, and the unknown states among the filters.

    While a part of the transactions is loading, the request fails: clients would take a partial list for all.
    """
    pattern = request.transactional_id_pattern
    if pattern:
        subscriptions.check(pattern)
    found = [item for shard in context.broker.transactions.shards() for item in shard.transactions.items()]
    if pattern:
        names = subscriptions.resolve(pattern, (key for key, _ in found))
        found = [(key, transaction) for key, transaction in found if key in names]
    return at_once_if_few(_list(request, found, context.broker.clock.now_ms()), len(found))


def _list(
    request: ListTransactionsRequest, found: Iterable[tuple[str, Transaction]], now_ms: int
) -> Steps[ListTransactionsResponse]:
    wanted = Filter(frozenset(request.state_filters), frozenset(request.producer_id_filters), request.duration_filter)
    rows = []
    for number, (key, transaction) in enumerate(found, 1):
        if wanted.matches(transaction, now_ms):
            rows.append(TransactionState(key, transaction.producer_id, transaction.state.title))
        if not number % _IDS_A_STEP:
            yield
    unknown = [state for state in dict.fromkeys(request.state_filters) if state not in STATES]
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=rows)
