"""AddOffsetsToTxn: add the partition of a group in `__consumer_offsets` to a transaction (KIP-98).

Clients send it before they commit offsets in the transaction. TxnOffsetCommit v5 adds the partition by itself.

v2 PRODUCER_FENCED   v3 flexible   v4 TRANSACTION_ABORTABLE (KIP-890)
"""

from typing import Any

from headgate.gateway.api.authorization import AclOperation, AclResource, Authorization
from headgate.gateway.api.authorization_rules import every, group
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import settled
from headgate.gateway.coordinator.decision import Decision, ProducerIdAndEpoch, Ticket
from headgate.gateway.coordinator.transactions import partitions as requests
from headgate.gateway.coordinator.transactions.transaction_shard import TransactionShard
from headgate.gateway.metadata.image import CONSUMER_OFFSETS
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from headgate.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResult

FENCED_SINCE = 2
"""The version since which clients know PRODUCER_FENCED."""


def _authorize_id(authorization: Authorization) -> None:
    """Require WRITE on the transactional id."""
    transactional_id = authorization.request.transactional_id
    authorization.require(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, transactional_id)


@handles(AddOffsetsToTxnRequest, versions="0-4", authorize=every(_authorize_id, group(AclOperation.READ)))
def add_offsets_to_txn(request: AddOffsetsToTxnRequest, context: HandlerContext) -> Any:
    """Have the coordinator add the partition, once `__consumer_offsets` exists."""
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    return settled(context, context.broker.groups.prepare(), lambda: _add(request, context), in_any_case=True)


def _add(request: AddOffsetsToTxnRequest, context: HandlerContext) -> Any:
    partitions = {CONSUMER_OFFSETS: [context.broker.groups.index_of(request.group_id)]}
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    knows_fenced = context.version >= FENCED_SINCE

    def decide(shard: TransactionShard, transactional_id: str, ticket: Ticket) -> Decision:
        return requests.add(shard, transactional_id, producer, partitions, 0, ticket, knows_fenced=knows_fenced)

    def assemble(replies: list[AddPartitionsToTxnResult | KafkaError]) -> AddOffsetsToTxnResponse:
        (reply,) = replies
        if isinstance(reply, KafkaError):
            return AddOffsetsToTxnResponse(error_code=reply.code)
        return AddOffsetsToTxnResponse(error_code=reply.topic_results[0].results_by_partition[0].partition_error_code)

    return context.broker.transactions.gather([request.transactional_id], decide, assemble)
