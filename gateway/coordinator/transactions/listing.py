"""ListTransactions and DescribeTransactions: the state of transactional ids (KIP-664).

Source: TransactionCoordinator.handleDescribeTransactions, TransactionStateManager.listTransactionStates.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from headgate.gateway.coordinator.decision import Decision, Ticket
from headgate.gateway.coordinator.transactions.transaction import Transaction
from headgate.gateway.coordinator.transactions.transaction_shard import TransactionShard
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_transactions import TopicData, TransactionState


class Filter(NamedTuple):
    """The filters of ListTransactions; an empty collection matches all.

    states        Kafka's names
    producer_ids  of the holders
    duration_ms   longer than this since the begin of the last transaction; negative: any. As in Kafka, an id without a
                  begin matches every duration
    """

    states: Collection[str]
    producer_ids: Collection[int]
    duration_ms: int

    def matches(self, transaction: Transaction, now_ms: int) -> bool:
        return (
            (not self.states or transaction.state.title in self.states)
            and (not self.producer_ids or transaction.producer_id in self.producer_ids)
            and (self.duration_ms < 0 or now_ms - transaction.start_ms > self.duration_ms)
        )


def describe(shard: TransactionShard, key: str, ticket: Ticket) -> Decision:
    """The row of one id: INVALID_REQUEST for an empty one, TRANSACTIONAL_ID_NOT_FOUND for an unknown one."""
    transaction = shard.transactions.get(key)
    if transaction is None:
        code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if key else ErrorCode.INVALID_REQUEST
        return Decision.reply(ticket, TransactionState(code, key))
    row = TransactionState(
        transactional_id=key,
        transaction_state=transaction.state.title,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[TopicData(topic, list(indexes)) for topic, indexes in transaction.partitions.items()],
    )
    return Decision.reply(ticket, row)
