"""A batch goes to the leader once, and a failure says whether its records may be there."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from headgate.protocol.records import batch
from headgate.protocol.records.batch import Record
from headgate.protocol.schema import Message
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client.client import ClientError
from headgate.tools.client.cluster import FailedAnswer
from headgate.tools.client.producing import AppendedBatch, append_batch
from headgate.tools.tests.model_cluster import Log, ModelCluster, opened

ORDERS = TopicPartition("orders", 1)
RECORD = Record(timestamp=1000, key=b"k", value=b"v", headers=[("trace", None)])


@pytest.fixture
def log(model: ModelCluster) -> Log:
    """The partition orders-1, led by broker 2."""
    model.topics["orders"] = [Log(), Log(leader=2, end=42)]
    return model.topics["orders"][1]


def answer(model: ModelCluster, code: int, **fields: Any) -> None:
    """The answer of every broker to Produce."""
    row = PartitionProduceResponse(1, code, **{"base_offset": -1} | fields)
    response = ProduceResponse(responses=[TopicProduceResponse(name="orders", partition_responses=[row])])
    model.disturb = lambda node, request, version: response if isinstance(request, ProduceRequest) else None


def test_the_leader_appends(model: ModelCluster, log: Log) -> None:
    with opened() as cluster:
        assert append_batch(cluster, ORDERS, [RECORD]) == AppendedBatch(ORDERS, 42, None)
    [record] = batch.iterate(log.batches[0])
    assert record == RECORD._replace(offset=42)


@pytest.mark.parametrize("newest, used", [(3, 3), (7, 7), (13, 12)])
def test_brokers_since_0_11_have_a_version(model: ModelCluster, log: Log, newest: int, used: int) -> None:
    model.served[ProduceRequest] = (0, newest)
    with opened() as cluster:
        append_batch(cluster, ORDERS, [RECORD])
    assert [version for _, request, version in model.asked if isinstance(request, ProduceRequest)] == [used]


def test_an_older_broker_gets_nothing(model: ModelCluster, log: Log) -> None:
    model.served[ProduceRequest] = (0, 2)
    with opened() as cluster, pytest.raises(ClientError, match=r"^orders-1: .* too old"):
        append_batch(cluster, ORDERS, [RECORD])
    assert model.of(ProduceRequest) == []


def test_a_leader_that_has_moved_is_found(model: ModelCluster, log: Log) -> None:
    with opened() as cluster:
        cluster.topics(["orders"])
        log.leader = 1
        assert append_batch(cluster, ORDERS, [RECORD]) == AppendedBatch(ORDERS, 42, None)
    assert [node for node, request, _ in model.asked if isinstance(request, ProduceRequest)] == [2, 1]


def test_the_time_of_the_broker_is_told(model: ModelCluster, log: Log) -> None:
    answer(model, 0, log_append_time_ms=77)
    with opened() as cluster:
        assert append_batch(cluster, ORDERS, [RECORD]) == AppendedBatch(ORDERS, -1, 77)


def test_a_refusal_has_all_sentences_of_the_broker(model: ModelCluster, log: Log) -> None:
    errors = [BatchIndexAndErrorMessage(0, "Compacted topic cannot accept message without key.")]
    answer(model, ErrorCode.INVALID_RECORD, error_message="One record is rejected", record_errors=errors)
    with opened() as cluster, pytest.raises(FailedAnswer) as caught:
        append_batch(cluster, ORDERS, [RECORD])
    assert str(caught.value) == (
        "orders-1: One record is rejected; Compacted topic cannot accept message without key (INVALID_RECORD)"
    )


@pytest.mark.parametrize("code", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND])
def test_records_that_may_be_there_are_not_sent_twice(model: ModelCluster, log: Log, code: int) -> None:
    answer(model, code)
    with opened() as cluster:
        outcome = append_batch(cluster, ORDERS, [RECORD])
    assert isinstance(outcome, Failure)
    assert outcome.text.startswith("orders-1: ")
    assert outcome.text.endswith("may be written all the same: read the end of orders-1 before you send them again")
    assert len(model.of(ProduceRequest)) == 1


def test_a_lost_answer_leaves_the_outcome_open(model: ModelCluster, log: Log) -> None:
    def hang_up(node: int, request: object, version: int) -> Message | bytes | None:
        return b"" if isinstance(request, ProduceRequest) else None

    model.disturb = hang_up
    with opened() as cluster:
        outcome = append_batch(cluster, ORDERS, [RECORD])
    assert isinstance(outcome, Failure)
    assert "hung up" in outcome.text
    assert "may be written all the same" in outcome.text
    assert len(model.of(ProduceRequest)) == 1


def test_a_partition_without_a_leader_is_named(model: ModelCluster, log: Log) -> None:
    log.leader = -1
    with opened() as cluster, pytest.raises(ClientError, match=r"^orders-1: the partition has no leader"):
        append_batch(cluster, ORDERS, [RECORD])


def test_a_leader_that_loses_its_role_after_the_append_is_not_asked_again(model: ModelCluster, log: Log) -> None:
    answer(model, ErrorCode.NOT_LEADER_OR_FOLLOWER, base_offset=42)
    with opened() as cluster:
        result = append_batch(cluster, ORDERS, [RECORD])
    assert isinstance(result, Failure)
    assert "the records may be written all the same" in result.text
    assert len(model.of(ProduceRequest)) == 1
