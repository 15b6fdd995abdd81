"""The errors of a producer that is not, or no longer, the holder of its transactional id."""

from __future__ import annotations

from headgate.gateway.coordinator.decision import ProducerIdAndEpoch
from headgate.gateway.coordinator.transactions.transaction import Transaction
from headgate.gateway.coordinator.transactions.transaction_shard import TransactionShard
from headgate.protocol.errors import ErrorCode, KafkaError


def find(shard: TransactionShard, key: str) -> Transaction:
    """The transaction of an id. Raises KafkaError(INVALID_PRODUCER_ID_MAPPING) for an unknown id."""
    transaction = shard.transactions.get(key)
    if transaction is None:
        message = f"transactional id {key} is unknown: it never had a producer, or has expired"
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, message)
    return transaction


def check_holder(
    key: str, producer: ProducerIdAndEpoch, transaction: Transaction, *, knows_fenced: bool = True
) -> None:
    """Raises KafkaError for all but the holder: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED."""
    if producer.producer_id != transaction.producer_id:
        message = f"{key} has producer id {transaction.producer_id}, not {producer.producer_id}"
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, message)
    if producer.producer_epoch != transaction.producer_epoch:
        raise fenced(key, producer, transaction, knows_fenced)


def being_ended(key: str) -> KafkaError:
    """The error while markers are written; clients retry after it."""
    return KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, f"the last transaction of {key} is being ended")


def fenced(key: str, producer: ProducerIdAndEpoch, transaction: Transaction, is_known: bool) -> KafkaError:
    """The error of another epoch: PRODUCER_FENCED, or an older one if the client's version does not know that."""
    code = ErrorCode.PRODUCER_FENCED if is_known else ErrorCode.INVALID_PRODUCER_EPOCH
    message = (
        f"producer {producer.producer_id} of {key} has epoch {producer.producer_epoch}; the present holder is producer"
        f" {transaction.producer_id} with epoch {transaction.producer_epoch}"
    )
    return KafkaError(code, message)
