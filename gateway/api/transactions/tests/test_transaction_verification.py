"""Produce with transactional batches: the coordinator's word before the first one in a partition (KIP-890).

The coordinator is scripted here: its answers, and when they come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from headgate.gateway.api.context import CloseConnection
from headgate.gateway.api.delayed_produce import MIN_WAIT_MS
from headgate.gateway.api.transactions.transaction_verification import RETRIES_END_MS
from headgate.gateway.coordinator.decision import ProducerIdAndEpoch
from headgate.gateway.replication.append import ACKS_ALL
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.tasks import Changes, Running, Silent, Task, WaitList, is_task
from headgate.gateway.runtime.tests.fake_scheduler import HeldThreads
from headgate.gateway.tests.builders import HandlerBroker, start
from headgate.gateway.tests.requests import produce_request
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.protocol.records import control
from headgate.protocol.records.batch import Record, build
from headgate.protocol.records.control import Marker
from headgate.storage.log.validation import BROKER

NOW_MS = 1_700_000_000_000
OLD, ABORTABLE, NEW = 9, 11, 12
"""Versions: of the old protocol, with TRANSACTION_ABORTABLE, of the new protocol."""
Partitions = Mapping[str, Sequence[int]]
Answer = ErrorCode | KafkaError | Mapping[tuple[str, int], ErrorCode]


class ScriptedCoordinator:
    """Answers with what `answers` has, at once; without answers NONE. While `is_held`, `answer` gives the answers."""

    def __init__(self) -> None:
        self.asked: list[tuple[Partitions, bool]] = []
        self.answers: deque[Answer] = deque()
        self.is_held = False
        self.held: list[tuple[WaitList, Partitions, list[Any]]] = []
        self.confirms = False
        self.confirmed: list[tuple[ProducerIdAndEpoch, Partitions, bool]] = []

    def confirm(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Partitions, *, adds: bool
    ) -> bool:
        assert transactional_id == "id"
        if self.confirms:
            self.confirmed.append((producer, partitions, adds))
        return self.confirms

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Partitions, *, adds: bool
    ) -> AddPartitionsToTxnResult | Task[AddPartitionsToTxnResult]:
        assert transactional_id == "id"
        self.asked.append((partitions, adds))
        if not self.is_held:
            return _result(self.answers.popleft() if self.answers else ErrorCode.NONE, partitions)
        touched, answer = WaitList(), list[Any]()
        self.held.append((touched, partitions, answer))

        def wait() -> Task[AddPartitionsToTxnResult]:
            yield Changes([touched])
            return _result(answer[0] if answer else KafkaError(ErrorCode.NOT_COORDINATOR), partitions)

        return wait()

    def answer(self, node: HandlerBroker, answer: Answer = ErrorCode.NONE) -> None:
        """Answer the oldest question that is held."""
        touched, _, answers = self.held.pop(0)
        answers.append(answer)
        node.services.tasks.touch(touched)
        node.time.advance()


def _result(answer: Answer, partitions: Partitions) -> AddPartitionsToTxnResult:
    if isinstance(answer, KafkaError):
        raise answer
    codes = {} if isinstance(answer, ErrorCode) else answer
    default = answer if isinstance(answer, ErrorCode) else ErrorCode.NONE
    topics = [
        AddPartitionsToTxnTopicResult(
            topic,
            [AddPartitionsToTxnPartitionResult(index, codes.get((topic, index), default)) for index in indexes],
        )
        for topic, indexes in partitions.items()
    ]
    return AddPartitionsToTxnResult("id", topics)


class Bench:
    """A broker with the topic "t", a scripted coordinator, and the replies of parked requests."""

    def __init__(self, node: HandlerBroker) -> None:
        self.node = node
        self.coordinator = ScriptedCoordinator()
        node.services.transactions = self.coordinator  # type: ignore[assignment]
        node.services.metadata.create_topic("t", 3)
        self.replies: list[Any] = []

    def partition(self, index: int = 0) -> Replica:
        return self.node.services.partitions.get("t", index)

    def send(self, version: int, *rows: tuple[int, bytearray], acks: int = ACKS_ALL, name: str | None = "id") -> Any:
        """The rows of the response, or the running task; its reply comes into `replies`. The frame is gone by then."""
        frames = [memoryview(bytearray(data)) for _, data in rows]
        data = [PartitionProduceData(index, frame) for (index, _), frame in zip(rows, frames, strict=True)]
        request = ProduceRequest(name, acks, 1_500, [TopicProduceData("t", partition_data=data)])
        outcome = self.node.handle(request, version)
        for frame in frames:
            frame[:] = b"\xdd" * len(frame)
        if is_task(outcome) or isinstance(outcome, Silent):
            return start(self.node, outcome, self.replies.append)
        return None if outcome is None else codes(outcome)

    def end(self, is_commit: bool, epoch: int = 0, index: int = 0) -> None:
        """The marker of the coordinator."""
        made = control.build(Marker(is_commit, 3), producer_id=7, producer_epoch=epoch, timestamp=NOW_MS)
        self.partition(index).append(memoryview(made), ACKS_ALL, NOW_MS, BROKER)


def batch(sequence: int = 0, *, producer_id: int = 7, epoch: int = 0, is_transactional: bool = True) -> bytearray:
    return build(
        [Record(timestamp=NOW_MS, key=b"k", value=b"v")],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=is_transactional,
    )


def codes(response: Any) -> list[tuple[int, int]]:
    return [(row.error_code, row.base_offset) for topic in response.responses for row in topic.partition_responses]


@pytest.fixture
def bench(node: HandlerBroker) -> Bench:
    return Bench(node)


def test_the_coordinator_is_asked_once_for_each_transaction(bench: Bench) -> None:
    assert bench.send(OLD, (0, batch(0))) == [(0, 0)]
    assert bench.send(OLD, (0, batch(1))) == [(0, 1)]
    assert bench.coordinator.asked == [({"t": [0]}, False)]
    bench.end(is_commit=True)
    assert bench.send(OLD, (0, batch(2))) == [(0, 3)]
    assert bench.coordinator.asked == [({"t": [0]}, False)] * 2
    assert bench.partition().last_stable_offset == 3


@pytest.mark.parametrize("version", range(3, 13))
def test_from_version_12_on_the_partition_is_added(bench: Bench, version: int) -> None:
    assert bench.send(version, (0, batch(0))) == [(0, 0)]
    assert bench.coordinator.asked == [({"t": [0]}, version >= 12)]


@pytest.mark.parametrize("version", [OLD, 12])
def test_a_word_at_once_verifies_every_batch_of_the_request(bench: Bench, version: int) -> None:
    bench.coordinator.confirms = True
    assert bench.send(version, (0, batch(0)), (2, batch(0))) == [(0, 0), (0, 0)]
    assert bench.send(version, (0, batch(1)), (1, batch(0))) == [(0, 1), (0, 0)]
    assert bench.send(version, (0, batch(2))) == [(0, 2)]
    adds = version >= 12
    assert bench.coordinator.confirmed == [((7, 0), {"t": [0, 2]}, adds), ((7, 0), {"t": [1]}, adds)]
    assert bench.coordinator.asked == []


def test_what_is_not_confirmed_at_once_is_asked(bench: Bench) -> None:
    """A batch of another producer, one without a transaction, and a partition that does not exist."""
    bench.coordinator.confirms = True
    mixed = [(0, batch(0)), (1, batch(0, producer_id=8))]
    assert [code for code, _ in bench.send(OLD, *mixed)] == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    assert bench.send(OLD, (0, batch(0)), (1, batch(0, is_transactional=False))) == [(0, 0), (0, 0)]
    assert bench.coordinator.asked == [({"t": [0]}, False)]
    bench.end(is_commit=True)
    assert [code for code, _ in bench.send(OLD, (0, batch(1)), (9, batch(0)))] == [0, 3]
    assert bench.coordinator.confirmed == []


def test_a_marker_makes_the_word_void(bench: Bench) -> None:
    bench.coordinator.confirms = True
    assert bench.send(OLD, (0, batch(0))) == [(0, 0)]
    bench.end(is_commit=True)
    bench.coordinator.confirms = False
    bench.coordinator.answers.append(ErrorCode.TRANSACTION_ABORTABLE)
    assert bench.send(OLD, (0, batch(1))) == [(ErrorCode.INVALID_TXN_STATE, -1)]


def test_one_question_covers_all_partitions_of_a_request(bench: Bench) -> None:
    bench.send(OLD, (1, batch(0)))
    refused = {("t", 2): ErrorCode.TRANSACTION_ABORTABLE}
    bench.coordinator.answers.append(refused)
    rows = (2, batch(0)), (0, batch(0)), (1, batch(1))
    assert bench.send(OLD, *rows) == [(ErrorCode.INVALID_TXN_STATE, -1), (0, 0), (0, 1)]
    assert bench.coordinator.asked[1:] == [({"t": [0, 2]}, False)]


def test_a_batch_without_the_bit_asks_nobody(bench: Bench) -> None:
    plain = build([Record(timestamp=NOW_MS, value=b"v")])
    numbered = batch(0, producer_id=8, is_transactional=False)
    bench.coordinator.is_held = True
    assert bench.send(NEW, (0, plain), (1, numbered), name=None) == [(0, 0), (0, 0)]
    assert bench.coordinator.asked == []


REFUSALS = [
    (ErrorCode.TRANSACTION_ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE),
    (ErrorCode.TRANSACTION_ABORTABLE, 11, ErrorCode.TRANSACTION_ABORTABLE),
    (ErrorCode.TRANSACTION_ABORTABLE, 12, ErrorCode.TRANSACTION_ABORTABLE),
    (ErrorCode.INVALID_TXN_STATE, 12, ErrorCode.INVALID_TXN_STATE),
    (ErrorCode.PRODUCER_FENCED, 12, ErrorCode.INVALID_PRODUCER_EPOCH),
    (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 9, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    (ErrorCode.CONCURRENT_TRANSACTIONS, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
    (KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), 9, ErrorCode.NOT_ENOUGH_REPLICAS),
    (KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE), 12, ErrorCode.NOT_ENOUGH_REPLICAS),
    (KafkaError(ErrorCode.NOT_COORDINATOR), 12, ErrorCode.NOT_ENOUGH_REPLICAS),
    (KafkaError(ErrorCode.INVALID_REQUEST), 12, ErrorCode.INVALID_REQUEST),
]


@pytest.mark.parametrize("answer, version, code", REFUSALS)
def test_what_the_client_hears(bench: Bench, answer: Answer, version: int, code: ErrorCode) -> None:
    bench.coordinator.answers.append(answer)
    assert bench.send(version, (0, batch(0))) == [(code, -1)]
    assert (bench.partition().log.end_offset, bench.partition().log.has_transactions) == (0, False)
    assert bench.send(version, (0, batch(0))) == [(0, 0)], "the client comes again"


def test_a_parked_batch_owns_its_bytes_and_holds_up_nobody(bench: Bench) -> None:
    bench.coordinator.is_held = True
    assert isinstance(bench.send(OLD, (0, batch(0)), (1, batch(3, is_transactional=False))), Running)
    other = batch(0, producer_id=8, is_transactional=False)
    assert bench.send(OLD, (0, other), name=None) == [(0, 0)]
    assert bench.partition(1).log.end_offset == 1, "the other batch of the request is appended"
    bench.coordinator.answer(bench.node)
    assert codes(bench.replies[0]) == [(0, 1), (0, 0)]
    assert bench.partition().last_stable_offset == 1


@pytest.mark.parametrize("acks", [ACKS_ALL, 1])
def test_a_parked_request_is_refused_by_the_answer(bench: Bench, acks: int) -> None:
    bench.coordinator.is_held = True
    bench.send(NEW, (0, batch(0)), acks=acks)
    bench.coordinator.answer(bench.node, KafkaError(ErrorCode.NOT_COORDINATOR))
    assert codes(bench.replies[0]) == [(ErrorCode.NOT_ENOUGH_REPLICAS, -1)]


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_batch_behind_its_marker_opens_nothing(bench: Bench, is_commit: bool) -> None:
    """The race of KIP-890: the coordinator confirms, ends the transaction, and the marker comes before the batch."""
    bench.coordinator.is_held = True
    bench.send(OLD, (0, batch(0)))
    bench.end(is_commit)
    bench.coordinator.answer(bench.node)
    assert codes(bench.replies[0]) == [(ErrorCode.INVALID_TXN_STATE, -1)]
    assert bench.partition().last_stable_offset == bench.partition().log.end_offset == 1
    bench.coordinator.is_held = False
    bench.coordinator.answers.append(ErrorCode.TRANSACTION_ABORTABLE)
    assert bench.send(OLD, (0, batch(0))) == [(ErrorCode.INVALID_TXN_STATE, -1)], "nor does the same batch later"
    assert bench.send(OLD, (0, batch(0))) == [(0, 1)], "the next transaction is another question"


def test_in_the_new_protocol_such_a_batch_has_an_old_epoch(bench: Bench) -> None:
    bench.coordinator.is_held = True
    bench.send(NEW, (0, batch(0)))
    bench.end(is_commit=False, epoch=1)
    bench.coordinator.answer(bench.node)
    assert codes(bench.replies[0]) == [(ErrorCode.INVALID_PRODUCER_EPOCH, -1)]
    assert bench.send(NEW, (0, batch(0))) == [(ErrorCode.INVALID_PRODUCER_EPOCH, -1)]
    assert len(bench.coordinator.asked) == 1, "the log knows better by now"
    assert bench.partition().last_stable_offset == 1


@pytest.mark.parametrize("answers", [[], [ErrorCode.CONCURRENT_TRANSACTIONS]])
def test_in_the_new_protocol_the_marker_of_the_last_transaction_may_come_late(
    bench: Bench, answers: list[ErrorCode]
) -> None:
    """It has the epoch of the batch, as the epoch was raised for it."""
    bench.send(NEW, (0, batch(0)))
    bench.coordinator.is_held = True
    bench.send(NEW, (0, batch(0, epoch=1)))
    bench.end(is_commit=True, epoch=1)
    bench.coordinator.is_held = False
    bench.coordinator.answers += answers
    bench.coordinator.answer(bench.node)
    for _ in range(10):
        bench.node.time.advance(1)
    assert codes(bench.replies[0]) == [(0, 2)]
    assert bench.partition().last_stable_offset == 2


def test_a_marker_before_a_slow_answer_has_the_client_come_again(bench: Bench) -> None:
    bench.send(NEW, (0, batch(0)))
    bench.coordinator.is_held = True
    bench.send(NEW, (0, batch(0, epoch=1)))
    bench.end(is_commit=True, epoch=1)
    bench.node.time.advance(RETRIES_END_MS)
    bench.coordinator.answer(bench.node)
    assert codes(bench.replies[0]) == [(ErrorCode.CONCURRENT_TRANSACTIONS, -1)]
    bench.coordinator.is_held = False
    assert bench.send(NEW, (0, batch(0, epoch=1))) == [(0, 2)]


@pytest.mark.parametrize("version, expected", [(11, (0, 0)), (12, (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1))])
def test_an_unknown_producer_begins_at_sequence_0(bench: Bench, version: int, expected: tuple[int, int]) -> None:
    assert bench.send(version, (0, batch(5))) == [expected]


def test_a_later_batch_does_not_overtake_a_refused_one(bench: Bench) -> None:
    bench.coordinator.answers.append(KafkaError(ErrorCode.NOT_COORDINATOR))
    assert bench.send(OLD, (0, batch(0))) == [(ErrorCode.NOT_ENOUGH_REPLICAS, -1)]
    assert bench.send(OLD, (0, batch(1))) == [(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)]
    assert bench.send(OLD, (0, batch(0))) == [(0, 0)]
    assert bench.send(OLD, (0, batch(1))) == [(0, 1)]


def test_the_same_batch_on_two_connections_is_written_once(bench: Bench) -> None:
    bench.coordinator.is_held = True
    for _ in range(2):
        bench.send(OLD, (0, batch(0)))
    bench.coordinator.answer(bench.node)
    bench.coordinator.answer(bench.node)
    assert [codes(reply) for reply in bench.replies] == [[(0, 0)], [(0, 0)]]
    assert bench.partition().log.end_offset == 1


def test_while_the_last_transaction_ends_the_coordinator_is_asked_again(bench: Bench) -> None:
    bench.coordinator.answers += [ErrorCode.CONCURRENT_TRANSACTIONS] * 3
    assert isinstance(bench.send(NEW, (0, batch(0))), Running)
    for _ in range(14):
        bench.node.time.advance(1)
    assert (len(bench.coordinator.asked), codes(bench.replies[0])) == (4, [(0, 0)])


def test_the_client_comes_again_if_that_takes_long(bench: Bench) -> None:
    bench.coordinator.answers += [ErrorCode.CONCURRENT_TRANSACTIONS] * 100
    bench.send(NEW, (0, batch(0)))
    for _ in range(int(RETRIES_END_MS)):
        bench.node.time.advance(1)
    assert codes(bench.replies[0]) == [(ErrorCode.CONCURRENT_TRANSACTIONS, -1)]
    assert 5 < len(bench.coordinator.asked) < 15


def test_a_broker_that_stops_does_not_ask_again(bench: Bench) -> None:
    bench.coordinator.answers += [ErrorCode.CONCURRENT_TRANSACTIONS] * 100
    bench.send(NEW, (0, batch(0)))
    bench.coordinator.is_held = True
    bench.node.services.tasks.expire_all()
    assert codes(bench.replies[0]) == [(ErrorCode.CONCURRENT_TRANSACTIONS, -1)]
    bench.send(NEW, (0, batch(0)))
    assert len(bench.coordinator.held) == 1
    bench.node.services.tasks.expire_all()
    assert codes(bench.replies[1]) == [(ErrorCode.NOT_ENOUGH_REPLICAS, -1)]


def test_a_coordinator_that_does_not_answer(bench: Bench) -> None:
    bench.coordinator.is_held = True
    bench.send(OLD, (0, batch(0)))
    bench.node.time.advance(MIN_WAIT_MS - 1)
    assert bench.replies == []
    bench.node.time.advance(1)
    assert codes(bench.replies[0]) == [(ErrorCode.NOT_ENOUGH_REPLICAS, -1)]


def test_a_client_that_hangs_up_leaves_nothing(bench: Bench) -> None:
    bench.coordinator.is_held = True
    bench.send(OLD, (0, batch(0))).cancel()
    bench.coordinator.answer(bench.node)
    assert (bench.replies, bench.partition().log.end_offset, len(bench.node.services.tasks)) == ([], 0, 0)


def test_without_verification_only_the_new_protocol_asks(tmp_path: Any) -> None:
    node = HandlerBroker(tmp_path / "data", transaction_partition_verification_enable="false")
    bench = Bench(node)
    bench.coordinator.answers.append(ErrorCode.TRANSACTION_ABORTABLE)
    assert bench.send(OLD, (0, batch(5))) == [(0, 0)]
    assert bench.coordinator.asked == []
    assert bench.send(NEW, (1, batch(0))) == [(ErrorCode.TRANSACTION_ABORTABLE, -1)]
    node.close()


@pytest.mark.parametrize("confirms", [True, False])
@pytest.mark.parametrize("is_verified", [True, False])
def test_a_sequence_used_again_in_the_next_transaction(tmp_path: Any, is_verified: bool, confirms: bool) -> None:
    """Of the old protocol. Without verification Kafka commits the transaction without its first records."""
    node = HandlerBroker(tmp_path / "data", transaction_partition_verification_enable=str(is_verified).lower())
    bench = Bench(node)
    bench.coordinator.confirms = confirms
    assert bench.send(OLD, (0, batch(0))) + bench.send(OLD, (0, batch(1))) == [(0, 0), (0, 1)]
    bench.end(False)
    assert bench.send(OLD, (0, batch(1))) == [(0, 1)], "taken for a copy"
    refusal = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
    assert bench.send(OLD, (0, batch(2))) == [refusal if is_verified else (0, 3)]
    node.close()


def test_a_request_without_a_transactional_id_is_refused(bench: Bench) -> None:
    """As a whole, whether the transaction is open or not: without its id nobody may write to a transaction."""
    error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1
    plain = build([Record(timestamp=NOW_MS, value=b"v")])
    assert bench.send(NEW, (1, plain), (0, batch(0)), name=None) == [error, error]
    assert bench.coordinator.asked == []
    assert bench.send(NEW, (0, batch(0))) == [(0, 0)]
    assert bench.send(NEW, (0, batch(1)), name=None) == [error]
    assert [bench.partition(index).log.end_offset for index in range(2)] == [1, 0]


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.PRODUCER_FENCED])
def test_made_up_producers_leave_nothing_behind(bench: Bench, code: ErrorCode) -> None:
    for producer_id in range(10, 13):
        bench.coordinator.answers.append(code)
        bench.send(OLD, (0, batch(0, producer_id=producer_id)))
    producers = bench.partition().log.producers
    for producer_id in range(10, 13):
        begun = producers.begin_verification(producer_id, 0, 9, NOW_MS, begins_at_zero=True)
        assert begun.lowest_sequence == 9, "an earlier verification had a lower one"


def test_a_coordinator_that_cannot_be_asked_leaves_the_lowest_sequence(bench: Bench) -> None:
    """The batch behind must not overtake the one that has to come again."""
    bench.coordinator.answers.append(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert bench.send(OLD, (0, batch(0))) == [(ErrorCode.NOT_ENOUGH_REPLICAS, -1)]
    assert bench.send(OLD, (0, batch(1))) == [(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)]
    assert bench.send(OLD, (0, batch(0))) == [(0, 0)]


def test_a_request_has_batches_of_one_producer(bench: Bench) -> None:
    rows = (0, batch(0)), (1, batch(0, producer_id=8)), (2, batch(0, producer_id=8, is_transactional=False))
    error = ErrorCode.INVALID_PRODUCER_ID_MAPPING, -1
    assert bench.send(NEW, *rows) == [error, error, (0, 0)]


@pytest.mark.parametrize("is_held", [False, True])
def test_acks_0_has_no_reply_and_an_error_ends_the_connection(bench: Bench, is_held: bool) -> None:
    bench.coordinator.is_held = is_held
    running = bench.send(OLD, (0, batch(0)), acks=0)
    if is_held:
        assert isinstance(running, Running)
        bench.coordinator.answer(bench.node)
        assert bench.replies.pop() is None
    assert bench.partition().log.end_offset == 1
    bench.end(is_commit=True)
    if is_held:
        bench.send(OLD, (0, batch(1)), acks=0)
        bench.coordinator.answer(bench.node, ErrorCode.TRANSACTION_ABORTABLE)
        assert isinstance(bench.replies[0], CloseConnection)
    else:
        bench.coordinator.answers.append(ErrorCode.TRANSACTION_ABORTABLE)
        with pytest.raises(CloseConnection, match="t-0 failed with error 48"):
            bench.send(OLD, (0, batch(1)), acks=0)


@pytest.mark.parametrize("is_held", [False, True])
def test_a_slow_disk_takes_the_batch_once_it_is_verified(bench: Bench, is_held: bool) -> None:
    bench.partition().disk.is_slow = True
    bench.coordinator.is_held = is_held
    first = bench.send(OLD, (0, batch(0)))
    assert len(bench.coordinator.asked) == 1
    if is_held:
        bench.coordinator.answer(bench.node)
        first = codes(bench.replies[0])
    assert first == [(0, 0)]
    assert bench.send(OLD, (0, batch(1))) == [(0, 1)]
    assert len(bench.coordinator.asked) == 1


@pytest.mark.parametrize("is_held", [False, True])
@pytest.mark.parametrize("acks", [ACKS_ALL, 1, 0])
def test_the_reply_waits_for_the_thread_of_a_slow_disk(
    bench: Bench, threads: HeldThreads, is_held: bool, acks: int
) -> None:
    """The end of the append completes the request, which was parked before for another reason."""
    bench.partition().disk.is_slow = True
    bench.coordinator.is_held = is_held
    outcome = bench.send(OLD, (0, batch(0)), acks=acks)
    if is_held:
        bench.coordinator.answer(bench.node)
    assert bench.replies == ([None] if acks == 0 and is_held else [])
    threads.run_all()
    bench.node.time.advance()
    if acks:
        assert codes(bench.replies[0]) == [(0, 0)]
    else:
        assert is_held or outcome is None
    assert bench.partition().log.end_offset == 1


@pytest.mark.parametrize("is_held", [False, True])
def test_the_reply_waits_for_a_sync(bench: Bench, threads: HeldThreads, is_held: bool) -> None:
    bench.node.services.metadata.change_topic_configs("t", {"headgate.flush": "commit"})
    bench.coordinator.is_held = is_held
    bench.send(NEW, (0, batch(0)))
    if is_held:
        bench.coordinator.answer(bench.node)
    assert bench.replies == []
    bench.node.time.advance()
    threads.run_all()
    bench.node.time.advance()
    assert codes(bench.replies[0]) == [(0, 0)]


@pytest.mark.parametrize("is_held", [False, True])
def test_a_batch_is_converted_once_it_is_verified(bench: Bench, is_held: bool) -> None:
    bench.node.services.metadata.create_topic("c", 1, configs={"cleanup.policy": "compact", "compression.type": "gzip"})
    bench.coordinator.is_held = is_held
    request = produce_request(batch(0), "c", timeout_ms=1_500, transactional_id="id")
    outcome = bench.node.handle(request, OLD)
    if is_held:
        assert is_task(outcome)
        bench.node.services.tasks.start(outcome, bench.replies.append)
        bench.coordinator.answer(bench.node)
        bench.node.time.advance()
    else:
        bench.replies.append(outcome)
    assert codes(bench.replies[0]) == [(0, 0)]
    log = bench.node.services.partitions.get("c", 0).log
    assert (log.end_offset, log.stable_offset) == (1, 0)


def test_a_topic_that_is_made_again_meanwhile(bench: Bench) -> None:
    bench.coordinator.is_held = True
    bench.send(OLD, (0, batch(0)))
    bench.node.services.metadata.delete_topic("t")
    bench.node.services.metadata.create_topic("t", 1)
    bench.coordinator.answer(bench.node)
    assert codes(bench.replies[0]) == [(ErrorCode.INVALID_TXN_STATE, -1)]


def test_topics_by_id(bench: Bench) -> None:
    topic_id = bench.node.services.metadata.image.topics["t"].topic_id
    data = [PartitionProduceData(0, memoryview(batch(0)))]
    unknown = [PartitionProduceData(0, memoryview(batch(0)))]
    topics = [TopicProduceData("", topic_id, data), TopicProduceData("", b"\x07" * 16, unknown)]
    response = bench.node.ask(ProduceRequest("id", ACKS_ALL, 1_500, topics), 13)
    assert [topic.topic_id for topic in response.responses] == [topic_id, b"\x07" * 16]
    assert codes(response) == [(0, 0), (ErrorCode.UNKNOWN_TOPIC_ID, -1)]
    assert bench.coordinator.asked == [({"t": [0]}, True)]
