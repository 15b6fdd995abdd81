"""Open transactions of partitions: which hang, and the abort of one."""

import pytest

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_producers import DescribeProducersRequest, ProducerState
from headgate.protocol.messages.describe_transactions import DescribeTransactionsRequest
from headgate.protocol.messages.list_transactions import ListTransactionsRequest
from headgate.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.tests.model_cluster import Log, ModelCluster, ModelTransaction, opened
from headgate.tools.txn.open_transactions import (
    ActiveProducer,
    Judgement,
    OpenTransaction,
    abort_transaction,
    find_hanging,
    judge,
    list_open_transactions,
    list_producers,
)

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
NOW_MS = 1_700_000_000_000
OLD_MS = NOW_MS - 3_600_000


def producer(producer_id: int, start: int = 5, *, last_ms: int = OLD_MS, coordinator_epoch: int = -1) -> ProducerState:
    return ProducerState(producer_id, 1, 0, last_ms, coordinator_epoch, start)


@pytest.fixture
def logs(model: ModelCluster) -> list[Log]:
    """Of the topic `a`: partition 0 is led by broker 1, partition 1 by broker 2."""
    model.topics["a"] = [Log(1), Log(2)]
    return model.topics["a"]


def test_open_transactions_are_listed_by_start_offset(logs: list[Log]) -> None:
    logs[0].producers = [producer(7, 9, coordinator_epoch=4), producer(8, -1), producer(9, 2, last_ms=-1)]
    with opened() as cluster:
        found, failed = list_open_transactions(cluster, [A0, A1, TopicPartition("gone", 0)])
    assert found == {
        A0: [OpenTransaction(A0, 9, 1, None, 2, None), OpenTransaction(A0, 7, 1, 4, 9, OLD_MS)],
        A1: [],
    }
    assert list(failed) == [TopicPartition("gone", 0)]


@pytest.mark.parametrize(
    "transaction, expected",
    [
        (None, Judgement(True, None, "no transactional id has this producer id")),
        (ModelTransaction("Empty"), Judgement(True, "x", "x is Empty, without this partition")),
        (
            ModelTransaction(partitions={"a": [1], "b": [0]}, coordinator=1),
            Judgement(True, "x", "x is Ongoing, without this partition"),
        ),
        (
            ModelTransaction("PrepareCommit", partitions={"a": [0]}),
            Judgement(False, "x", "x is PrepareCommit, and its coordinator is going to end it"),
        ),
    ],
)
def test_a_transaction_hangs_without_a_coordinator(
    model: ModelCluster, logs: list[Log], transaction: ModelTransaction | None, expected: Judgement
) -> None:
    model.transactions = {} if transaction is None else {"x": transaction}
    one = OpenTransaction(A0, 7, 1, None, 5, OLD_MS)
    with opened() as cluster:
        assert judge(cluster, [one]) == ({one: expected}, [])


def test_a_producer_id_given_anew_makes_the_old_transaction_hang(model: ModelCluster, logs: list[Log]) -> None:
    """Between the two questions to the coordinator."""
    model.transactions = {"x": ModelTransaction(partitions={"a": [0]})}

    def disturb(node: int, request: object, version: int) -> None:
        if isinstance(request, DescribeTransactionsRequest):
            model.transactions["x"].producer_id = 70

    model.disturb = disturb
    one = OpenTransaction(A0, 7, 1, None, 5, OLD_MS)
    with opened() as cluster:
        judgements, failures = judge(cluster, [one])
    assert judgements == {one: Judgement(True, "x", "x has another producer id by now: 70")}
    assert not failures


def test_without_an_answer_of_a_coordinator_there_is_no_judgement(model: ModelCluster, logs: list[Log]) -> None:
    """Broker 2 may know the producer 8."""
    model.transactions = {"x": ModelTransaction("Empty", 7)}
    model.dead = {2}
    known, unknown = OpenTransaction(A0, 7, 1, None, 5, OLD_MS), OpenTransaction(A0, 8, 1, None, 6, OLD_MS)
    with opened() as cluster:
        judgements, failures = judge(cluster, [known, unknown])
    assert list(judgements) == [known]
    assert len(failures) == 1
    assert "the transactions of broker 2 are not known" in failures[0]


def test_hanging_transactions_are_old_and_without_a_coordinator(model: ModelCluster, logs: list[Log]) -> None:
    model.transactions = {"live": ModelTransaction(producer_id=1, partitions={"a": [0]})}
    logs[0].producers = [producer(1), producer(2, 8), producer(3, 9, last_ms=NOW_MS - 1000)]
    logs[1].producers = [producer(2, 20, last_ms=-1), producer(4, -1)]
    with opened() as cluster:
        hanging, failures = find_hanging(cluster, [A0, A1], 900_000, NOW_MS)
    assert [(one.partition, one.producer_id, one.start_offset) for one in hanging] == [(A0, 2, 8), (A1, 2, 20)]
    assert not failures


def test_nothing_is_asked_of_coordinators_without_candidates(model: ModelCluster, logs: list[Log]) -> None:
    with opened() as cluster:
        assert find_hanging(cluster, [A0, A1], 0, NOW_MS) == ({}, [])
    assert not model.of(ListTransactionsRequest)


def test_a_transaction_that_ends_meanwhile_does_not_hang(model: ModelCluster, logs: list[Log]) -> None:
    logs[0].producers = [producer(1)]

    def disturb(node: int, request: object, version: int) -> None:
        if isinstance(request, ListTransactionsRequest):
            logs[0].producers[0].current_txn_start_offset = 30  # the next transaction of the same producer

    model.disturb = disturb
    with opened() as cluster:
        assert find_hanging(cluster, [A0], 0, NOW_MS) == ({}, [])
    assert len(model.of(DescribeProducersRequest)) == 2


def test_unknown_states_are_reported(model: ModelCluster, logs: list[Log]) -> None:
    logs[0].producers = [producer(1)]
    model.dead = {2}
    with opened() as cluster:
        hanging, failures = find_hanging(cluster, [A0, A1], 0, NOW_MS)
    assert not hanging
    assert failures[0].startswith("a-1: broker 2 is advertised at")
    assert failures[1].startswith("the transactions of broker 2 are not known")
    assert failures[2:] == ["1 more open transactions may hang: their state is not known"]


@pytest.mark.parametrize("epoch, sent", [(None, 0), (4, 4)])
def test_an_abort_writes_a_marker(model: ModelCluster, logs: list[Log], epoch: int | None, sent: int) -> None:
    logs[0].producers = [producer(7)]
    with opened() as cluster:
        assert abort_transaction(cluster, OpenTransaction(A0, 7, 1, epoch, 5, OLD_MS)) is None
    marker = WritableTxnMarker(7, 1, False, [WritableTxnMarkerTopic("a", [0])], sent)
    assert model.of(WriteTxnMarkersRequest) == [WriteTxnMarkersRequest([marker])]
    assert logs[0].producers[0].current_txn_start_offset == -1


def test_a_refused_abort_is_a_failure(model: ModelCluster, logs: list[Log]) -> None:
    fenced = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    model.disturb = lambda node, request, version: (
        request.error_response(version, fenced) if isinstance(request, WriteTxnMarkersRequest) else None
    )
    with opened() as cluster:
        failure = abort_transaction(cluster, OpenTransaction(A0, 7, 1, None, 5, OLD_MS))
    assert failure is not None
    assert failure.code == fenced


def test_producers_are_listed_in_and_out_of_transactions(logs: list[Log]) -> None:
    logs[0].producers = [producer(9, -1, last_ms=-1), producer(7, 9, coordinator_epoch=4)]
    with opened() as cluster:
        found, failed = list_producers(cluster, [A0])
    assert found == {A0: [ActiveProducer(7, 1, 0, OLD_MS, 4, 9), ActiveProducer(9, 1, 0, None, None, None)]}
    assert not failed
