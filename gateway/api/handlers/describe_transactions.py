"""DescribeTransactions: the state of transactional ids, from their coordinator (KIP-664)."""

from headgate.gateway.api.authorization import AclOperation, AclResource, Authorization
from headgate.gateway.api.authorization_rules import elements, every
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.coordinator.transactions import listing
from headgate.gateway.runtime.tasks import Outcome
from headgate.protocol.errors import KafkaError
from headgate.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


def _authorize_topics(authorization: Authorization) -> None:
    """Require DESCRIBE on each topic; denied ones are omitted."""

    def omit(response: DescribeTransactionsResponse) -> None:
        for row in response.transaction_states:
            row.topics = [
                data for data in row.topics if authorization.shows(AclOperation.DESCRIBE, AclResource.TOPIC, data.topic)
            ]

    authorization.amends.append(omit)


@handles(
    DescribeTransactionsRequest,
    versions="0",
    authorize=every(
        elements(AclOperation.DESCRIBE, AclResource.TRANSACTIONAL_ID, "transactional_ids", "transaction_states"),
        _authorize_topics,
    ),
)
def describe_transactions(
    request: DescribeTransactionsRequest, context: HandlerContext
) -> Outcome[DescribeTransactionsResponse]:
    """A row for every id, once."""
    ids = list(dict.fromkeys(request.transactional_ids))

    def assemble(replies: list[TransactionState | KafkaError]) -> DescribeTransactionsResponse:
        return DescribeTransactionsResponse(
            transaction_states=[
                TransactionState(reply.code, key) if isinstance(reply, KafkaError) else reply
                for key, reply in zip(ids, replies, strict=True)
            ]
        )

    return context.broker.transactions.gather(ids, listing.describe, assemble)
