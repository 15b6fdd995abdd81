"""New topics, new partitions and deleted records, each at the broker that is responsible."""

from __future__ import annotations

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.create_partitions import CreatePartitionsRequest
from headgate.protocol.messages.create_topics import CreatableTopic, CreatableTopicResult, CreateTopicsRequest
from headgate.protocol.messages.delete_records import TO_HIGH_WATERMARK, DeleteRecordsRequest
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.tests.model_cluster import Log, ModelCluster, opened
from headgate.tools.tests.model_topics import ModelChanges
from headgate.tools.topic_changes import add_partitions, create_topic, delete_records

ORDERS = CreatableTopic(name="orders", num_partitions=-1, replication_factor=-1)


def test_the_controller_creates_a_topic(model: ModelCluster) -> None:
    ModelChanges(model)
    model.controller = 2
    with opened() as cluster:
        tried = create_topic(cluster, ORDERS, validate_only=True)
        assert "orders" not in model.topics
        made = create_topic(cluster, ORDERS)
        again = create_topic(cluster, ORDERS)
    assert isinstance(tried, CreatableTopicResult)
    assert isinstance(made, CreatableTopicResult)
    assert (tried.num_partitions, tried.replication_factor) == (4, 3)
    assert len(model.topics["orders"]) == 4
    assert again == Failure.of(ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'orders' already exists.")
    assert {node for node, request, _ in model.asked if isinstance(request, CreateTopicsRequest)} == {2}


def test_brokers_before_kafka_2_4_need_numbers(model: ModelCluster) -> None:
    ModelChanges(model)
    model.served[CreateTopicsRequest] = (0, 3)
    with opened() as cluster:
        refused = create_topic(cluster, ORDERS, validate_only=True)
        made = create_topic(cluster, CreatableTopic(name="orders", num_partitions=2, replication_factor=1))
    assert isinstance(refused, Failure)
    assert "older than Kafka 2.4" in refused.text
    assert isinstance(made, CreatableTopicResult)
    assert len(model.topics["orders"]) == 2


def test_partitions_are_added_once_and_only_in_earnest(model: ModelCluster) -> None:
    ModelChanges(model)
    model.controller = 1
    model.topics["orders"] = [Log()]
    with opened() as cluster:
        assert add_partitions(cluster, "orders", 3, validate_only=True) is None
        assert len(model.topics["orders"]) == 1
        assert add_partitions(cluster, "orders", 3) is None
        refused = add_partitions(cluster, "orders", 101)
    assert len(model.topics["orders"]) == 3
    assert refused == Failure.of(ErrorCode.INVALID_PARTITIONS, "no more than 100 partitions")


def test_a_broker_without_the_api_says_since_when(model: ModelCluster) -> None:
    ModelChanges(model)
    model.topics["orders"] = [Log()]
    model.unserved = {CreatePartitionsRequest, DeleteRecordsRequest}
    with opened() as cluster:
        refused = add_partitions(cluster, "orders", 3)
        _, failed = delete_records(cluster, {TopicPartition("orders", 0): 1})
    assert refused is not None
    assert "since 1.0" in refused.text
    assert "since 0.11" in failed[TopicPartition("orders", 0)].text


def test_each_leader_deletes_its_records(model: ModelCluster) -> None:
    ModelChanges(model)
    model.topics["orders"] = [Log(leader=0, end=9), Log(leader=1, end=5), Log(leader=2, end=7)]
    first, second = TopicPartition("orders", 0), TopicPartition("orders", 1)
    with opened() as cluster:
        found, failed = delete_records(cluster, {first: 4, second: TO_HIGH_WATERMARK})
    assert (found, failed) == ({first: 4, second: 5}, {})
    assert [log.start for log in model.topics["orders"]] == [4, 5, 0]
