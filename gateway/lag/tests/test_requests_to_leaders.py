"""Requests to other leaders: one after another, and none for long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.lag.requests_to_leaders import ANSWER_MS, RequestsToLeaders
from headgate.gateway.lag.tests.surveyed import SurveyedBroker
from headgate.gateway.tests.builders import led_elsewhere
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse

LEADER = 5


@pytest.fixture
def node(tmp_path: Path) -> SurveyedBroker:
    node = SurveyedBroker(tmp_path)
    led_elsewhere(node, LEADER, "t")
    return node


def asked(node: SurveyedBroker, requests: RequestsToLeaders, leader: int = LEADER) -> list[Any]:
    """The answer to a request, once it is there."""
    answers: list[Any] = []
    node.services.tasks.start(requests.ask(leader, ListOffsetsRequest(-1, 0, [])), answers.append)
    node.time.advance()
    return answers


def test_each_request_has_its_answer(node: SurveyedBroker) -> None:
    requests = node.collector.requests
    first, second = asked(node, requests), asked(node, requests)
    answers = [ListOffsetsResponse(throttle_time_ms=number) for number in range(2)]
    for answer in answers:
        node.links.opened[LEADER].answer(answer)
        node.time.advance()
    assert [*first, *second] == answers


def test_a_leader_that_hangs_is_not_waited_for(node: SurveyedBroker) -> None:
    """Nor is it asked, once it is there again, what no survey waits for any more."""
    requests = node.collector.requests
    late = [asked(node, requests) for _ in range(3)]
    node.time.advance(ANSWER_MS)
    assert late == [[None]] * 3
    link = node.links.opened[LEADER]
    link.answer(ListOffsetsResponse())
    node.time.advance()
    assert len(link.asked) == 1
    assert asked(node, requests) == []
    link.answer(KafkaError(ErrorCode.UNSUPPORTED_VERSION))
    assert len(link.asked) == 2


def test_an_unknown_leader_has_no_answer(node: SurveyedBroker) -> None:
    assert asked(node, node.collector.requests, 77) == [None]
