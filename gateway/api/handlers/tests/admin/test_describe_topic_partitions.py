"""DescribeTopicPartitions: pages in order of the names."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.api import authorized_operations
from headgate.gateway.tests.builders import HandlerBroker, refusal
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest

pytestmark = pytest.mark.every_metadata_store


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[HandlerBroker]:
    """Topics a with 2 partitions, b with 3, c with 1; at most 4 on a page."""
    node = HandlerBroker(tmp_path, max_request_partition_size_limit="4")
    for name, count in (("b", 3), ("a", 2), ("c", 1)):
        node.services.metadata.create_topic(name, count)
    yield node
    node.close()


def request(
    names: str = "", limit: int = 2_000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names.split()],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(*cursor),
    )


def page(response: Any) -> tuple[list[tuple[str, list[int]]], tuple[str, int] | None]:
    rows = [(topic.name, [row.partition_index for row in topic.partitions]) for topic in response.topics]
    cursor = response.next_cursor
    return rows, None if cursor is None else (cursor.topic_name, cursor.partition_index)


def test_what_is_told_of_a_topic(filled: HandlerBroker) -> None:
    (topic,) = filled.ask(request("c"), 0).topics
    assert (topic.error_code, topic.topic_id) == (0, filled.services.metadata.image.topics["c"].topic_id)
    assert topic.topic_authorized_operations == authorized_operations.TOPIC
    assert not topic.is_internal
    (row,) = topic.partitions
    assert (row.error_code, row.leader_id, row.leader_epoch, row.replica_nodes, row.isr_nodes) == (0, 0, 0, [0], [0])
    assert (row.eligible_leader_replicas, row.last_known_elr, row.offline_replicas) == ([], [], [])


def test_pages_of_the_brokers_size(filled: HandlerBroker) -> None:
    first = filled.ask(request(), 0)
    assert page(first) == ([("a", [0, 1]), ("b", [0, 1])], ("b", 2))
    assert page(filled.ask(request(cursor=("b", 2)), 0)) == ([("b", [2]), ("c", [0])], None)


def test_pages_of_the_clients_size(filled: HandlerBroker) -> None:
    cursor: tuple[str, int] | None = None
    pages = []
    while True:
        rows, cursor = page(filled.ask(request(limit=2, cursor=cursor), 0))
        pages.append(rows)
        if cursor is None:
            break
    assert pages == [[("a", [0, 1])], [("b", [0, 1])], [("b", [2]), ("c", [0])]]


def test_a_page_has_at_least_one_partition(filled: HandlerBroker) -> None:
    assert page(filled.ask(request("b", limit=-5), 0)) == ([("b", [0])], ("b", 1))


def test_named_topics_come_in_order_and_once(filled: HandlerBroker) -> None:
    assert page(filled.ask(request("c a c"), 0)) == ([("a", [0, 1]), ("c", [0])], None)


def test_a_cursor_whose_topic_is_gone(filled: HandlerBroker) -> None:
    assert page(filled.ask(request(cursor=("bb", 1)), 0)) == ([("c", [0])], None)
    assert page(filled.ask(request(cursor=("c", 7)), 0)) == ([("c", [])], None)


def test_topics_that_are_not_there(filled: HandlerBroker) -> None:
    topics = filled.ask(request("c unknown a/b"), 0).topics
    assert [(topic.name, topic.error_code) for topic in topics] == [
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("c", ErrorCode.NONE),
        ("unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


@pytest.mark.parametrize("wanted", [request("a", cursor=("b", 0)), request(cursor=("a", -1))])
def test_a_cursor_that_cannot_be(filled: HandlerBroker, wanted: DescribeTopicPartitionsRequest) -> None:
    assert refusal(filled, wanted, 0) == ErrorCode.INVALID_REQUEST
