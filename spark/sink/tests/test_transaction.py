"""Requests of a transaction and what their answers mean, with a broker that answers by script."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from headgate.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from headgate.protocol.messages.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from headgate.protocol.messages.end_txn import EndTxnResponse
from headgate.protocol.messages.init_producer_id import InitProducerIdResponse
from headgate.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from headgate.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from headgate.protocol.records import batch
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.sink import transaction
from headgate.spark.sink.connection import SinkFailed
from headgate.spark.sink.marker import SinkRefused
from headgate.spark.sink.transaction import Fenced, TransactionalProducer, TransactionWriter

PRODUCER = TransactionalProducer("id", 7, 3)
A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Broker:
    """Connection and client in one: each request takes the next answer of its kind, and is noted."""

    def __init__(self, answers: Mapping[str, list[Any]], versions: Mapping[str, int] | None = None) -> None:
        self.answers = {kind: list(each) for kind, each in answers.items()}
        self.requests: list[Any] = []
        self.versions: list[int] = []
        self.serves_all = True

    def version(self, cls: type, newest: int, oldest: int = 0) -> int:
        return newest

    def serves(self, cls: type) -> bool:
        return self.serves_all

    def ask(self, request: Any, version: int | None = None) -> Any:
        self.requests.append(request)
        return self.answers[type(request).__name__.removesuffix("Request")].pop(0)

    def ask_any(self, ask: Callable[[Any], Any]) -> Any:
        return ask(self)

    def ask_coordinator(self, key: str, key_type: int, ask: Callable[[Any], Any]) -> Any:
        found = ask(self)
        if isinstance(found, Failure):
            raise SinkFailed(found.text, found.code)
        return found

    def ask_leaders(self, keys: Any, ask: Any) -> dict[Any, Any]:
        """As `Connection` does it, with NETWORK_EXCEPTION for the only error that passes."""
        found: dict[Any, Any] = {}
        missing = list(keys)
        while missing:
            for key, answer in ask(self, missing):
                if not isinstance(answer, Failure):
                    found[key] = answer
                elif answer.code != ErrorCode.NETWORK_EXCEPTION:
                    raise SinkFailed(f"{key}: {answer.text}", answer.code)
            missing = [key for key in missing if key not in found]
        return found


def added(*codes: int) -> AddPartitionsToTxnResponse:
    rows = [AddPartitionsToTxnPartitionResult(number, code) for number, code in enumerate(codes)]
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[AddPartitionsToTxnTopicResult("t", rows)])


def produced(codes: Mapping[int, int], **more: Any) -> ProduceResponse:
    rows = [PartitionProduceResponse(index=number, error_code=code, **more) for number, code in codes.items()]
    return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=rows)])


def made(count: int = 1) -> tuple[int, bytearray]:
    return count, batch.build([batch.Record(value=b"x")] * count, is_transactional=True)


def begin(answer: InitProducerIdResponse) -> TransactionalProducer:
    return transaction.begin(Broker({"InitProducerId": [answer]}), "id", 1000)  # type: ignore[arg-type]


def test_a_transaction_begins_with_a_new_epoch() -> None:
    assert begin(InitProducerIdResponse(producer_id=7, producer_epoch=3)) == PRODUCER
    with pytest.raises(SinkRefused, match=r"timeout.ms=1000 is more than the brokers allow"):
        begin(InitProducerIdResponse(error_code=ErrorCode.INVALID_TRANSACTION_TIMEOUT))
    with pytest.raises(SinkFailed, match="AUTHORIZATION"):
        begin(InitProducerIdResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))


def test_the_failure_that_explains_the_others_is_told() -> None:
    broker: Any = Broker({"AddPartitionsToTxn": [added(55, ErrorCode.TOPIC_AUTHORIZATION_FAILED), added(90, 0)]})
    with pytest.raises(SinkFailed, match="TOPIC_AUTHORIZATION_FAILED"):
        transaction.add_partitions(broker, PRODUCER, [A, B])
    with pytest.raises(Fenced, match="PRODUCER_FENCED"):
        transaction.add_partitions(broker, PRODUCER, [A, B])


def test_positions_are_committed_within_the_transaction() -> None:
    def answer(code: int) -> TxnOffsetCommitResponse:
        return TxnOffsetCommitResponse(
            topics=[TxnOffsetCommitResponseTopic(name="t", partitions=[TxnOffsetCommitResponsePartition(0, code)])]
        )

    broker: Any = Broker(
        {"AddOffsetsToTxn": [AddOffsetsToTxnResponse()] * 2, "TxnOffsetCommit": [answer(0), answer(47)]}
    )
    transaction.commit_positions(broker, PRODUCER, "g", {A: 5, B: 6}, "text")
    group, commit = broker.requests
    assert (group.group_id, group.producer_epoch, commit.group_id, commit.producer_epoch) == ("g", 3, "g", 3)
    [topic] = commit.topics
    assert [(row.partition_index, row.committed_offset, row.committed_metadata) for row in topic.partitions] == [
        (0, 5, "text"),
        (1, 6, "text"),
    ]
    with pytest.raises(Fenced):
        transaction.commit_positions(broker, PRODUCER, "g", {A: 5}, "")


def test_a_commit_that_comes_too_late_is_fenced() -> None:
    broker: Any = Broker({"EndTxn": [EndTxnResponse(), EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE)]})
    transaction.end(broker, PRODUCER, is_commit=True)
    assert broker.requests[0].committed
    with pytest.raises(Fenced):
        transaction.end(broker, PRODUCER, is_commit=True)


def test_partitions_are_added_once_and_sequences_go_on() -> None:
    broker: Any = Broker(
        {"AddPartitionsToTxn": [added(0), added(0)], "Produce": [produced({0: 0}), produced({0: 0, 1: 0})]}
    )
    writer = TransactionWriter(broker, PRODUCER)
    writer.write({A: made(3)})
    writer.write({A: made(2), B: made(4)})
    assert writer.records == {A: 5, B: 4}
    names = [type(one).__name__ for one in broker.requests]
    assert names == ["AddPartitionsToTxnRequest", "ProduceRequest", "AddPartitionsToTxnRequest", "ProduceRequest"]
    [topic] = broker.requests[3].topic_data
    headers = [batch.read_header(row.records) for row in topic.partition_data]
    assert [(one.producer_id, one.producer_epoch, one.base_sequence) for one in headers] == [(7, 3, 3), (7, 3, 0)]
    assert broker.requests[3].acks == -1


def test_a_repeated_batch_that_was_there_counts_as_written() -> None:
    duplicate = ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    answers = [produced({0: ErrorCode.NETWORK_EXCEPTION}), produced({0: duplicate}), produced({0: duplicate})]
    broker: Any = Broker({"AddPartitionsToTxn": [added(0)], "Produce": answers})
    writer = TransactionWriter(broker, PRODUCER)
    writer.write({A: made()})
    assert writer.records == {A: 1}
    with pytest.raises(SinkFailed, match="DUPLICATE_SEQUENCE_NUMBER"):
        writer.write({A: made()})


def test_a_record_that_the_broker_refuses_is_told_with_its_reason() -> None:
    reasons = [BatchIndexAndErrorMessage(0, "the timestamp is out of range")]
    answer = produced({0: ErrorCode.INVALID_TIMESTAMP}, record_errors=reasons)
    broker: Any = Broker({"AddPartitionsToTxn": [added(0)], "Produce": [answer]})
    with pytest.raises(SinkRefused, match=r"t-0: the timestamp is out of range"):
        TransactionWriter(broker, PRODUCER).write({A: made()})


def test_another_epoch_means_fenced() -> None:
    broker: Any = Broker({"AddPartitionsToTxn": [added(0)], "Produce": [produced({0: 47})]})
    with pytest.raises(Fenced):
        TransactionWriter(broker, PRODUCER).write({A: made()})


@pytest.mark.parametrize(
    "producer_id, epoch, last, reported, is_right",
    [(7, 3, 9, 10, True), (7, 3, 9, 20, False), (7, 3, 9, 9, False), (7, 2, 9, 10, False), (8, 3, 9, 10, False)],
)
def test_leaders_confirm_the_numbers_of_records(
    producer_id: int, epoch: int, last: int, reported: int, is_right: bool
) -> None:
    state = ProducerState(producer_id=producer_id, producer_epoch=epoch, last_sequence=last)
    rows = [PartitionResponse(partition_index=0, active_producers=[state])]
    broker: Any = Broker({"DescribeProducers": [DescribeProducersResponse(topics=[TopicResponse("t", rows)])]})
    if is_right:
        transaction.check_written(broker, PRODUCER, {A: reported})
        return
    with pytest.raises(SinkFailed, match=f"t-0: the tasks wrote {reported} records"):
        transaction.check_written(broker, PRODUCER, {A: reported})


def test_old_brokers_are_not_asked_for_producers() -> None:
    broker: Any = Broker({})
    broker.serves_all = False
    transaction.check_written(broker, PRODUCER, {A: 3})
    transaction.check_written(broker, PRODUCER, {})
