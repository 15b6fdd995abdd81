"""TxnOffsetCommit over the wire, with both coordinators and their logs behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headgate.gateway.api.transactions.transaction_verification import RETRIES_END_MS
from headgate.gateway.coordinator.internal_topic import partition_of
from headgate.gateway.coordinator.transactions.markers import Marker
from headgate.gateway.coordinator.transactions.transaction_coordinator import TransactionCoordinator
from headgate.gateway.runtime.tasks import Changes, Task, WaitList, is_task
from headgate.gateway.tests.builders import HandlerBroker, over_the_wire
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headgate.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResult
from headgate.protocol.messages.describe_transactions import DescribeTransactionsRequest
from headgate.protocol.messages.end_txn import EndTxnRequest
from headgate.protocol.messages.init_producer_id import InitProducerIdRequest
from headgate.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from headgate.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from headgate.protocol.schema import Message
from headgate.storage.files import File

NONE = ErrorCode.NONE
OFFSETS = "__consumer_offsets"
INDEX = partition_of("g", 4)


class Producer:
    """A transactional producer, whose time goes on until there is an answer."""

    def __init__(self, node: HandlerBroker) -> None:
        self.node = node
        made = self.ask(InitProducerIdRequest("id", 60_000), 4)
        while made.error_code:
            made = self.ask(InitProducerIdRequest("id", 60_000), 4)
        self.id, self.epoch = made.producer_id, made.producer_epoch
        if "t" not in node.services.metadata.image.topics:
            node.services.metadata.create_topic("t", 2)

    def ask(self, request: Message, version: int) -> Any:
        outcome = self.node.handle(over_the_wire(request, version), version)
        if is_task(outcome):
            replies: list[Any] = []
            self.node.services.tasks.start(outcome, replies.append)
            while not replies:
                self.node.time.advance(1)
            (outcome,) = replies
        if isinstance(outcome, KafkaError):
            outcome = request.error_response(version, outcome.code, outcome.message)
        assert isinstance(outcome, Message)
        return over_the_wire(outcome, version)

    def begin(self, group: str = "g") -> None:
        """What a producer of the old protocol does before its first offsets."""
        response = self.ask(AddOffsetsToTxnRequest("id", self.id, self.epoch, group), 3)
        assert response.error_code == NONE

    def request(self, offset: int = 42, **options: Any) -> TxnOffsetCommitRequest:
        topic_id = self.node.services.metadata.image.topics["t"].topic_id
        rows = [TxnOffsetCommitRequestPartition(1, offset, 3, "note")]
        topics = [TxnOffsetCommitRequestTopic("t", topic_id, rows)]
        options = {"producer_id": self.id, "producer_epoch": self.epoch, **options}
        return TxnOffsetCommitRequest("id", "g", topics=topics, **options)

    def commit(self, version: int, offset: int = 42, **options: Any) -> list[int]:
        response = self.ask(self.request(offset, **options), version)
        return [row.error_code for topic in response.topics for row in topic.partitions]

    def end(self, *, is_commit: bool, version: int = 4) -> None:
        response = self.ask(EndTxnRequest("id", self.id, self.epoch, is_commit), version)
        assert response.error_code == NONE
        if version >= 5:
            self.id, self.epoch = response.producer_id, response.producer_epoch

    def finish(self) -> None:
        """Have the markers written."""
        for _ in range(8):
            self.node.time.advance()

    def partitions(self) -> dict[str, list[int]]:
        (row,) = self.ask(DescribeTransactionsRequest(["id"]), 0).transaction_states
        return {topic.topic: list(topic.partitions) for topic in row.topics}

    def stable(self) -> tuple[int, int]:
        """(error code, offset) of a fetch that requires a stable offset."""
        topics = [OffsetFetchRequestTopics("t", partition_indexes=[1])]
        asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=topics)], require_stable=True)
        (partition,) = self.ask(asked, 8).groups[0].topics[0].partitions
        return partition.error_code, partition.committed_offset


@pytest.fixture
def producer(node: HandlerBroker) -> Producer:
    made = Producer(node)
    made.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)]), 8)  # makes the topic
    return made


@pytest.mark.parametrize("is_commit, offset", [(True, 42), (False, -1)])
@pytest.mark.parametrize("version", range(7))
def test_every_version_is_pending_until_the_end(producer: Producer, version: int, is_commit: bool, offset: int) -> None:
    if version < 5:
        producer.begin()
    assert producer.commit(version) == [NONE]
    assert producer.partitions() == {OFFSETS: [INDEX]}
    assert producer.stable() == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    producer.end(is_commit=is_commit, version=5 if version >= 5 else 4)
    producer.finish()
    assert producer.stable() == (NONE, offset)


@pytest.mark.parametrize("version", [3, 5])
def test_one_transaction_after_the_other(producer: Producer, version: int) -> None:
    for offset in range(5):
        if version < 5:
            producer.begin()
        assert producer.commit(version, offset) == [NONE]
        assert producer.commit(version, offset + 10) == [NONE]
        producer.end(is_commit=True, version=5 if version >= 5 else 4)
        producer.finish()
        assert producer.stable() == (NONE, offset + 10)


def test_the_new_protocol_need_not_wait_for_the_last_marker(producer: Producer) -> None:
    producer.commit(5, 1)
    producer.end(is_commit=True, version=5)
    assert producer.commit(5, 2) == [NONE], "it was asked again, until the first transaction had ended"
    assert producer.stable() == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    producer.end(is_commit=False, version=5)
    producer.finish()
    assert producer.stable() == (NONE, 1)


def test_a_log_has_an_open_transaction(producer: Producer) -> None:
    producer.commit(5)
    log = producer.node.services.partitions.get(OFFSETS, INDEX).log
    written = log.producers.by_id[producer.id]
    assert (written.epoch, written.last_sequence, written.transaction_start) == (producer.epoch, -1, 0)
    assert log.stable_offset == 0


@pytest.mark.parametrize("version", [3, 5])
def test_an_aborted_transaction_leaves_the_group_where_it_was(producer: Producer, version: int) -> None:
    for offset, is_commit in ((10, True), (20, False)):
        producer.begin()
        producer.commit(version, offset)
        if not is_commit:
            producer.node.restart()
            producer.finish()
            assert producer.stable() == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
        producer.end(is_commit=is_commit)
        producer.finish()
    assert producer.stable() == (NONE, 10)


def test_an_overdue_transaction_is_dropped(producer: Producer) -> None:
    producer.commit(5)
    for _ in range(80):
        producer.node.time.advance(1_000)
    assert producer.stable() == (NONE, -1)
    assert producer.commit(5) == [ErrorCode.INVALID_PRODUCER_EPOCH]


# Verification


@pytest.mark.parametrize(
    "version, code",
    [(0, ErrorCode.INVALID_TXN_STATE), (3, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_the_old_protocol_has_to_add_the_group_before(producer: Producer, version: int, code: ErrorCode) -> None:
    assert producer.commit(version) == [code]
    producer.begin("another group")
    assert producer.commit(version) == [code]
    assert producer.stable() == (NONE, -1)
    producer.begin()
    assert producer.commit(version) == [NONE]


def test_without_verification_anything_is_taken(tmp_path: Any) -> None:
    producer = Producer(HandlerBroker(tmp_path, transaction_partition_verification_enable="false"))
    assert producer.commit(3) == [NONE]
    assert producer.stable() == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    producer.node.close()


@pytest.mark.parametrize("version", [3, 5])
def test_a_fenced_producer_commits_nothing(producer: Producer, version: int) -> None:
    old = producer.epoch
    successor = Producer(producer.node)
    assert successor.epoch > old
    assert producer.commit(version, producer_epoch=old) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert producer.commit(version, producer_id=99) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert producer.stable() == (NONE, -1)


def test_unknown_partitions_are_told_beside_the_error_of_the_transaction(producer: Producer) -> None:
    request = producer.request()
    request.topics.append(TxnOffsetCommitRequestTopic("gone", partitions=[TxnOffsetCommitRequestPartition(0, 1)]))
    topics = producer.ask(request, 3).topics
    assert [(topic.name, row.error_code) for topic in topics for row in topic.partitions] == [
        ("gone", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", ErrorCode.INVALID_TXN_STATE),
    ]


def answers(monkeypatch: pytest.MonkeyPatch, verify: Callable[..., Any]) -> None:
    monkeypatch.setattr(TransactionCoordinator, "confirm", lambda *_, **__: False)
    monkeypatch.setattr(TransactionCoordinator, "verify", lambda *_, **__: verify())


def result(code: ErrorCode) -> AddPartitionsToTxnResult:
    from headgate.protocol.messages.add_partitions_to_txn import (
        AddPartitionsToTxnPartitionResult,
        AddPartitionsToTxnTopicResult,
    )

    rows = [AddPartitionsToTxnPartitionResult(INDEX, code)]
    return AddPartitionsToTxnResult("id", [AddPartitionsToTxnTopicResult(OFFSETS, rows)])


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
    ],
)
@pytest.mark.parametrize("version, code", [(1, 15), (2, 14), (5, 14)])
def test_a_transaction_coordinator_out_of_reach_is_asked_again(
    producer: Producer, monkeypatch: pytest.MonkeyPatch, version: int, code: int, error: ErrorCode
) -> None:
    def fails() -> None:
        raise KafkaError(error)

    answers(monkeypatch, fails)
    assert producer.commit(version) == [code]


def test_a_transaction_that_never_ends_is_told_in_time(producer: Producer, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, lambda: result(ErrorCode.CONCURRENT_TRANSACTIONS))
    began_ms = producer.node.time.clock.monotonic_ms()
    assert producer.commit(5) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    assert 50 < producer.node.time.clock.monotonic_ms() - began_ms <= RETRIES_END_MS
    assert producer.commit(3) == [ErrorCode.CONCURRENT_TRANSACTIONS]


def _confirmed(wait_list: WaitList) -> Task[Any]:
    yield Changes([wait_list])
    return result(NONE)


@pytest.mark.parametrize("version, code", [(3, ErrorCode.INVALID_TXN_STATE), (5, ErrorCode.TRANSACTION_ABORTABLE)])
def test_offsets_behind_their_marker_open_nothing(
    producer: Producer, monkeypatch: pytest.MonkeyPatch, version: int, code: ErrorCode
) -> None:
    """The race of KIP-890: the coordinator confirms, and the transaction ends before the offsets are decided."""
    heard, wait_list = list[Any](), WaitList()
    answers(monkeypatch, lambda: _confirmed(wait_list))
    outcome = producer.node.handle(over_the_wire(producer.request(), version), version)
    assert is_task(outcome)
    producer.node.services.tasks.start(outcome, heard.append)
    markers, told = producer.node.services.markers, list[Any]()
    markers.append(Marker(producer.id, producer.epoch, False, 0, 0), OFFSETS, INDEX, told.append)
    markers.write_staged()
    assert (told, heard) == ([None], [])
    producer.node.services.tasks.touch(wait_list)
    producer.finish()
    (response,) = heard
    assert [row.error_code for topic in response.topics for row in topic.partitions] == [code]
    log = producer.node.services.partitions.get(OFFSETS, INDEX).log
    assert log.stable_offset == log.end_offset == 1


def test_whoever_waited_has_offsets_written_before_the_answer(
    producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_list = WaitList()
    answers(monkeypatch, lambda: _confirmed(wait_list))
    outcome = producer.node.handle(over_the_wire(producer.request(), 5), 5)
    assert is_task(outcome)
    replica = producer.node.services.partitions.get(OFFSETS, INDEX)

    def answered(_: object) -> None:
        assert replica.log.written_end == 1

    producer.node.services.tasks.start(outcome, answered)
    producer.node.services.tasks.touch(wait_list)
    producer.finish()
    assert replica.log.end_offset == 1


# Failures


@pytest.mark.parametrize("version, code", [(1, 15), (2, 14)])
def test_old_producers_do_not_know_that_a_load_takes_time(producer: Producer, version: int, code: int) -> None:
    """KAFKA-7296: producers of before 2.3 fail when they hear COORDINATOR_LOAD_IN_PROGRESS."""
    producer.begin()
    producer.commit(3)
    services = producer.node.services
    services.groups.log_was_truncated(services.partitions.get(OFFSETS, INDEX))
    assert producer.commit(version) == [code]


def test_offsets_of_a_turn_are_written_together_and_may_fail(
    producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer.commit(5)

    def fails(*_: object) -> None:
        raise OSError(28, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(File, "write_at", fails)
        assert producer.commit(5, 50) == [ErrorCode.NOT_COORDINATOR]
    producer.finish()
    producer.end(is_commit=True, version=5)
    producer.finish()
    assert producer.stable() == (NONE, 42)


def test_a_deleted_offsets_topic_holds_up_no_transaction(producer: Producer) -> None:
    producer.commit(5)
    producer.node.services.metadata.delete_topic(OFFSETS)
    producer.end(is_commit=True, version=5)
    producer.finish()
    assert producer.commit(5, 7) in ([NONE], [ErrorCode.COORDINATOR_NOT_AVAILABLE])
    assert producer.commit(5, 7) == [NONE]
