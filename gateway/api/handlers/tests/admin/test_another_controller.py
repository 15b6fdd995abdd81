"""Requests that only the controller serves, at another broker: where clients find NOT_CONTROLLER in the response."""

import pytest

from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from headgate.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from headgate.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headgate.protocol.messages.describe_cluster import DescribeClusterRequest
from headgate.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from headgate.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from headgate.protocol.messages.metadata import MetadataRequest

NOT_CONTROLLER = ErrorCode.NOT_CONTROLLER


@pytest.fixture(autouse=True)
def _another_controller(node: HandlerBroker) -> None:
    """Broker 5 is the controller. The topic `t` exists, which `u` does not."""
    metadata = node.services.metadata
    metadata.create_topic("t", 1)
    metadata.image = metadata.image._replace(controller_id=5)


@pytest.mark.parametrize("version", [0, 1, 7])
def test_topics_are_created_by_the_controller(node: HandlerBroker, version: int) -> None:
    topics = [CreatableTopic(name, 1, 1) for name in ("t", "u")]
    response = node.ask(CreateTopicsRequest(topics=topics, timeout_ms=60_000, validate_only=version > 0), version)
    assert [(row.name, row.error_code) for row in response.topics] == [("t", NOT_CONTROLLER), ("u", NOT_CONTROLLER)]
    assert version < 1 or response.topics[0].error_message == (
        "This is not the controller of the cluster. Broker 0 is not the controller, broker 5 is: ask that one"
    )


@pytest.mark.parametrize("version", [0, 5, 6])
def test_topics_are_deleted_by_the_controller(node: HandlerBroker, version: int) -> None:
    states = [DeleteTopicState(name="t"), DeleteTopicState(name="u")]
    response = node.ask(DeleteTopicsRequest(topics=states, topic_names=["t", "u"], timeout_ms=60_000), version)
    assert [(row.name, row.error_code) for row in response.responses] == [("t", NOT_CONTROLLER), ("u", NOT_CONTROLLER)]


@pytest.mark.parametrize("version", [0, 3])
def test_partitions_are_added_by_the_controller(node: HandlerBroker, version: int) -> None:
    topics = [CreatePartitionsTopic(name, 3, None) for name in ("t", "u", "__consumer_offsets")]
    response = node.ask(CreatePartitionsRequest(topics=topics, timeout_ms=60_000), version)
    assert [row.error_code for row in response.results] == [NOT_CONTROLLER] * 3


@pytest.mark.parametrize("version", [0, 1, 2])
def test_leaders_are_elected_by_the_controller(node: HandlerBroker, version: int) -> None:
    response = node.ask(ElectLeadersRequest(topic_partitions=[TopicPartitions("t", [0, 1])]), version)
    (topic,) = response.replica_election_results
    assert [row.error_code for row in topic.partition_result] == [NOT_CONTROLLER] * 2
    assert response.error_code == ErrorCode.NONE
    if version:
        assert node.ask(ElectLeadersRequest(topic_partitions=None), version).error_code == NOT_CONTROLLER


def test_reassignments_belong_to_the_controller(node: HandlerBroker) -> None:
    """The error is at the top: stock clients look there."""
    assert node.ask(AlterPartitionReassignmentsRequest(), 0).error_code == NOT_CONTROLLER
    assert node.ask(ListPartitionReassignmentsRequest(topics=None), 0).error_code == NOT_CONTROLLER


def test_any_broker_changes_configs_and_names_the_controller(node: HandlerBroker) -> None:
    resource = AlterConfigsResource(2, "t", [AlterableConfig("retention.ms", "5")])
    assert node.ask(AlterConfigsRequest(resources=[resource]), 2).responses[0].error_code == ErrorCode.NONE
    assert node.ask(MetadataRequest(topics=None), 9).controller_id == 5
    assert node.ask(DescribeClusterRequest(), 1).controller_id == 5
