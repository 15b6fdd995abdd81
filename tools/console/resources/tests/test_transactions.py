"""Transactional ids and open transactions, with the hanging ones marked."""

import time

from headgate.protocol.messages.describe_producers import DescribeProducersRequest, ProducerState
from headgate.protocol.messages.describe_transactions import DescribeTransactionsRequest
from headgate.protocol.messages.list_transactions import ListTransactionsRequest
from headgate.tools.console.parameters import Parameters
from headgate.tools.console.resources.transactions import (
    COLUMNS,
    open_transactions,
    transaction_figures,
    transactions,
)
from headgate.tools.tests.model_cluster import Log, ModelCluster, ModelTransaction, opened

NOTHING = Parameters()
HOUR_MS = 3_600_000


def producer(producer_id: int, start: int, age_ms: int) -> ProducerState:
    return ProducerState(producer_id, 1, 0, int(time.time() * 1000) - age_ms, -1, start)


def populate(model: ModelCluster) -> None:
    """Producer 7 is in a transaction that its coordinator knows; the id of 8 has gone on; 9 has no id."""
    model.topics["a"] = [Log(), Log(1)]
    model.topics["a"][0].producers = [producer(7, 5, HOUR_MS), producer(8, 3, HOUR_MS), producer(1, -1, 0)]
    model.topics["a"][1].producers = [producer(9, 0, 1000)]
    begun_ms = int(time.time() * 1000) - HOUR_MS
    model.transactions = {
        "alive": ModelTransaction("Ongoing", 7, {"a": [1, 0]}, start_time_ms=begun_ms),
        "done": ModelTransaction("CompleteCommit", 8, start_time_ms=begun_ms, coordinator=1),
    }


def test_transactional_ids_are_rows(model: ModelCluster) -> None:
    populate(model)
    with opened() as cluster:
        answer = transactions(cluster, NOTHING)
    assert answer == {
        "columns": list(COLUMNS),
        "rows": [["alive", "Ongoing", 7, 0], ["done", "CompleteCommit", 8, 1]],
        "missing": {},
    }


def test_a_transaction_that_has_ended_has_no_age(model: ModelCluster) -> None:
    populate(model)
    wanted = Parameters([("transactional_id", name) for name in ("alive", "done", "gone")])
    with opened() as cluster:
        answer = transaction_figures(cluster, wanted)
    alive, done = answer["transactions"]
    assert HOUR_MS <= alive["age_ms"] < 2 * HOUR_MS
    assert (alive["timeout_ms"], alive["partitions"]) == (60_000, {"a": [0, 1]})
    assert (done["age_ms"], done["start_time_ms"]) == (None, None)
    assert answer["missing"] == {}, "an id that is gone since the list is no failure"


def test_open_transactions_with_hanging_ones_marked(model: ModelCluster) -> None:
    populate(model)
    with opened() as cluster:
        answer = open_transactions(cluster, NOTHING)
    assert [
        (row["topic"], row["partition"], row["start_offset"], row["producer_id"], row["transactional_id"])
        for row in answer["open_transactions"]
    ] == [("a", 0, 3, 8, "done"), ("a", 0, 5, 7, "alive"), ("a", 1, 0, 9, None)]
    hanging, alive, young = answer["open_transactions"]
    assert (hanging["is_hanging"], hanging["reason"]) == (True, "done is CompleteCommit, without this partition")
    assert HOUR_MS <= hanging["age_ms"] < 2 * HOUR_MS
    assert alive["is_hanging"] is False
    assert (young["is_hanging"], young["reason"]) == (False, "no transactional id has this producer id")
    assert (answer["partitions_asked"], answer["missing"]) == (2, {})


def test_the_limit_of_the_age_is_a_parameter(model: ModelCluster) -> None:
    populate(model)
    with opened() as cluster:
        answer = open_transactions(cluster, Parameters([("topic", "a"), ("older_than_ms", "500")]))
    assert [row["is_hanging"] for row in answer["open_transactions"]] == [True, False, True]


def test_without_coordinators_nothing_is_called_hanging(model: ModelCluster) -> None:
    populate(model)
    model.unserved = {ListTransactionsRequest, DescribeTransactionsRequest}
    with opened() as cluster:
        answer = open_transactions(cluster, NOTHING)
        assert transactions(cluster, NOTHING)["rows"] == []
    assert [row["is_hanging"] for row in answer["open_transactions"]] == [None, None, None]
    assert "ListTransactions" in answer["missing"]["judgement"]


def test_a_broker_before_kafka_2_8_has_no_answer(model: ModelCluster) -> None:
    populate(model)
    model.unserved = {DescribeProducersRequest}
    with opened() as cluster:
        answer = open_transactions(cluster, NOTHING)
    assert answer["open_transactions"] == []
    assert "DescribeProducers" in answer["missing"]["transactions"]
