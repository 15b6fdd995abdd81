"""The removal of transactional ids that were not used for long (`transactional.id.expiration.ms`).

An id in a transaction stays. A producer that comes back gets a new producer id. Source: TransactionStateManager.
"""

from __future__ import annotations

from collections.abc import Iterator

from headgate.gateway.coordinator.decision import Decision, Records
from headgate.gateway.coordinator.transactions.transaction import TransactionState
from headgate.gateway.coordinator.transactions.transaction_shard import TransactionShard
from headgate.protocol.internal.transactions import TransactionLogKey

IDS_A_STEP = 1_000


def expire(shard: TransactionShard, expired_ms: int) -> Iterator[Decision]:
    """Tombstones of the ids that were not used since a timestamp: each step looks at some ids, as they are then."""
    keys = list(shard.transactions)
    for start in range(0, len(keys), IDS_A_STEP):
        records: Records = [
            (TransactionLogKey(key), None)
            for key in keys[start : start + IDS_A_STEP]
            if _is_expired(shard, key, expired_ms)
        ]
        yield Decision(records, is_atomic=False)


def _is_expired(shard: TransactionShard, key: str, expired_ms: int) -> bool:
    transaction = shard.transactions.get(key)
    if transaction is None or transaction.last_update_ms > expired_ms:
        return False
    return transaction.state is TransactionState.EMPTY or transaction.is_complete
