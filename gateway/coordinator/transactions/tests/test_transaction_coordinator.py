"""The transaction coordinator over the parts of a broker, with a marker writer that a test scripts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.coordinator.decision import ProducerIdAndEpoch
from headgate.gateway.coordinator.transactions import transaction_coordinator
from headgate.gateway.coordinator.transactions.effects import WriteMarkers
from headgate.gateway.coordinator.transactions.transaction import TransactionState
from headgate.gateway.coordinator.transactions.transaction_coordinator import TransactionCoordinator
from headgate.gateway.runtime.tasks import Task
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResult
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.end_txn import EndTxnRequest
from headgate.protocol.messages.find_coordinator import TRANSACTION, FindCoordinatorRequest
from headgate.protocol.messages.init_producer_id import InitProducerIdRequest


class ScriptedMarkers:
    """Keeps what is to be written, and the tasks that wait for it."""

    def __init__(self) -> None:
        self.writes: list[tuple[WriteMarkers, int, Callable[[bool], None]]] = []

    def write(self, effect: WriteMarkers, coordinator_epoch: int) -> Task[bool]:
        is_done: bool = yield lambda resume: self.writes.append((effect, coordinator_epoch, resume))
        return is_done


class TransactionNode(HandlerBroker):
    """A node whose coordinator has a marker writer of the test."""

    def start(self) -> None:
        super().start()
        self.markers = ScriptedMarkers()
        self.transactions._markers = self.markers

    @property
    def transactions(self) -> TransactionCoordinator:
        return self.services.transactions

    def init(self, key: str = "x") -> Any:
        request = InitProducerIdRequest(key, 60_000)
        response = self.ask(request, 5)
        return self.ask(request, 5) if response.error_code else response

    def verify(
        self, producer: Any, partitions: Mapping[str, Sequence[int]], *, adds: bool, key: str = "x"
    ) -> list[int]:
        result = self.transactions.verify(key, producer.producer_id, producer.producer_epoch, partitions, adds=adds)
        assert isinstance(result, AddPartitionsToTxnResult)
        return [row.partition_error_code for topic in result.topic_results for row in topic.results_by_partition]

    def end_markers(self, resume: Callable[[bool], None]) -> None:
        """All markers of an effect are written."""
        resume(True)
        self.time.advance()

    def end(self, producer: Any, version: int = 4) -> None:
        request = EndTxnRequest("x", producer.producer_id, producer.producer_epoch, True)
        assert self.ask(request, version).error_code == ErrorCode.NONE
        self.time.advance()

    def state(self, key: str = "x") -> TransactionState:
        (found,) = [shard.transactions[key] for shard in self.transactions.shards() if key in shard.transactions]
        return found.state


@pytest.fixture
def node(tmp_path: Path) -> TransactionNode:
    node = TransactionNode(tmp_path / "data")
    node.ask(CreateTopicsRequest(topics=[CreatableTopic("t", 2, 1)]), 5)
    node.ask(FindCoordinatorRequest(key="x", key_type=TRANSACTION), 3)
    return node


def test_a_leader_verifies_and_adds(node: TransactionNode) -> None:
    producer = node.init()
    assert node.verify(producer, {"t": [0]}, adds=False) == [ErrorCode.TRANSACTION_ABORTABLE]
    assert node.verify(producer, {"t": [0, 1]}, adds=True) == [0, 0]
    assert node.verify(producer, {"t": [0]}, adds=False) == [0]
    assert node.verify(producer, {"t": [0, 1]}, adds=True, key="y") == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    with pytest.raises(KafkaError) as refused:
        node.verify(producer, {"t": [0]}, adds=True, key="")
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_aborts_of_the_coordinator_are_counted_and_logged(
    node: TransactionNode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "headgate.transactions")
    for key in ("overdue", "replaced"):
        assert node.verify(node.init(key), {"t": [0]}, adds=True, key=key) == [0]
    node.ask(InitProducerIdRequest("replaced", 60_000), 5)
    node.time.advance(100_000)
    metrics = node.services.metrics
    assert list(metrics.read("transactions.aborted")[1]) == [(("overdue",), 1), (("replaced",), 1)]
    assert metrics.snapshot()["transactions.ending"] == 2
    assert [line for line in caplog.messages if "aborted" in line] == [
        "the transaction of 'replaced' is aborted by the coordinator: another producer begins with the id",
        "the transaction of 'overdue' is aborted by the coordinator: it is open for longer than its timeout",
    ]
    for _, _, resume in node.markers.writes:
        node.end_markers(resume)
    assert metrics.snapshot()["transactions.ending"] == 0


def test_what_is_confirmed_at_once_is_in_records_below_the_high_watermark(node: TransactionNode) -> None:
    made = node.init()
    producer = ProducerIdAndEpoch(made.producer_id, made.producer_epoch)

    def confirms(partitions: Mapping[str, Sequence[int]], by: ProducerIdAndEpoch = producer, key: str = "x") -> bool:
        return node.transactions.confirm(key, by, partitions, adds=False)

    assert not confirms({"t": [0]})
    assert node.transactions.confirm("x", producer, {"t": [0]}, adds=True)
    assert [confirms({"t": [0]}), confirms({"t": [0, 1]}), confirms({"t": [0]}, key="y")] == [True, False, False]
    other_id, other_epoch = producer._replace(producer_id=99), producer._replace(producer_epoch=9)
    assert not any(confirms({"t": [0]}, other) for other in (other_id, other_epoch))
    assert not node.transactions.confirm("x", other_epoch, {"t": [0]}, adds=True)
    replica = node.services.partitions.get("__transaction_state", node.transactions.index_of("x"))
    replica.high_watermark -= 1
    assert not confirms({"t": [0]})
    replica.high_watermark += 1
    node.end(made)
    assert node.state() is TransactionState.PREPARE_COMMIT
    assert not confirms({"t": [0]})


def test_markers_are_written_behind_prepare_and_before_complete(node: TransactionNode) -> None:
    producer = node.init()
    node.verify(producer, {"t": [1]}, adds=True)
    node.end(producer, 5)
    ((effect, epoch, resume),) = node.markers.writes
    assert effect == WriteMarkers("x", producer.producer_id, 1, True, {"t": (1,)}, 2)
    index = node.transactions.index_of("x")
    assert epoch == node.services.partitions.get("__transaction_state", index).leader_epoch
    assert node.state() is TransactionState.PREPARE_COMMIT
    node.end_markers(resume)
    assert node.state() is TransactionState.COMPLETE_COMMIT


def test_a_restart_has_the_markers_written_again_in_its_epoch(node: TransactionNode) -> None:
    producer = node.init()
    node.verify(producer, {"t": [1]}, adds=True)
    node.end(producer)
    ((effect, epoch, _),) = node.markers.writes
    node.restart()
    node.time.advance(1)
    ((again, later, resume),) = node.markers.writes
    assert (again, later > epoch) == (effect, True)
    node.end_markers(resume)
    assert node.state() is TransactionState.COMPLETE_COMMIT


def test_of_two_equal_effects_only_the_last_completes(node: TransactionNode) -> None:
    """The markers of the last one are still to come: they must not meet the next transaction."""
    producer = node.init()
    node.verify(producer, {"t": [1]}, adds=True)
    node.end(producer)
    partition = node.services.partitions.get("__transaction_state", node.transactions.index_of("x"))
    node.transactions.log_was_truncated(partition)
    for _ in range(4):
        node.time.advance(1)
    (first, _, first_resume), (second, _, second_resume) = node.markers.writes
    assert first == second
    node.end_markers(first_resume)
    assert node.state() is TransactionState.PREPARE_COMMIT
    node.end_markers(second_resume)
    assert node.state() is TransactionState.COMPLETE_COMMIT
    node.end_markers(second_resume)
    node.end_markers(first_resume)
    assert node.state() is TransactionState.COMPLETE_COMMIT


def test_the_topic_has_no_more_in_sync_replicas_than_there_are_brokers(tmp_path: Path) -> None:
    settings = {"transaction_state_log_min_isr": "2", "transaction_state_log_replication_factor": "3"}
    node = TransactionNode(tmp_path, **settings)
    node.ask(FindCoordinatorRequest(key="x", key_type=TRANSACTION), 3)
    image = node.services.metadata.image
    assert image.topic_configs("__transaction_state")["min.insync.replicas"] == "1"
    assert {len(state.replicas) for state in image.topics["__transaction_state"].partitions} == {1}


def test_settings_have_their_effect(tmp_path: Path) -> None:
    settings = {
        "transaction_max_timeout_ms": "5000",
        "transactional_id_expiration_ms": "100",
        "transaction_remove_expired_transaction_cleanup_interval_ms": "200",
        "transaction_abort_timed_out_transaction_cleanup_interval_ms": "50",
        "transaction_state_log_num_partitions": "3",
        "transaction_state_log_segment_bytes": "4096",
    }
    node = TransactionNode(tmp_path, **settings)
    node.ask(CreateTopicsRequest(topics=[CreatableTopic("t", 1, 1)]), 5)
    node.ask(FindCoordinatorRequest(key="x", key_type=TRANSACTION), 3)
    image = node.services.metadata.image
    assert len(image.topics["__transaction_state"].partitions) == 3
    assert image.topic_configs("__transaction_state")["segment.bytes"] == "4096"
    assert node.ask(InitProducerIdRequest("x", 5_001), 5).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    request = InitProducerIdRequest("x", 120)
    node.ask(request, 5)
    node.verify(node.ask(request, 5), {"t": [0]}, adds=True)
    node.time.advance(120)
    assert node.markers.writes == []
    node.time.advance(30)
    ((effect, _, resume),) = node.markers.writes
    assert not effect.is_commit
    node.end_markers(resume)
    node.time.advance(400)
    assert all(not shard.transactions for shard in node.transactions.shards())


def test_a_reply_waits_as_long_as_those_of_groups() -> None:
    assert transaction_coordinator.WRITE_TIMEOUT_MS == 5_000
