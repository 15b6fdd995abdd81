"""The requests of transactional producers, from their first to the last, and what operators hear of transactions."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.gateway.metadata import features
from headgate.gateway.tests.builders import HandlerBroker, refusal
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headgate.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.describe_transactions import DescribeTransactionsRequest
from headgate.protocol.messages.end_txn import EndTxnRequest
from headgate.protocol.messages.find_coordinator import TRANSACTION, FindCoordinatorRequest
from headgate.protocol.messages.init_producer_id import InitProducerIdRequest
from headgate.protocol.messages.list_transactions import ListTransactionsRequest
from headgate.protocol.messages.update_features import SAFE_DOWNGRADE, FeatureUpdateKey, UpdateFeaturesRequest

pytestmark = pytest.mark.every_metadata_store

TIMEOUT_MS = 60_000


@pytest.fixture
def made(node: HandlerBroker) -> HandlerBroker:
    """A node with the topic `t` of two partitions, and the topics of the coordinators."""
    topics = [CreatableTopic("t", 2, 1)]
    node.ask(CreateTopicsRequest(topics=topics), 5)
    for key_type in (0, TRANSACTION):
        node.ask(FindCoordinatorRequest(key="x", key_type=key_type), 3)
    return node


def init(
    node: HandlerBroker, key: str | None = "x", version: int = 5, *, producer_id: int = -1, producer_epoch: int = -1
) -> Any:
    return node.ask(InitProducerIdRequest(key, TIMEOUT_MS, producer_id, producer_epoch), version)


def begun(node: HandlerBroker, key: str = "x", version: int = 3) -> Any:
    """The answer to InitProducerId of a producer that has added `t-0`."""
    producer = init(node, key)
    assert add(node, producer, {"t": [0]}, version, key) == {("t", 0): 0}
    return producer


def add(
    node: HandlerBroker, producer: Any, partitions: dict[str, list[int]], version: int = 3, key: str = "x"
) -> dict[tuple[str, int], int]:
    """The error code of each partition."""
    topics = [AddPartitionsToTxnTopic(name, indexes) for name, indexes in partitions.items()]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=key,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=topics,
    )
    return codes(node.ask(request, version).results_by_topic_v3_and_below)


def codes(results: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, row.partition_index): row.partition_error_code
        for topic in results
        for row in topic.results_by_partition
    }


def describe(node: HandlerBroker, key: str = "x") -> Any:
    (row,) = node.ask(DescribeTransactionsRequest([key]), 0).transaction_states
    return row


def test_the_first_coordinator_makes_the_topic_of_kafka(node: HandlerBroker) -> None:
    response = node.ask(FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["x"]), 4)
    assert [(row.error_code, row.node_id) for row in response.coordinators] == [(0, 0)]
    image = node.services.metadata.image
    assert len(image.topics["__transaction_state"].partitions) == 4
    assert image.topic_configs("__transaction_state") == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": str(100 << 20),
        "unclean.leader.election.enable": "false",
    }


@pytest.mark.parametrize("version", range(6))
def test_each_holder_of_an_id_gets_the_next_epoch(made: HandlerBroker, version: int) -> None:
    given = [init(made, version=version) for _ in range(3)]
    assert [(one.error_code, one.producer_epoch) for one in given] == [(0, 0), (0, 1), (0, 2)]
    assert len({one.producer_id for one in given}) == 1
    assert init(made, "y").producer_id != given[0].producer_id


def test_an_id_is_not_given_to_idempotent_producers_too(made: HandlerBroker) -> None:
    given = [init(made, key).producer_id for key in ("x", None, "y", None)]
    assert len(set(given)) == 4


@pytest.mark.parametrize("version", range(3, 6))
def test_a_fenced_producer_hears_what_its_version_knows(made: HandlerBroker, version: int) -> None:
    first = init(made)
    init(made)
    response = init(made, version=version, producer_id=first.producer_id, producer_epoch=first.producer_epoch)
    expected = ErrorCode.PRODUCER_FENCED if version >= 4 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert (response.error_code, response.producer_id, response.producer_epoch) == (expected, -1, -1)


def test_what_is_no_id_is_refused(made: HandlerBroker) -> None:
    assert init(made, "").error_code == ErrorCode.INVALID_REQUEST
    assert init(made, producer_id=5).error_code == ErrorCode.INVALID_REQUEST
    assert refusal(made, EndTxnRequest(""), 3) == ErrorCode.INVALID_REQUEST
    assert made.ask(AddOffsetsToTxnRequest(""), 3).error_code == ErrorCode.INVALID_REQUEST
    assert add(made, init(made), {"t": [0]}, key="") == {("t", 0): ErrorCode.INVALID_REQUEST}
    request = InitProducerIdRequest("x", 900_001)
    assert made.ask(request, 4).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.parametrize("version", range(4))
def test_a_client_adds_partitions(made: HandlerBroker, version: int) -> None:
    producer = begun(made, version=version)
    assert add(made, producer, {"t": [1, 0, 1]}, version) == {("t", 1): 0, ("t", 0): 0}
    row = describe(made)
    assert (row.transaction_state, [(data.topic, data.partitions) for data in row.topics]) == (
        "Ongoing",
        [("t", [0, 1])],
    )
    producer.producer_epoch += 1
    expected = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert add(made, producer, {"t": [0]}, version) == {("t", 0): expected}


def test_one_partition_that_cannot_be_added_refuses_all(made: HandlerBroker) -> None:
    producer = init(made)
    unknown, untried = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
    refused = add(made, producer, {"t": [0, 2, -1], "u": [0]})
    assert refused == {("t", 0): untried, ("t", 2): unknown, ("t", -1): unknown, ("u", 0): unknown}
    refused = add(made, producer, {"t": [0], "__consumer_offsets": [0]})
    assert refused == {("t", 0): untried, ("__consumer_offsets", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert describe(made).transaction_state == "Empty"


@pytest.mark.parametrize("version", [4, 5])
def test_a_broker_adds_and_verifies_for_many_transactions(made: HandlerBroker, version: int) -> None:
    x, y = begun(made), init(made, "y")

    def row(key: str, producer: Any, *, asks: bool, **topics: list[int]) -> AddPartitionsToTxnTransaction:
        named = [AddPartitionsToTxnTopic(name, indexes) for name, indexes in topics.items()]
        return AddPartitionsToTxnTransaction(key, producer.producer_id, producer.producer_epoch, asks, named)

    request = AddPartitionsToTxnRequest(
        [
            row("x", x, asks=True, t=[0, 1]),
            row("y", y, asks=False, t=[1], __consumer_offsets=[0]),
            row("z", y, asks=True, t=[0]),
            row("unknown", y, asks=False, u=[0]),
            row("", y, asks=True, t=[0]),
            row("x", y, asks=True, t=[0]),
        ]
    )
    response = made.ask(request, version)
    rows = {result.transactional_id: codes(result.topic_results) for result in response.results_by_transaction}
    assert (response.error_code, len(response.results_by_transaction)) == (0, 5)
    assert rows == {
        "x": {("t", 0): 0, ("t", 1): ErrorCode.TRANSACTION_ABORTABLE},
        "y": {("t", 1): 0, ("__consumer_offsets", 0): 0},
        "z": {("t", 0): ErrorCode.INVALID_PRODUCER_ID_MAPPING},
        "unknown": {("u", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
        "": {("t", 0): ErrorCode.INVALID_REQUEST},
    }
    assert describe(made, "y").transaction_state == "Ongoing"


def test_too_many_partitions_are_refused_at_once(made: HandlerBroker) -> None:
    topics = [AddPartitionsToTxnTopic("t", list(range(10_001)))]
    request = AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction("x", topics=topics)])
    assert made.ask(request, 4).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", range(5))
def test_a_client_adds_the_offsets_of_a_group(made: HandlerBroker, version: int) -> None:
    producer = init(made)
    request = AddOffsetsToTxnRequest("x", producer.producer_id, producer.producer_epoch, "g")
    assert made.ask(request, version).error_code == ErrorCode.NONE
    (data,) = describe(made).topics
    assert (data.topic, data.partitions) == ("__consumer_offsets", [made.services.groups.index_of("g")])
    request.producer_epoch += 1
    expected = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert made.ask(request, version).error_code == expected
    request = AddOffsetsToTxnRequest("y", producer.producer_id, producer.producer_epoch, "g")
    assert made.ask(request, version).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("version", range(6))
def test_a_client_ends_its_transaction(made: HandlerBroker, version: int) -> None:
    producer = begun(made)
    request = EndTxnRequest("x", producer.producer_id, producer.producer_epoch, committed=True)
    response = made.ask(request, version)
    expected = (producer.producer_id, 1) if version >= 5 else (-1, -1)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, *expected)
    made.time.advance(1_000)
    assert describe(made).transaction_state == "CompleteCommit"
    assert made.ask(request, version) == response, "the answer was lost"
    request.producer_epoch = 9
    expected_code = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert made.ask(request, version).error_code == expected_code


def test_a_transaction_without_partitions_is_complete_at_once(made: HandlerBroker) -> None:
    producer = init(made)
    request = EndTxnRequest("x", producer.producer_id, producer.producer_epoch, committed=False)
    assert made.ask(request, 4).error_code == ErrorCode.INVALID_TXN_STATE
    response = made.ask(request, 5)
    assert (response.error_code, response.producer_epoch) == (0, 1)
    made.time.advance()
    assert describe(made).transaction_state == "CompleteAbort"
    assert made.ask(request, 5) == response, "the answer was lost"


def test_transactions_outlive_a_restart(made: HandlerBroker) -> None:
    producer = begun(made)
    init(made, "y")
    before = made.ask(DescribeTransactionsRequest(["x", "y", "z"]), 0)
    assert [row.error_code for row in before.transaction_states] == [0, 0, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND]
    made.restart()
    assert made.ask(DescribeTransactionsRequest(["x", "y", "z"]), 0) == before
    assert add(made, producer, {"t": [1]}) == {("t", 1): 0}


def test_an_overdue_transaction_is_aborted(made: HandlerBroker) -> None:
    producer = begun(made)
    made.time.advance(TIMEOUT_MS + 10_000)
    made.time.advance(1_000)
    row = describe(made)
    assert row.transaction_state == "CompleteAbort"
    assert row.producer_epoch > producer.producer_epoch
    assert add(made, producer, {"t": [0]}) == {("t", 0): ErrorCode.PRODUCER_FENCED}


def test_unused_ids_expire(made: HandlerBroker) -> None:
    init(made, "x")
    made.time.advance(7 * 24 * 3_600_000)
    init(made, "y")
    made.time.advance(3_600_000)
    rows = made.ask(ListTransactionsRequest(), 2).transaction_states
    assert [row.transactional_id for row in rows] == ["y"]


@pytest.mark.parametrize("version", range(3))
def test_transactions_are_listed(made: HandlerBroker, version: int) -> None:
    begun(made, "a1")
    producer = init(made, "a2")

    def listed(states: list[str], ids: list[int], **values: Any) -> list[tuple[str, int, str]]:
        response = made.ask(ListTransactionsRequest(states, ids, **values), version)
        return sorted(
            (row.transactional_id, row.producer_id, row.transaction_state) for row in response.transaction_states
        )

    both = listed([], [])
    assert [row[::2] for row in both] == [("a1", "Ongoing"), ("a2", "Empty")]
    assert listed(["Ongoing"], []) == both[:1]
    assert listed([], [producer.producer_id]) == both[1:]
    if version >= 1:
        made.time.advance(50)
        assert listed(["Ongoing"], [], duration_filter=50) == []
        assert listed(["Ongoing"], [], duration_filter=49) == both[:1]
    if version >= 2:
        assert listed([], [], transactional_id_pattern="a[2-9]") == both[1:]
        assert listed([], [], transactional_id_pattern="") == both
        request = ListTransactionsRequest(transactional_id_pattern="(")
        assert made.ask(request, version).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_unknown_states_are_named(made: HandlerBroker) -> None:
    response = made.ask(ListTransactionsRequest(["Ongoing", "Loud", "Loud", "Dead"]), 0)
    assert response.unknown_state_filters == ["Loud"]


def test_the_feature_may_change_while_a_transaction_is_open(made: HandlerBroker) -> None:
    """Its clients go on in the protocol in which they began; no record loses a field."""
    producer = begun(made)
    change = [FeatureUpdateKey(features.TRANSACTION_VERSION, 0, upgrade_type=SAFE_DOWNGRADE)]
    assert made.ask(UpdateFeaturesRequest(feature_updates=change), 2).error_code == ErrorCode.NONE
    request = EndTxnRequest("x", producer.producer_id, producer.producer_epoch, committed=True)
    assert made.ask(request, 5).producer_epoch == 1
    made.restart()
    made.time.advance(1_000)
    assert (describe(made).producer_epoch, describe(made).transaction_state) == (1, "CompleteCommit")
    assert init(made, "y").error_code == ErrorCode.NONE
