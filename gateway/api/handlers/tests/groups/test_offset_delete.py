"""OffsetDelete over the wire."""

import pytest

from headgate.gateway.tests.builders import HandlerBroker
from headgate.gateway.tests.requests import commit_request
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)


def delete(node: HandlerBroker, group: str, *indexes: int) -> OffsetDeleteResponse:
    partitions = [OffsetDeleteRequestPartition(index) for index in indexes]
    response = node.ask(OffsetDeleteRequest(group, [OffsetDeleteRequestTopic("t", partitions)]), 0)
    assert isinstance(response, OffsetDeleteResponse)
    return response


def offsets(node: HandlerBroker) -> list[tuple[str, int]]:
    return [place for shard in node.services.groups.shards() for place in shard.offsets.of("g")]


def test_offsets_are_deleted_for_good(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 2)
    node.ask(commit_request("g", {0: 42, 1: 42}), 8)
    response = delete(node, "g", 0, 2)
    assert response.error_code == ErrorCode.NONE
    assert [(row.partition_index, row.error_code) for row in response.topics[0].partitions] == [
        (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (0, ErrorCode.NONE),
    ]
    assert offsets(node) == [("t", 1)]
    node.restart()
    assert offsets(node) == [("t", 1)]


@pytest.mark.parametrize("group, code", [("", ErrorCode.INVALID_GROUP_ID), ("other", ErrorCode.GROUP_ID_NOT_FOUND)])
def test_errors_stand_at_the_top(node: HandlerBroker, group: str, code: ErrorCode) -> None:
    node.services.metadata.create_topic("t", 1)
    response = delete(node, group, 0)
    assert (response.error_code, response.topics) == (code, [])
