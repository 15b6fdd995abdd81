"""AddPartitionsToTxn: add partitions to a transaction, before they are written to (KIP-98).

v2 PRODUCER_FENCED   v3 flexible   v4 many transactions at once, from brokers, which may only ask (KIP-890)
v5 TRANSACTION_ABORTABLE

One unknown or denied partition refuses its whole transaction: the others get OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headgate.gateway.api.authorization import AclOperation, AclResource, Authorization, note_other_broker
from headgate.gateway.api.authorization_rules import broker
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import TOO_MANY_ROWS, exceeds_max_rows
from headgate.gateway.coordinator.decision import Decision, ProducerIdAndEpoch, Ticket
from headgate.gateway.coordinator.transactions import partitions as requests
from headgate.gateway.coordinator.transactions.effects import PartitionsByTopic
from headgate.gateway.coordinator.transactions.transaction import EPOCH_PER_TRANSACTION
from headgate.gateway.coordinator.transactions.transaction_shard import TransactionShard
from headgate.gateway.metadata.image import INTERNAL_TOPICS, Image
from headgate.gateway.runtime.tasks import Outcome
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

FENCED_SINCE = 2
"""The version since which clients know PRODUCER_FENCED."""
_EMPTY_ID = ErrorCode.INVALID_REQUEST, "the transactional id is empty"


def _authorize(authorization: Authorization) -> None:
    """Require WRITE on the transactional id and on each topic."""
    request: AddPartitionsToTxnRequest = authorization.request
    transactional_id = request.v3_and_below_transactional_id
    authorization.require(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, transactional_id)
    if not all(
        authorization.allows(AclOperation.WRITE, AclResource.TOPIC, topic.name) for topic in request.v3_and_below_topics
    ):
        refused = _refused(
            transactional_id,
            _partitions(request.v3_and_below_topics),
            authorization.context.broker.metadata.image,
            lambda name: (
                name in INTERNAL_TOPICS or not authorization.allows(AclOperation.WRITE, AclResource.TOPIC, name)
            ),
        )
        assert refused is not None
        authorization.response = _of_client(refused)


@handles(AddPartitionsToTxnRequest, versions="0-3", authorize=_authorize, stages=True)
def add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, context: HandlerContext
) -> Outcome[AddPartitionsToTxnResponse]:
    """Have the coordinator add the partitions to the transaction of a client."""
    topics, version = request.v3_and_below_topics, context.version
    if exceeds_max_rows(len(topic.partitions) for topic in topics):
        raise KafkaError(*TOO_MANY_ROWS)
    transactional_id, partitions = request.v3_and_below_transactional_id, _partitions(topics)
    refused = _refused(transactional_id, partitions, context.broker.metadata.image, INTERNAL_TOPICS.__contains__)
    if refused is not None:
        return _of_client(refused)
    if not transactional_id:
        raise KafkaError(*_EMPTY_ID)
    producer = ProducerIdAndEpoch(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    knows_fenced = version >= FENCED_SINCE

    def respond(code: ErrorCode) -> AddPartitionsToTxnResponse:
        return _of_client(requests.results(transactional_id, partitions, code))

    def decide(shard: TransactionShard, ticket: Ticket) -> Decision:
        return requests.add(
            shard, transactional_id, producer, partitions, 0, ticket, knows_fenced=knows_fenced, respond=respond
        )

    return context.broker.transactions.submit(transactional_id, decide, partial(request.error_response, version))


@handles(AddPartitionsToTxnRequest, versions="4-5", authorize=broker)
def add_partitions_to_txns(
    request: AddPartitionsToTxnRequest, context: HandlerContext
) -> Outcome[AddPartitionsToTxnResponse]:
    """Have the coordinator of each transaction of a broker's request add its partitions, or only verify them."""
    note_other_broker(context)
    if exceeds_max_rows(len(topic.partitions) for each in request.transactions for topic in each.topics):
        raise KafkaError(*TOO_MANY_ROWS)
    image = context.broker.metadata.image
    asked: dict[str, AddPartitionsToTxnTransaction] = {}
    rows: dict[str, AddPartitionsToTxnResult] = {}
    for each in request.transactions:  # an id that comes twice counts once, as in Kafka
        transactional_id = each.transactional_id
        refused = _refused(transactional_id, _partitions(each.topics), image, lambda _: False)
        if refused is None:
            asked.setdefault(transactional_id, each)
        else:
            rows.setdefault(transactional_id, refused)

    def decide(shard: TransactionShard, transactional_id: str, ticket: Ticket) -> Decision:
        return _decide(shard, asked[transactional_id], ticket)

    def assemble(replies: list[AddPartitionsToTxnResult | KafkaError]) -> AddPartitionsToTxnResponse:
        for (transactional_id, each), reply in zip(asked.items(), replies, strict=True):
            if isinstance(reply, KafkaError):
                reply = requests.results(transactional_id, _partitions(each.topics), reply.code)  # noqa: PLW2901
            rows[transactional_id] = reply
        return AddPartitionsToTxnResponse(results_by_transaction=list(rows.values()))

    return context.broker.transactions.gather(list(asked), decide, assemble)


def _of_client(result: AddPartitionsToTxnResult) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=result.topic_results)


def _decide(shard: TransactionShard, transaction: AddPartitionsToTxnTransaction, ticket: Ticket) -> Decision:
    key, partitions = transaction.transactional_id, _partitions(transaction.topics)
    producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
    if not key:
        raise KafkaError(*_EMPTY_ID)
    if transaction.verify_only:
        return requests.verify(shard, key, producer, partitions, ticket)
    return requests.add(shard, key, producer, partitions, EPOCH_PER_TRANSACTION, ticket)


def _partitions(topics: list[AddPartitionsToTxnTopic]) -> dict[str, list[int]]:
    """The partitions of a request, each once."""
    partitions: dict[str, list[int]] = {}
    for topic in topics:
        partitions[topic.name] = list(dict.fromkeys([*partitions.get(topic.name, ()), *topic.partitions]))
    return partitions


def _refused(
    transactional_id: str, partitions: PartitionsByTopic, image: Image, is_denied: Callable[[str], bool]
) -> AddPartitionsToTxnResult | None:
    """The row of a transaction with a partition that is denied or does not exist; None if there is no such one."""

    def code(name: str, index: int) -> ErrorCode:
        if is_denied(name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if index < 0 or not image.has_partition(name, index):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.OPERATION_NOT_ATTEMPTED

    for name, indexes in partitions.items():
        for index in indexes:
            if code(name, index) is not ErrorCode.OPERATION_NOT_ATTEMPTED:
                return requests.results_of_each(transactional_id, partitions, code)
    return None
