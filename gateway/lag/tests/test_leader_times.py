"""Times of unread records that other leaders tell: rounds, refusals and the bound of one survey."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.lag import leader_times
from headgate.gateway.lag.tests.surveyed import NOW_MS, SurveyedBroker
from headgate.gateway.lag.unread_times import UnreadPosition
from headgate.gateway.tests.builders import led_elsewhere
from headgate.protocol.errors import ErrorCode
from headgate.protocol.lag.measurement import UNKNOWN_TIMESTAMP
from headgate.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from headgate.protocol.records.batch import Record, build

LEADER = 5
ENDS = {UnreadPosition("a", 0, offset): 9 for offset in (3, 5)} | {UnreadPosition("b", 0, 1): 9}


class Asking:
    """Positions that one leader is asked for."""

    def __init__(self, directory: Path, ends: Mapping[UnreadPosition, int]) -> None:
        self.node = SurveyedBroker(directory)
        led_elsewhere(self.node, LEADER, "a", "b")
        self.found: list[Any] = []
        self.answered = 0
        image = self.node.services.metadata.image
        task = leader_times.ask_leaders(self.node.collector.requests, image, {LEADER: ends})
        self.node.services.tasks.start(task, self.found.append)
        self.node.time.advance()

    def answer(self, code: ErrorCode = ErrorCode.NONE, *, by_id: bool = False, is_empty: bool = False) -> None:
        """Answer the present request: each partition has a record at its offset, 100 ms old for each offset."""
        link = self.node.links.opened[LEADER]
        request = link.asked[self.answered]
        self.answered += 1
        assert isinstance(request, FetchRequest)
        topics = []
        for topic in request.topics:
            rows = [
                PartitionData(row.partition, code, 9, records=b"" if is_empty else one_record(row.fetch_offset))
                for row in topic.partitions
            ]
            name, topic_id = ("", topic.topic_id) if by_id else (topic.topic, bytes(16))
            topics.append(FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=rows))
        link.answer(FetchResponse(responses=topics))
        self.node.time.advance()


def one_record(offset: int) -> bytes:
    return bytes(build([Record(timestamp=NOW_MS - 100 * offset)], base_offset=offset))


@pytest.mark.parametrize("by_id", [False, True])
def test_each_position_of_a_partition_takes_a_round(tmp_path: Path, *, by_id: bool) -> None:
    asking = Asking(tmp_path, ENDS)
    asking.answer(by_id=by_id)
    asking.answer(by_id=by_id)
    assert asking.found == [{position: NOW_MS - 100 * position.offset for position in ENDS}]


def test_a_refused_partition_is_missing(tmp_path: Path) -> None:
    asking = Asking(tmp_path, {UnreadPosition("a", 0, 3): 9})
    asking.answer(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert asking.found == [{}]


def test_a_deleted_record_has_no_known_time(tmp_path: Path) -> None:
    asking = Asking(tmp_path, {UnreadPosition("a", 0, 3): 9})
    asking.answer(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert asking.found == [{UnreadPosition("a", 0, 3): UNKNOWN_TIMESTAMP}]


def test_a_silent_leader_ends_its_rounds(tmp_path: Path) -> None:
    asking = Asking(tmp_path, ENDS)
    asking.answer()
    asking.node.time.advance(1_000)
    (found,) = asking.found
    assert len(found) == 2
    assert len(asking.node.links.opened[LEADER].asked) == 2


def test_a_survey_has_a_limited_number_of_rounds(tmp_path: Path) -> None:
    ends = {UnreadPosition("a", 0, offset): 99 for offset in range(leader_times.ROUNDS + 5)}
    asking = Asking(tmp_path, ends)
    for _ in range(leader_times.ROUNDS):
        asking.answer()
    (found,) = asking.found
    assert len(found) == leader_times.ROUNDS
