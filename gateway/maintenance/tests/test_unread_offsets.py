"""Unread offsets: requests to coordinators on other brokers, and the offsets in their answers."""

from __future__ import annotations

from collections import deque

from headgate.gateway.maintenance.unread_offsets import OffsetQuestion, OffsetQuestions
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)


def test_a_request_has_all_groups_and_each_gets_its_offset() -> None:
    found: list[int | KafkaError] = []
    asked = (("g", "t", 0), ("h", "t", 0), ("g", "t", 1), ("x", "t", 0))
    queue = deque(OffsetQuestion(*question, found.append) for question in asked)
    request = OffsetQuestions().take(queue)
    assert request is not None
    rows = {
        group.group_id: {topic.name: topic.partition_indexes for topic in group.topics or ()}
        for group in request[0].groups  # type: ignore[attr-defined]
    }
    assert rows == {"g": {"t": [0, 1]}, "h": {"t": [0]}, "x": {"t": [0]}}
    assert OffsetQuestions().take(queue) is None

    def group(group_id: str, *offsets: int, code: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponseGroup:
        partitions = [OffsetFetchResponsePartitions(index, offset) for index, offset in enumerate(offsets)]
        return OffsetFetchResponseGroup(group_id, [OffsetFetchResponseTopics("t", partitions=partitions)], code)

    groups = [group("g", 7, 8), group("h", -1), group("x", 3, code=ErrorCode.NOT_COORDINATOR)]
    OffsetQuestions().end(request[1], OffsetFetchResponse(groups=groups))
    assert found[:3] == [7, -1, 8]
    assert isinstance(found[3], KafkaError)


def test_a_lost_request_has_no_offset() -> None:
    found: list[int | KafkaError] = []
    questions = [OffsetQuestion("g", "t", 0, found.append)]
    OffsetQuestions().end(questions, KafkaError(ErrorCode.NETWORK_EXCEPTION))
    (error,) = found
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.NETWORK_EXCEPTION
