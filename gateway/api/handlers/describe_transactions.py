"""DescribeTransactions: the state of transactional ids (KIP-664). Transactions are not served yet, so none is known."""

from gateway.api.context import Context
from gateway.api.handlers import handles
from protocol.errors import ErrorCode
from protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


@handles(DescribeTransactionsRequest, versions="0")
def describe_transactions(request: DescribeTransactionsRequest, context: Context) -> DescribeTransactionsResponse:
    """A row for every id, once."""
    code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    ids = dict.fromkeys(request.transactional_ids)
    return DescribeTransactionsResponse(
        transaction_states=[TransactionState(error_code=code, transactional_id=each) for each in ids]
    )
