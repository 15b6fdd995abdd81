"""DescribeTransactions: the state of transactional ids (KIP-664). Transactions are not supported yet: none is known."""

from headgate.gateway.api.authorization import AclOperation, AclResource
from headgate.gateway.api.authorization_rules import elements
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


@handles(
    DescribeTransactionsRequest,
    versions="0",
    authorize=elements(AclOperation.DESCRIBE, AclResource.TRANSACTIONAL_ID, "transactional_ids", "transaction_states"),
)
def describe_transactions(
    request: DescribeTransactionsRequest, context: HandlerContext
) -> DescribeTransactionsResponse:
    """A row for every id, once."""
    code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    ids = dict.fromkeys(request.transactional_ids)
    return DescribeTransactionsResponse(
        transaction_states=[TransactionState(error_code=code, transactional_id=name) for name in ids]
    )
