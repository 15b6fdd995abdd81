"""Transactions as their coordinators know them."""

import pytest

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_transactions import DescribeTransactionsRequest
from headgate.protocol.messages.find_coordinator import TRANSACTION, FindCoordinatorRequest
from headgate.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.tests.model_cluster import ModelCluster, ModelTransaction, opened
from headgate.tools.txn.transactions import (
    ListedTransaction,
    TransactionFilters,
    TransactionListing,
    describe_transactions,
    list_transactions,
)


def populate(model: ModelCluster) -> None:
    model.transactions = {
        "b": ModelTransaction("Ongoing", 7, {"t": [1, 0]}, start_time_ms=1000),
        "a": ModelTransaction("Empty", 8, coordinator=1),
        "c": ModelTransaction("CompleteCommit", 9, coordinator=2),
    }


def test_transactional_ids_of_all_brokers_are_listed(model: ModelCluster) -> None:
    populate(model)
    with opened() as cluster:
        assert list_transactions(cluster) == (
            [
                TransactionListing("a", "Empty", 8, 1),
                TransactionListing("b", "Ongoing", 7, 0),
                TransactionListing("c", "CompleteCommit", 9, 2),
            ],
            [],
        )


def test_all_filters_are_sent(model: ModelCluster) -> None:
    with opened() as cluster:
        list_transactions(cluster, TransactionFilters(["Ongoing"], [7], 5000, "a.*"))
    assert model.of(ListTransactionsRequest) == [ListTransactionsRequest(["Ongoing"], [7], 5000, "a.*")] * 3


@pytest.mark.parametrize(
    "served, filters, needed",
    [(0, TransactionFilters(older_than_ms=1), "1-2"), (1, TransactionFilters(pattern="a"), "2-2")],
)
def test_an_old_broker_cannot_filter(
    model: ModelCluster, served: int, filters: TransactionFilters, needed: str
) -> None:
    model.served[ListTransactionsRequest] = (0, served)
    with opened() as cluster:
        listed, failures = list_transactions(cluster, filters)
    assert not listed
    assert len(failures) == 3
    assert f"it has ListTransactions 0{'-1' * served}, this needs {needed}" in failures[0]


def test_a_broken_broker_hides_only_its_own_transactions(model: ModelCluster) -> None:
    populate(model)
    model.dead = {2}
    loading = [ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]
    unknown = ListTransactionsResponse(unknown_state_filters=["Loud"])

    def disturb(node: int, request: object, version: int) -> ListTransactionsResponse | None:
        if not isinstance(request, ListTransactionsRequest):
            return None
        return unknown if node == 1 else loading.pop() if loading else None

    model.disturb = disturb
    with opened() as cluster:
        listed, failures = list_transactions(cluster)
    assert [one.transactional_id for one in listed] == ["b"]
    assert failures[0].startswith("the transactions of broker 2 are not known: broker 2 is advertised at")
    assert failures[1:] == ["a broker does not know the state Loud"]


def test_transactions_are_described_by_their_coordinators(model: ModelCluster) -> None:
    populate(model)
    with opened() as cluster:
        found, failed = describe_transactions(cluster, ["b", "none", "a"])
    partitions = frozenset((TopicPartition("t", 0), TopicPartition("t", 1)))
    assert found == {
        "a": ListedTransaction("a", "Empty", 8, 1, 60_000, None, "127.0.0.1:9093", frozenset()),
        "b": ListedTransaction("b", "Ongoing", 7, 1, 60_000, 1000, "127.0.0.1:9092", partitions),
    }
    assert failed["none"].code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert failed["none"].text == "there is no such transactional id; `headgate txn list` shows all"
    assert {request.key_type for request in model.of(FindCoordinatorRequest)} == {TRANSACTION}


def test_a_coordinator_that_moves_is_asked_again(model: ModelCluster) -> None:
    populate(model)
    moved = iter((2, 1))

    def disturb(node: int, request: object, version: int) -> None:
        if isinstance(request, FindCoordinatorRequest):
            model.transactions["a"].coordinator = next(moved)
        elif isinstance(request, DescribeTransactionsRequest):
            model.transactions["a"].coordinator = 1

    model.disturb = disturb
    with opened() as cluster:
        found, failed = describe_transactions(cluster, ["a"])
    assert (found["a"].coordinator, failed) == ("127.0.0.1:9093", {})


def test_an_error_of_an_id_is_a_failure(model: ModelCluster) -> None:
    populate(model)
    denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    model.disturb = lambda node, request, version: (
        request.error_response(version, denied) if isinstance(request, DescribeTransactionsRequest) else None
    )
    with opened() as cluster:
        found, failed = describe_transactions(cluster, ["a", "b"])
    assert not found
    assert {failure.code for failure in failed.values()} == {denied}


def test_many_ids_are_asked_in_parts(model: ModelCluster) -> None:
    model.transactions = {f"x{i}": ModelTransaction() for i in range(250)}
    with opened() as cluster:
        assert len(describe_transactions(cluster, model.transactions)[0]) == 250
    assert [len(one.transactional_ids) for one in model.of(DescribeTransactionsRequest)] == [200, 50]
