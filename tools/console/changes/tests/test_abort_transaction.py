"""The abort of a transaction says whether the transaction hangs."""

from __future__ import annotations

import time

import pytest

from headgate.protocol.messages.describe_producers import DescribeProducersRequest, ProducerState
from headgate.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from headgate.tools.client.client import ClientError
from headgate.tools.console.changes.abort_transaction import abort_transaction
from headgate.tools.console.parameters import Parameters
from headgate.tools.tests.model_cluster import Log, ModelCluster, ModelTransaction, opened

HOUR_MS = 3_600_000


def producer(producer_id: int, start: int, age_ms: int = HOUR_MS) -> ProducerState:
    return ProducerState(producer_id, 1, 0, int(time.time() * 1000) - age_ms, -1, start)


def of(partition: int, start_offset: int) -> Parameters:
    return Parameters([("topic", "a"), ("partition", str(partition)), ("start_offset", str(start_offset))])


def populate(model: ModelCluster) -> None:
    """Producer 7 is in a transaction that its coordinator knows; the id of 8 has gone on; 9 has no id."""
    model.topics["a"] = [Log(), Log(1)]
    model.topics["a"][0].producers = [producer(7, 5), producer(8, 3, 3 * HOUR_MS)]
    model.topics["a"][1].producers = [producer(9, 0, 5000)]
    model.transactions = {
        "alive": ModelTransaction("Ongoing", 7, {"a": [1, 0], "b": [0]}),
        "done": ModelTransaction("CompleteCommit", 8, coordinator=1),
    }


def test_a_hanging_transaction_is_aborted(model: ModelCluster) -> None:
    populate(model)
    with opened() as cluster:
        plan = abort_transaction(cluster, of(0, 3))
        assert plan.summary == "Abort the hanging transaction of done in a-0 from offset 3 on"
        [line] = plan.lines
        assert line[:3] == ("a-0 from 3", "hanging", "aborted")
        assert line.note == ("last batch 3 h ago; producer 8, epoch 1; done is CompleteCommit, without this partition")
        assert (plan.problems, plan.warnings, plan.confirmation) == ((), [], "")
        assert plan.command == "headgate txn abort --topic a:0 --start-offset 3 --execute"
        assert not model.of(WriteTxnMarkersRequest)
        result = plan.apply(cluster)
    assert (result.done, result.failures) == (["The transaction in a-0 from offset 3 on is aborted"], ())
    assert [one.current_txn_start_offset for one in model.topics["a"][0].producers] == [5, -1]


def test_a_transaction_that_is_alive_has_a_warning(model: ModelCluster) -> None:
    populate(model)
    with opened() as cluster:
        plan = abort_transaction(cluster, of(0, 5))
    [warning] = plan.warnings
    assert "alive is Ongoing, and its coordinator is going to end it" in warning
    assert "its 2 other partitions" in warning
    assert plan.lines[0].before == "open"
    assert plan.confirmation == "a-0"
    assert plan.command.endswith("--execute --force")


def test_a_young_one_may_end_by_itself(model: ModelCluster) -> None:
    populate(model)
    with opened() as cluster:
        plan = abort_transaction(cluster, of(1, 0))
    assert plan.summary == "Abort the hanging transaction of producer 9 in a-1 from offset 0 on"
    assert plan.warnings == ["Its last batch is younger than 15 minutes: its coordinator may be about to end it"]
    assert "last batch 5 s ago" in plan.lines[0].note


def test_no_answer_of_a_coordinator_is_a_warning(model: ModelCluster) -> None:
    populate(model)
    model.dead = {1, 2}
    with opened() as cluster:
        plan = abort_transaction(cluster, of(0, 3))
    assert plan.warnings[0].startswith("No coordinator has answered for this producer")
    assert plan.confirmation == "a-0"


def test_an_ended_transaction_and_an_old_broker(model: ModelCluster) -> None:
    populate(model)
    with opened() as cluster:
        with pytest.raises(ClientError, match="no open transaction of a-0 begins at offset 4: it has ended by now"):
            abort_transaction(cluster, of(0, 4))
        model.unserved = {DescribeProducersRequest}
    with opened() as cluster, pytest.raises(ClientError, match="DescribeProducers"):
        abort_transaction(cluster, of(0, 3))
