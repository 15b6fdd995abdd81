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


def other_producer(key: str, producer: ProducerIdAndEpoch, transaction: Transaction) -> KafkaError:
    """The error of a producer id that the transactional id does not have."""
    message = f"{key} has producer id {transaction.producer_id}, not {producer.producer_id}"
    return KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, message)


def fenced(key: str, producer: ProducerIdAndEpoch, transaction: Transaction, is_known: bool) -> KafkaError:
    """The error of another epoch: PRODUCER_FENCED, or an older one if the client's version does not know that."""
    code = ErrorCode.PRODUCER_FENCED if is_known else ErrorCode.INVALID_PRODUCER_EPOCH
    message = (
        f"producer {producer.producer_id} of {key} has epoch {producer.producer_epoch}; the present holder is producer"
        f" {transaction.producer_id} with epoch {transaction.producer_epoch}"
    )
    return KafkaError(code, message)
