"""AddOffsetsToTxn: add the partition of a group in `__consumer_offsets` to a transaction (KIP-98).

Clients send it before they commit offsets in the transaction. TxnOffsetCommit v5 adds the partition by itself.

v2 PRODUCER_FENCED   v3 flexible   v4 TRANSACTION_ABORTABLE (KIP-890)
"""

from collections.abc import Callable
from functools import partial

from headgate.gateway.api import authorization_rules
from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import every, group
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import settled
from headgate.gateway.coordinator.decision import Decision, ProducerIdAndEpoch, Ticket
from headgate.gateway.coordinator.transactions import partitions as requests
from headgate.gateway.coordinator.transactions.transaction_shard import TransactionShard
from headgate.gateway.metadata.image import CONSUMER_OFFSETS
from headgate.gateway.runtime.tasks import Outcome
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FENCED_SINCE = 2
"""The version since which clients know PRODUCER_FENCED."""


@handles(
    AddOffsetsToTxnRequest,
    versions="0-4",
    authorize=every(authorization_rules.transactional_id, group(AclOperation.READ)),
    stages=True,
)
def add_offsets_to_txn(request: AddOffsetsToTxnRequest, context: HandlerContext) -> Outcome[AddOffsetsToTxnResponse]:
    """Have the coordinator add the partition, once `__consumer_offsets` exists."""
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    change = context.broker.groups.prepare()
    if change is None:
        return _add(request, context, partial(request.error_response, context.version))
    return settled(context, change, lambda: _add(request, context, None), in_any_case=True)


def _add(
    request: AddOffsetsToTxnRequest,
    context: HandlerContext,
    lost: Callable[[ErrorCode], AddOffsetsToTxnResponse] | None,
) -> Outcome[AddOffsetsToTxnResponse]:
    """`lost` makes the response of a failed write, which may then be staged: not by a request that was parked."""
    transactional_id = request.transactional_id
    partitions = {CONSUMER_OFFSETS: [context.broker.groups.index_of(request.group_id)]}
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    knows_fenced = context.version >= FENCED_SINCE

    def decide(shard: TransactionShard, ticket: Ticket) -> Decision:
        return requests.add(
            shard, transactional_id, producer, partitions, 0, ticket, knows_fenced=knows_fenced, respond=_respond
        )

    return context.broker.transactions.submit(transactional_id, decide, lost)


def _respond(code: ErrorCode) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=code)
