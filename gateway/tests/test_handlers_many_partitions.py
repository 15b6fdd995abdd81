"""Requests that name more partitions than a turn of the loop has time for: refused, with few words."""

from typing import Any

import pytest

from gateway.handlers import each
from gateway.handlers.each import MOST_ROWS, first_rows, is_too_many
from gateway.tests.builders import Node
from protocol.errors import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from protocol.messages.elect_leaders import PREFERRED, ElectLeadersRequest, TopicPartitions

Rows = list[tuple[int, int]]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three are many."""
    monkeypatch.setattr(each, "MOST_ROWS", 3)


def elect(node: Node, version: int, *topics: list[int]) -> tuple[int, list[Rows]]:
    named = [TopicPartitions("t", partitions) for partitions in topics]
    response = node.ask(ElectLeadersRequest(PREFERRED, named), version)
    results = response.replica_election_results
    return response.error_code, [
        [(row.partition_id, row.error_code) for row in one.partition_result] for one in results
    ]


@pytest.mark.parametrize("version", range(3))
def test_elections(node: Node, version: int) -> None:
    needless, refused = ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.INVALID_REQUEST
    node.services.metadata.create_topic("t", 3)
    assert elect(node, version, [0, 1], [2]) == (0, [[(0, needless), (1, needless)], [(2, needless)]])
    code, rows = elect(node, version, [0, 1], [2, 0, 0], [1])
    assert code == (refused if version else ErrorCode.NONE)
    assert rows == [[(0, refused), (1, refused)], [(2, refused)]]


def test_producers(node: Node) -> None:
    def ask(*topics: TopicRequest) -> list[tuple[str, Rows]]:
        found = node.ask(DescribeProducersRequest(list(topics)), 0).topics
        return [(topic.name, [(row.partition_index, row.error_code) for row in topic.partitions]) for topic in found]

    refused = ErrorCode.INVALID_REQUEST
    node.services.metadata.create_topic("t", 3)
    assert ask(TopicRequest("t", [0, 1, 2] * 9)) == [("t", [(0, 0), (1, 0), (2, 0)])]
    expected = [("t", [(0, refused), (1, refused)]), ("u", [(7, refused)])]
    assert ask(TopicRequest("t", [0, 1]), TopicRequest("u", [7, 8]), TopicRequest("v", [0])) == expected


@pytest.mark.parametrize("version", range(2))
def test_reassignments(node: Node, version: int) -> None:
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
        assert answer.error_message == f"a request may name {MOST_ROWS} partitions at most"


def test_topics_without_partitions_count_too() -> None:
    assert not is_too_many([0, 0, 1])
    assert is_too_many([0, 0, 0, 0])
    assert list(first_rows([("t", [])] * 5)) == [("t", [])] * 3
