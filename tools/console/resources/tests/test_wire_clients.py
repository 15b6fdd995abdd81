"""Clients that any Kafka knows by its wire: members of groups, and producers of partitions."""

from __future__ import annotations

import pytest

from headgate.protocol.messages.describe_producers import DescribeProducersRequest, ProducerState
from headgate.protocol.messages.list_transactions import ListTransactionsRequest
from headgate.tools.console.resources import wire_clients
from headgate.tools.console.resources.missing_parts import MissingParts
from headgate.tools.console.resources.wire_clients import member_rows, producer_rows
from headgate.tools.tests.model_cluster import Log, ModelCluster, ModelGroup, ModelMember, ModelTransaction, opened


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> ModelCluster:
    model = ModelCluster()
    monkeypatch.setattr("socket.create_connection", model.connect)
    return model


def test_members_come_with_their_topics(model: ModelCluster) -> None:
    model.topics["orders"]
    model.groups = {
        "billing": ModelGroup("Stable", members=[ModelMember("m-1", {"orders": [0, 1], "audit": [0]}, "static")]),
        "empty": ModelGroup("Empty"),
        "new": ModelGroup("Stable", type="consumer", members=[ModelMember("m-2", {"orders": [2]})]),
    }
    missing = MissingParts()
    with opened() as cluster:
        first, second = member_rows(cluster, missing)
    assert first == {
        "group": "billing",
        "group_type": "classic",
        "group_state": "Stable",
        "member_id": "m-1",
        "instance_id": "static",
        "client_id": "app",
        "address": "10.0.0.1",
        "topics": ["audit", "orders"],
        "partitions": 3,
    }
    assert (second["group"], second["group_type"], second["topics"]) == ("new", "consumer", ["orders"])
    assert missing == {}


def test_a_producer_has_one_row_with_all_its_topics(model: ModelCluster) -> None:
    for topic, timestamp in (("orders", 5), ("audit", 9)):
        model.topics[topic].append(log := Log())
        log.producers.append(ProducerState(7, 2, 4, timestamp, -1, 12 if topic == "audit" else -1))
    model.topics["orders"][0].producers.append(ProducerState(8, 0, 0, -1, -1, -1))
    model.transactions = {"payments": ModelTransaction(producer_id=7)}
    missing = MissingParts()
    with opened() as cluster:
        transactional, other = producer_rows(cluster, missing)
    assert transactional == {
        "producer_id": 7,
        "producer_epoch": 2,
        "transactional_id": "payments",
        "is_in_transaction": True,
        "topics": ["audit", "orders"],
        "partitions": 2,
        "last_timestamp_ms": 9,
    }
    assert (other["producer_id"], other["transactional_id"], other["last_timestamp_ms"]) == (8, None, None)
    assert missing == {}


def test_older_brokers_are_the_reason(model: ModelCluster) -> None:
    model.unserved = {ListTransactionsRequest}
    missing = MissingParts()
    with opened() as cluster:
        assert producer_rows(cluster, missing) == []
    assert "from Kafka 3.0 on" in missing["transactional_ids"]
    model.unserved = {DescribeProducersRequest}
    with opened() as cluster:
        assert producer_rows(cluster, missing) == []
    assert "from Kafka 2.8 on" in missing["producers"]


def test_producers_of_some_partitions_are_said_to_be_some(model: ModelCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_clients, "MAX_PARTITIONS", 1)
    model.topics["orders"] += [Log(), Log()]
    missing = MissingParts()
    with opened() as cluster:
        producer_rows(cluster, missing)
    assert missing["producers"] == "the producers of 1 partitions are shown, of 2 in all"
