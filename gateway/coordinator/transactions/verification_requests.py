"""Questions to transaction coordinators on other brokers: may a transaction write to these partitions (KIP-890)?

AddPartitionsToTxn from version 4 on has many transactions: the questions of a leader, and the answers of a coordinator.
While a coordinator cannot answer, the error is NETWORK_EXCEPTION, COORDINATOR_NOT_AVAILABLE or such a one: the producer
sends its batch again, and the question comes again.

Source: `AddPartitionsToTxnManager` of Apache Kafka 4.1.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from headgate.gateway.coordinator.decision import ProducerIdAndEpoch
from headgate.gateway.coordinator.transactions.effects import PartitionsByTopic
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from headgate.protocol.schema import Message

_UNKNOWN_TOPICS = frozenset((ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED))
"""The leader has the partition, so the coordinator's broker has not got its order about a new topic yet."""


class TransactionQuestion(NamedTuple):
    """One transaction. `adds`: the coordinator adds the partitions; otherwise it only verifies them.

    `resume` gets the result, or the KafkaError of the whole question.
    """

    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: PartitionsByTopic
    adds: bool
    resume: Callable[[AddPartitionsToTxnResult | KafkaError], None]


class VerificationRequests:
    """The `Gathering` of questions."""

    version: ClassVar[int | None] = None

    def take(self, queue: deque[TransactionQuestion]) -> tuple[Message, Sequence[TransactionQuestion]] | None:
        """Take one question of each transactional id, as a coordinator answers an id once for each request."""
        taken: dict[str, TransactionQuestion] = {}
        left = [question for question in queue if taken.setdefault(question.transactional_id, question) is not question]
        queue.clear()
        queue.extend(left)
        if not taken:
            return None
        return AddPartitionsToTxnRequest([_request_row(question) for question in taken.values()]), list(taken.values())

    def end(self, taken: Sequence[TransactionQuestion], answer: Message | KafkaError) -> None:
        """Give each question its result."""
        if not isinstance(answer, KafkaError):
            assert isinstance(answer, AddPartitionsToTxnResponse)
            if answer.error_code == ErrorCode.NONE:
                results = {result.transactional_id: result for result in answer.results_by_transaction}
                for question in taken:
                    question.resume(_result_of(question, results.get(question.transactional_id)))
                return
            answer = _refusal(answer.error_code)
        for question in taken:
            question.resume(answer.copy())


def _request_row(question: TransactionQuestion) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        question.transactional_id,
        *question.producer,
        not question.adds,
        [AddPartitionsToTxnTopic(name, list(indexes)) for name, indexes in question.partitions.items()],
    )


def _refusal(code: int) -> KafkaError:
    """The error of a whole request. A broker that may not ask will not be allowed to by the next attempt either."""
    if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return KafkaError(ErrorCode.INVALID_TXN_STATE, "the coordinator's broker lets this broker verify nothing")
    return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the coordinator's broker answers with error {code}")


def _result_of(
    question: TransactionQuestion, result: AddPartitionsToTxnResult | None
) -> AddPartitionsToTxnResult | KafkaError:
    rows = (
        {}
        if result is None
        else {
            (topic.name, row.partition_index): row.partition_error_code
            for topic in result.topic_results
            for row in topic.results_by_partition
        }
    )
    asked = {(name, index) for name, indexes in question.partitions.items() for index in indexes}
    if result is None or not rows.keys() >= asked:
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator's answer lacks a partition")
    if not _UNKNOWN_TOPICS.isdisjoint(rows.values()):
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator does not know a topic yet")
    return result
