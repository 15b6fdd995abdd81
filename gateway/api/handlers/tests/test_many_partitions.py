"""Requests that name many partitions: answered in steps, or refused where one row may be many."""

from typing import Any

import pytest

from headgate.gateway.api.handlers import each
from headgate.gateway.api.handlers.each import MAX_ROWS, exceeds_max_rows
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headgate.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from headgate.protocol.messages.elect_leaders import PREFERRED, ElectLeadersRequest, TopicPartitions

pytestmark = pytest.mark.every_metadata_store


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three are many."""
    monkeypatch.setattr(each, "MAX_ROWS", 3)


@pytest.mark.parametrize("version", range(3))
def test_elections(node: HandlerBroker, version: int) -> None:
    node.services.metadata.create_topic("t", 3)
    named = [TopicPartitions("t", [0, 1]), TopicPartitions("t", [2, 0, 0] * 100), TopicPartitions("t", [1])]
    response = node.ask(ElectLeadersRequest(PREFERRED, named), version)
    told = [[row.partition_id for row in one.partition_result] for one in response.replica_election_results]
    assert told == [[0, 1], [2, 0, 0] * 100, [1]]
    codes = {row.error_code for one in response.replica_election_results for row in one.partition_result}
    assert codes == {ErrorCode.ELECTION_NOT_NEEDED}


def test_producers(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 3)
    asked = DescribeProducersRequest([TopicRequest("t", [0, 1, 2] * 9), TopicRequest("u", list(range(100)))])
    told = [
        (topic.name, [(row.partition_index, row.error_code) for row in topic.partitions])
        for topic in node.ask(asked, 0).topics
    ]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert told == [("t", [(0, 0), (1, 0), (2, 0)]), ("u", [(index, unknown) for index in range(100)])]


@pytest.mark.parametrize("version", range(2))
def test_reassignments(node: HandlerBroker, version: int) -> None:
    def ask(*partitions: ReassignablePartition) -> Any:
        topics = [ReassignableTopic("t", list(partitions))]
        return node.ask(AlterPartitionReassignmentsRequest(topics=topics), version)

    node.services.metadata.create_topic("t", 4)
    answer = ask(*(ReassignablePartition(index, None) for index in range(3)))
    codes = [row.error_code for row in answer.responses[0].partitions]
    assert (answer.error_code, codes) == (0, [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS] * 3)
    for many in [ReassignablePartition(index, None) for index in range(4)], [ReassignablePartition(0, [1, 2, 3, 4])]:
        answer = ask(*many)
        assert (answer.error_code, answer.responses) == (ErrorCode.INVALID_REQUEST, [])
        assert answer.error_message == f"a request may name at most {MAX_ROWS} partitions"


def test_topics_without_partitions_count_too() -> None:
    assert not exceeds_max_rows([0, 0, 1])
    assert exceeds_max_rows([0, 0, 0, 0])
