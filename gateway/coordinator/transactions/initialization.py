"""InitProducerId of a transactional id: give out a producer id and an epoch, and fence every earlier holder.

| the id is | answer |
|---|---|
| unknown | a new producer id, epoch 0 |
| Empty, Complete... | the next epoch; a new producer id if the epochs are exhausted |
| Ongoing | CONCURRENT_TRANSACTIONS; the transaction is aborted in a higher epoch |
| Prepare... | CONCURRENT_TRANSACTIONS |

A producer may name the id and epoch that it holds, to raise its own epoch after an error (KIP-360). Then only the
holder gets the next epoch, and a repeated request the same answer. Source: TransactionCoordinator.handleInitProducerId.
"""

from __future__ import annotations

from headgate.gateway.coordinator.decision import Decision, ProducerIdAndEpoch, Ticket
from headgate.gateway.coordinator.transactions.fencing import being_ended, fenced
from headgate.gateway.coordinator.transactions.transaction import (
    EXHAUSTED_EPOCH,
    NO_EPOCH,
    Transaction,
    TransactionState,
    next_epoch,
)
from headgate.gateway.coordinator.transactions.transaction_shard import REPLACED, TransactionShard
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

FENCED_SINCE = 4
"""The version of InitProducerId since which clients know PRODUCER_FENCED."""


def init_producer_id(
    shard: TransactionShard, key: str, request: InitProducerIdRequest, version: int, ticket: Ticket
) -> Decision:
    """InitProducerId v0-v5 with a transactional id.

    Raises KafkaError: INVALID_TRANSACTION_TIMEOUT, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS while producer ids are taken.
    """
    timeout_ms, max_timeout_ms = request.transaction_timeout_ms, shard.settings.max_timeout_ms
    if not 0 < timeout_ms <= max_timeout_ms:
        message = f"transaction.timeout.ms of {key} is {timeout_ms}; the broker allows 1 to {max_timeout_ms}"
        raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT, message)
    expected = None
    if request.producer_id != -1:
        expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    transaction = shard.transactions.get(key)
    if transaction is None:
        transaction = Transaction(shard.next_producer_id())
    if transaction.is_prepared:
        raise being_ended(key)
    if expected is not None and not _is_of_this_id(transaction, expected):
        raise fenced(key, expected, transaction, version >= FENCED_SINCE)
    if transaction.state is TransactionState.ONGOING:
        shard.note_abort(key, REPLACED)
        decision = shard.fence(key, transaction)
        message = f"the ongoing transaction of {key} is being aborted"
        decision.replies = [(ticket, KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, message))]
        return decision
    given = _producer_for_answer(shard, key, transaction, expected, version)
    if expected is None or transaction.producer_epoch == NO_EPOCH:
        shard.replaced.pop(key, None)
    else:
        shard.replaced[key] = given, expected
    initialized = transaction.initialized(*given, timeout_ms, shard.timestamp_ms())
    response = InitProducerIdResponse(producer_id=given.producer_id, producer_epoch=given.producer_epoch)
    return Decision(shard.record(key, initialized), [(ticket, response)])


def _is_of_this_id(transaction: Transaction, expected: ProducerIdAndEpoch) -> bool:
    """Whether the holder has this producer id, or had it until the epochs were exhausted."""
    return (
        transaction.producer_epoch == NO_EPOCH
        or expected.producer_id == transaction.producer_id
        or (expected.producer_id == transaction.previous_producer_id and expected.producer_epoch >= EXHAUSTED_EPOCH)
    )


def _producer_for_answer(
    shard: TransactionShard, key: str, transaction: Transaction, expected: ProducerIdAndEpoch | None, version: int
) -> ProducerIdAndEpoch:
    """The producer for the answer. Raises KafkaError(PRODUCER_FENCED)."""
    holder = transaction.holder
    if expected is None or holder.producer_epoch in (NO_EPOCH, expected.producer_epoch):
        if transaction.is_exhausted:
            return ProducerIdAndEpoch(shard.next_producer_id(), 0)
        return ProducerIdAndEpoch(holder.producer_id, next_epoch(holder.producer_epoch))
    if expected == transaction.ended_by or shard.replaced.get(key) == (holder, expected):
        return holder
    raise fenced(key, expected, transaction, version >= FENCED_SINCE)
