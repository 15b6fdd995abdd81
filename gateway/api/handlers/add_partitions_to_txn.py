"""AddPartitionsToTxn: add partitions to a transaction, before they are written to (KIP-98).

v2 PRODUCER_FENCED   v3 flexible   v4 many transactions at once, from brokers, which may only ask (KIP-890)
v5 TRANSACTION_ABORTABLE

One unknown or denied partition refuses its whole transaction: the others get OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.gateway.api.authorization import AclOperation, AclResource, Authorization
from headgate.gateway.api.authorization_rules import cluster
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import TOO_MANY_ROWS, exceeds_max_rows
from headgate.gateway.coordinator.decision import Decision, ProducerIdAndEpoch, Ticket
from headgate.gateway.coordinator.transactions import partitions as requests
from headgate.gateway.coordinator.transactions.transaction import EPOCH_PER_TRANSACTION
from headgate.gateway.coordinator.transactions.transaction_shard import TransactionShard
from headgate.gateway.metadata.image import INTERNAL_TOPICS, Image
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

OF_BROKERS_SINCE = 4
FENCED_SINCE = 2
"""The version since which clients know PRODUCER_FENCED."""


def _authorize(authorization: Authorization) -> None:
    """Require WRITE on the transactional id and on each topic; of brokers CLUSTER_ACTION."""
    request: AddPartitionsToTxnRequest = authorization.request
    if authorization.context.version >= OF_BROKERS_SINCE:
        cluster(AclOperation.CLUSTER_ACTION)(authorization)
        return
    transactional_id = request.v3_and_below_transactional_id
    authorization.require(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, transactional_id)
    if not all(
        authorization.allows(AclOperation.WRITE, AclResource.TOPIC, topic.name) for topic in request.v3_and_below_topics
    ):
        refused = _refused(
            _transaction(request),
            authorization.context.broker.metadata.image,
            lambda name: (
                name in INTERNAL_TOPICS or not authorization.allows(AclOperation.WRITE, AclResource.TOPIC, name)
            ),
        )
        assert refused is not None
        authorization.response = _of_client([refused])


@handles(AddPartitionsToTxnRequest, versions="0-5", authorize=_authorize)
def add_partitions_to_txn(request: AddPartitionsToTxnRequest, context: HandlerContext) -> Any:
    """Have the coordinator of each transaction add its partitions, or only verify them."""
    version = context.version
    is_client = version < OF_BROKERS_SINCE
    transactions = [_transaction(request)] if is_client else request.transactions
    if exceeds_max_rows(len(topic.partitions) for each in transactions for topic in each.topics):
        raise KafkaError(*TOO_MANY_ROWS)
    image = context.broker.metadata.image
    asked: dict[str, AddPartitionsToTxnTransaction] = {}
    rows: dict[str, AddPartitionsToTxnResult] = {}
    for each in transactions:  # an id that comes twice counts once, as in Kafka
        transactional_id = each.transactional_id
        refused = _refused(each, image, lambda name: is_client and name in INTERNAL_TOPICS)
        if refused is None:
            asked.setdefault(transactional_id, each)
        else:
            rows.setdefault(transactional_id, refused)

    def decide(shard: TransactionShard, transactional_id: str, ticket: Ticket) -> Decision:
        return _decide(shard, asked[transactional_id], version, ticket)

    def assemble(replies: list[AddPartitionsToTxnResult | KafkaError]) -> AddPartitionsToTxnResponse:
        for (transactional_id, each), reply in zip(asked.items(), replies, strict=True):
            if isinstance(reply, KafkaError):
                reply = requests.results(transactional_id, _partitions(each.topics), reply.code)  # noqa: PLW2901
            rows[transactional_id] = reply
        results = list(rows.values())
        return _of_client(results) if is_client else AddPartitionsToTxnResponse(results_by_transaction=results)

    return context.broker.transactions.gather(list(asked), decide, assemble)


def _transaction(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    """The one transaction of a client's request."""
    return AddPartitionsToTxnTransaction(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _of_client(results: list[AddPartitionsToTxnResult]) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)


def _decide(
    shard: TransactionShard, transaction: AddPartitionsToTxnTransaction, version: int, ticket: Ticket
) -> Decision:
    key, partitions = transaction.transactional_id, _partitions(transaction.topics)
    producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
    if not key:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    if transaction.verify_only:
        return requests.verify(shard, key, producer, partitions, ticket)
    client_version = EPOCH_PER_TRANSACTION if version >= OF_BROKERS_SINCE else 0
    knows_fenced = version >= FENCED_SINCE
    return requests.add(shard, key, producer, partitions, client_version, ticket, knows_fenced=knows_fenced)


def _partitions(topics: list[AddPartitionsToTxnTopic]) -> dict[str, list[int]]:
    """The partitions of a request, each once."""
    partitions: dict[str, list[int]] = {}
    for topic in topics:
        partitions[topic.name] = list(dict.fromkeys([*partitions.get(topic.name, ()), *topic.partitions]))
    return partitions


def _refused(
    transaction: AddPartitionsToTxnTransaction, image: Image, is_denied: Callable[[str], bool]
) -> AddPartitionsToTxnResult | None:
    """The row of a transaction with a partition that is denied or does not exist; None if there is no such one."""

    def code(name: str, index: int) -> ErrorCode:
        if is_denied(name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if index < 0 or not image.has_partition(name, index):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.OPERATION_NOT_ATTEMPTED

    partitions = _partitions(transaction.topics)
    row = requests.results_of_each(transaction.transactional_id, partitions, code)
    codes = {each.partition_error_code for topic in row.topic_results for each in topic.results_by_partition}
    return row if codes - {ErrorCode.OPERATION_NOT_ATTEMPTED} else None
