"""EndTxn: commit or abort a transaction. The answer leaves when the Prepare record is below the high watermark.

CONCURRENT means CONCURRENT_TRANSACTIONS: the client retries until the markers are written. "Done" repeats the answer of
the first request; "invalid" is INVALID_TXN_STATE, "fenced" PRODUCER_FENCED.

In the old protocol (EndTxn v0-v4) only the epoch of the holder is accepted:

| state | commit | abort |
|---|---|---|
| Ongoing | Prepare | Prepare |
| Prepare... | CONCURRENT | CONCURRENT |
| CompleteCommit | done | invalid |
| CompleteAbort | invalid | done |
| Empty | invalid | invalid |

In the new one (v5, KIP-890) each end raises the epoch. So a repeated request has the epoch before, and a request in the
present epoch is the next end. A client may abort a transaction that has not begun: it cannot know if a batch reached a
partition. While markers are written no request is fenced: the client has the next epoch already, or the next producer
id.

| state | commit, repeated | commit | abort, repeated | abort |
|---|---|---|---|---|
| Ongoing | fenced | Prepare | fenced | Prepare |
| Prepare... | CONCURRENT | CONCURRENT | CONCURRENT | CONCURRENT |
| CompleteCommit | done | invalid | invalid | Prepare |
| CompleteAbort | invalid | invalid | done | Prepare |
| Empty | fenced | invalid | fenced | Prepare |

A fence counts as an abort in the new protocol: the fenced producer may repeat the abort, and gets its epoch; the next
InitProducerId with this id fences the producer again. So a producer whose transaction was overdue aborts and goes on,
as with Kafka 4.1.

Source: TransactionCoordinator.endTransaction. Unlike in Kafka, an end in the old protocol cannot be repeated in the new
one: a replaced producer would get the epoch of its successor. Where transaction.version is below 2, an abort can be
repeated nevertheless, since its record equals the record of a fence. Clients do not use the new protocol there.
"""

from __future__ import annotations

from headgate.gateway.coordinator.decision import Decision, ProducerIdAndEpoch, Ticket
from headgate.gateway.coordinator.transactions.fencing import being_ended, check_holder, find
from headgate.gateway.coordinator.transactions.transaction import (
    EPOCH_PER_TRANSACTION,
    NO_ID,
    Transaction,
    TransactionState,
)
from headgate.gateway.coordinator.transactions.transaction_shard import TransactionShard
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

FENCED_SINCE = 2
"""The version of EndTxn since which clients know PRODUCER_FENCED."""
NEW_PROTOCOL_SINCE = 5


def end_txn(shard: TransactionShard, key: str, request: EndTxnRequest, version: int, ticket: Ticket) -> Decision:
    """EndTxn v0-v5.

    Raises KafkaError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE,
    COORDINATOR_LOAD_IN_PROGRESS while producer ids are taken.
    """
    transaction = find(shard, key)
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    is_new = version >= NEW_PROTOCOL_SINCE
    is_repeated = is_new and producer in _may_repeat(shard, transaction)
    if not (is_new and transaction.is_prepared) and not is_repeated:
        check_holder(key, producer, transaction, knows_fenced=version >= FENCED_SINCE)
    if transaction.is_prepared:
        raise being_ended(key)
    if transaction.state is TransactionState.ONGOING or (is_new and not request.committed and not is_repeated):
        return _prepare(shard, key, transaction, request.committed, is_new, ticket)
    ends_so = transaction.is_commit == request.committed and transaction.is_complete
    if not ends_so or (is_new and not is_repeated):
        verb = "commit" if request.committed else "abort"
        message = f"the transaction of {key} is in state {transaction.state.title}: it cannot {verb}"
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, message)
    return Decision.reply(ticket, _response(transaction, is_new))


def _may_repeat(shard: TransactionShard, transaction: Transaction) -> tuple[ProducerIdAndEpoch | None, ...]:
    """The producers that may repeat the end of the last transaction in the new protocol."""
    if shard.transaction_version() >= EPOCH_PER_TRANSACTION:
        return (transaction.ended_by,)
    return transaction.ended_by, transaction.maybe_fenced


def _prepare(
    shard: TransactionShard, key: str, transaction: Transaction, is_commit: bool, is_new: bool, ticket: Ticket
) -> Decision:
    """The answer has the producer of the next transaction, which may begin once this one is complete."""
    next_producer_id = shard.next_producer_id() if is_new and transaction.is_exhausted else NO_ID
    version, now_ms = EPOCH_PER_TRANSACTION if is_new else 0, shard.timestamp_ms()
    prepared = transaction.prepared(is_commit, version, next_producer_id, now_ms)
    decision = shard.prepare(key, prepared)
    decision.replies = [(ticket, _response(prepared, is_new))]
    return decision


def _response(transaction: Transaction, is_new: bool) -> EndTxnResponse:
    if not is_new:
        return EndTxnResponse()
    producer_id, producer_epoch = transaction.next_holder
    return EndTxnResponse(producer_id=producer_id, producer_epoch=producer_epoch)
