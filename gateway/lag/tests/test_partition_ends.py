"""Starts and ends of partitions, led here and elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.gateway.lag.tests.surveyed import SurveyedBroker, row_of
from headgate.gateway.tests.builders import NOW_MS, add_follower, led_elsewhere, records
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from headgate.protocol.messages.list_offsets import (
    EARLIEST,
    LATEST,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headgate.protocol.records.batch import Record, build

LEADER = 5


@pytest.fixture
def node(tmp_path: Path) -> SurveyedBroker:
    return SurveyedBroker(tmp_path)


def tell(node: SurveyedBroker, offset: int, code: ErrorCode = ErrorCode.NONE) -> None:
    row = ListOffsetsPartitionResponse(0, code, [], -1, -1 if code else offset)
    node.links.opened[LEADER].answer(ListOffsetsResponse(topics=[ListOffsetsTopicResponse("away", [row])]))
    node.time.advance()


def begin(node: SurveyedBroker) -> None:
    led_elsewhere(node, LEADER, "away")
    node.commit("g", {0: 4}, "away")
    node.collector.start()
    node.time.advance()


def test_the_end_is_the_high_watermark(node: SurveyedBroker) -> None:
    """Records that a follower lacks are not unread."""
    node.services.metadata.create_topic("t", 1)
    node.time.advance()
    replica = node.services.partitions.get("t", 0)
    node.produce(1_000)
    add_follower(replica)
    replica.append(records(b"v"), 1, NOW_MS)
    node.commit("g", {0: 0})
    assert (replica.log.end_offset, row_of(node.present(), "g").end) == (2, 1)


def test_another_leader_tells_ends_and_times(node: SurveyedBroker) -> None:
    begin(node)
    link = node.links.opened[LEADER]
    tell(node, 8)
    tell(node, 9)
    tell(node, 2)
    assert [request.topics[0].partitions[0].timestamp for request in link.asked[:3]] == [LATEST, LATEST, EARLIEST]
    request = link.asked[3]
    assert isinstance(request, FetchRequest)
    assert (request.topics[0].topic, request.topics[0].partitions[0].fetch_offset) == ("away", 4)
    assert request.topics[0].topic_id == node.services.metadata.image.topics["away"].topic_id
    batch = build([Record(timestamp=node.time.clock.now_ms() - 700)], base_offset=5)
    row = PartitionData(0, 0, 9, records=bytes(batch))
    link.answer(FetchResponse(responses=[FetchableTopicResponse(topic="away", partitions=[row])]))
    node.time.advance()
    found = row_of(node.present(), "g", "away")
    assert found[3:8] == (2, 9, 5, 0.7, "ok")
    assert found.stable_end == 8
    assert found.leader == LEADER


def test_a_known_time_is_not_asked_for_again(node: SurveyedBroker) -> None:
    test_another_leader_tells_ends_and_times(node)
    node.time.advance(1_000)
    tell(node, 10)
    tell(node, 10)
    tell(node, 2)
    assert row_of(node.present(), "g", "away")[3:7] == (2, 10, 6, 1.7)
    assert [type(request) for request in node.links.opened[LEADER].asked[4:]] == [ListOffsetsRequest] * 3


def test_a_leader_without_an_answer_leaves_lag_unknown(node: SurveyedBroker) -> None:
    begin(node)
    node.time.advance(1_000)
    row = row_of(node.present(), "g", "away")
    assert (row.records, row.seconds, row.status, row.verdict) == (None, None, "unknown", None)


def test_a_refusal_of_the_leader_leaves_lag_unknown(node: SurveyedBroker) -> None:
    begin(node)
    tell(node, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    tell(node, 2)
    assert row_of(node.present(), "g", "away").status == "unknown"
