"""EndTxn: commit or abort a transaction (KIP-98).

v2 PRODUCER_FENCED   v3 flexible   v4 TRANSACTION_ABORTABLE   v5 a new epoch for the next transaction (KIP-890)
"""

from functools import partial

from headgate.gateway.api import authorization_rules
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.coordinator.decision import Decision, Ticket
from headgate.gateway.coordinator.transactions import ending
from headgate.gateway.coordinator.transactions.transaction_shard import TransactionShard
from headgate.gateway.runtime.tasks import Outcome
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse


@handles(EndTxnRequest, versions="0-5", authorize=authorization_rules.transactional_id, stages=True)
def end_txn(request: EndTxnRequest, context: HandlerContext) -> Outcome[EndTxnResponse]:
    """Have the coordinator decide; the response waits until the decision is below the high watermark."""
    transactional_id, version = request.transactional_id, context.version
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")

    def decide(shard: TransactionShard, ticket: Ticket) -> Decision:
        return ending.end_txn(shard, transactional_id, request, version, ticket)

    return context.broker.transactions.submit(transactional_id, decide, partial(request.error_response, version))
