"""Partitions of a transaction: clients add them (AddPartitionsToTxn, AddOffsetsToTxn), leaders verify them (KIP-890).

Source: TransactionCoordinator.handleAddPartitionsToTransaction, handleVerifyPartitionsInTransaction.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headgate.gateway.coordinator.decision import Decision, ProducerIdAndEpoch, Ticket
from headgate.gateway.coordinator.transactions.effects import PartitionsByTopic
from headgate.gateway.coordinator.transactions.fencing import being_ended, check_holder, find
from headgate.gateway.coordinator.transactions.transaction import Transaction, TransactionState
from headgate.gateway.coordinator.transactions.transaction_shard import TransactionShard
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from headgate.protocol.schema import Struct


def add(
    shard: TransactionShard,
    key: str,
    producer: ProducerIdAndEpoch,
    partitions: PartitionsByTopic,
    client_version: int,
    ticket: Ticket,
    *,
    knows_fenced: bool = True,
    respond: Callable[[ErrorCode], Struct] | None = None,
) -> Decision:
    """Add partitions; the first begin the transaction. One error refuses all.

    `client_version` of the protocol: 2 if a leader adds the partition of a batch, in the new protocol. `respond` makes
    the reply of the code; by default it is the `results` of all partitions.
    """
    respond = respond or partial(results, key, partitions)
    try:
        transaction = _check(shard, key, producer, knows_fenced=knows_fenced)
    except KafkaError as error:
        return Decision.reply(ticket, respond(error.code))
    accepted = respond(ErrorCode.NONE)
    if transaction.state is TransactionState.ONGOING and transaction.has_all(partitions):
        return Decision.reply(ticket, accepted)
    begun = transaction.with_partitions(partitions, client_version, shard.timestamp_ms())
    return Decision(shard.record(key, begun), [(ticket, accepted)])


def verify(
    shard: TransactionShard, key: str, producer: ProducerIdAndEpoch, partitions: PartitionsByTopic, ticket: Ticket
) -> Decision:
    """Check that the transaction has these partitions; TRANSACTION_ABORTABLE for each missing one."""
    try:
        transaction = _check(shard, key, producer, knows_fenced=True)
    except KafkaError as error:
        return Decision.reply(ticket, results(key, partitions, error.code))

    def code(topic: str, index: int) -> ErrorCode:
        return ErrorCode.NONE if transaction.has(topic, index) else ErrorCode.TRANSACTION_ABORTABLE

    return Decision.reply(ticket, results_of_each(key, partitions, code))


def _check(shard: TransactionShard, key: str, producer: ProducerIdAndEpoch, *, knows_fenced: bool) -> Transaction:
    """The holder's transaction; refused while it is being ended, as the holder may have the next id already.

    Raises KafkaError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    """
    transaction = find(shard, key)
    if transaction.is_prepared:
        raise being_ended(key)
    check_holder(key, producer, transaction, knows_fenced=knows_fenced)
    return transaction


def results(key: str, partitions: PartitionsByTopic, code: ErrorCode) -> AddPartitionsToTxnResult:
    """The same code for each partition."""
    rows = [
        AddPartitionsToTxnTopicResult(topic, [AddPartitionsToTxnPartitionResult(index, code) for index in indexes])
        for topic, indexes in partitions.items()
    ]
    return AddPartitionsToTxnResult(key, rows)


def results_of_each(
    key: str, partitions: PartitionsByTopic, code: Callable[[str, int], ErrorCode]
) -> AddPartitionsToTxnResult:
    """A code for each partition, in the order of the request."""
    return AddPartitionsToTxnResult(
        key,
        [
            AddPartitionsToTxnTopicResult(
                topic, [AddPartitionsToTxnPartitionResult(index, code(topic, index)) for index in indexes]
            )
            for topic, indexes in partitions.items()
        ],
    )
