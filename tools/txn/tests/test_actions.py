"""What the commands of `headgate txn` make of their options: rows, failures, notes."""

import argparse

import pytest

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_producers import DescribeProducersRequest, ProducerState
from headgate.protocol.messages.describe_transactions import DescribeTransactionsRequest
from headgate.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from headgate.tools.output import CommandResult
from headgate.tools.tests.model_cluster import Log, ModelCluster, ModelTransaction, opened
from headgate.tools.txn import actions

NOW_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "now_ms", lambda: NOW_MS)


def describe(*names: str) -> CommandResult:
    with opened() as cluster:
        return actions.run_describe(cluster, argparse.Namespace(transactional_ids=list(names)))


def test_an_id_that_expires_meanwhile_is_no_failure(model: ModelCluster) -> None:
    model.transactions = {"a": ModelTransaction("Empty"), "b": ModelTransaction("Empty")}

    def disturb(node: int, request: object, version: int) -> None:
        if isinstance(request, DescribeTransactionsRequest):
            model.transactions.pop("a", None)

    model.disturb = disturb
    said = describe()
    assert [row["transactional_id"] for row in said.rows] == ["b"]
    assert (said.failures, said.notes) == ([], [])
    assert len(describe("a").failures) == 1


def abort(*, force: bool = False, execute: bool = True, start_offset: int | None = 5) -> CommandResult:
    options = argparse.Namespace(topic={"a": [0]}, start_offset=start_offset, force=force, execute=execute)
    options.producer_id, options.producer_epoch, options.coordinator_epoch = 7, 3, None
    with opened() as cluster:
        return actions.run_abort(cluster, options)


@pytest.fixture
def log(model: ModelCluster) -> Log:
    """Of a-0, in which the transaction of the producer 7 hangs from offset 5 on."""
    model.topics["a"] = [Log(1, producers=[ProducerState(7, 3, 0, NOW_MS - 2000, -1, 5)])]
    return model.topics["a"][0]


def test_the_marker_of_an_abort_is_written_once(model: ModelCluster, log: Log) -> None:
    (row,) = abort().rows
    assert (row["aborted"], row["age_seconds"], row["coordinator_epoch"]) == (True, 2.0, None)
    assert len(model.of(WriteTxnMarkersRequest)) == 1
    assert log.producers[0].current_txn_start_offset == -1


def test_a_refused_marker_is_a_failure(model: ModelCluster, log: Log) -> None:
    fenced = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    model.disturb = lambda node, request, version: (
        request.error_response(version, fenced) if isinstance(request, WriteTxnMarkersRequest) else None
    )
    said = abort()
    assert [row["aborted"] for row in said.rows] == [False]
    assert len(said.failures) == 2
    assert said.failures[0].startswith("a-0: ")
    assert said.failures[0].endswith("(TRANSACTION_COORDINATOR_FENCED)")
    assert said.failures[1] == "nothing is aborted"


def test_epochs_stand_for_the_offset(model: ModelCluster, log: Log) -> None:
    (row,) = abort(start_offset=None).rows
    assert (row["start_offset"], row["producer_epoch"], row["aborted"]) == (None, 3, True)
    assert not model.of(DescribeProducersRequest)
    (request,) = model.of(WriteTxnMarkersRequest)
    assert request.markers[0].coordinator_epoch == 0


def test_a_live_transaction_needs_force(model: ModelCluster, log: Log) -> None:
    model.transactions = {"x": ModelTransaction(producer_id=7, partitions={"a": [0]})}
    said = abort()
    assert (said.code, said.failures[-1], log.producers[0].current_txn_start_offset) == (1, "nothing is aborted", 5)
    assert abort(force=True, execute=False).notes == ["this was a dry run, nothing is changed; --execute does it"]
    assert abort(force=True).rows[0]["aborted"] is True
