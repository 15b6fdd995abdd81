"""The elections of one request, and its reply."""

from __future__ import annotations

from headgate.gateway.controller.election_requests import ElectionRequest
from headgate.gateway.controller.tests.clusters import T0, state
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.elect_leaders import PREFERRED, UNCLEAN
from headgate.protocol.topic_partition import TopicPartition

T1, NO_STOPS = TopicPartition("t", 1), frozenset[int]()


def codes(request: ElectionRequest) -> list[int]:
    return [row.error_code for topic in request.response().replica_election_results for row in topic.partition_result]


def test_an_election_is_done_when_its_leader_is_stored() -> None:
    request = ElectionRequest("ticket", PREFERRED, [T0])
    wanted = request.evaluate(T0, state(2, (1, 2)), (1, 2), NO_STOPS)
    assert wanted == state(1, (1, 2), epoch=1)
    assert request.waiting == {T0}
    assert request.evaluate(T0, wanted, (1, 2), NO_STOPS) is None
    assert not request.waiting
    assert codes(request) == [ErrorCode.NONE]


def test_an_election_that_was_overtaken_is_tried_again() -> None:
    request = ElectionRequest("ticket", UNCLEAN, [T0])
    for epoch in 0, 1:
        wanted = request.evaluate(T0, state(-1, (3,), epoch=epoch), (1, 2), NO_STOPS)
        assert wanted == state(1, (1,), epoch=epoch + 1)


def test_a_request_for_all_omits_what_stayed() -> None:
    for names_all, shown in (True, [ErrorCode.INVALID_TOPIC_EXCEPTION]), (False, [84, 17]):
        request = ElectionRequest("ticket", PREFERRED, [T0, T1], names_all=names_all)
        request.finish(T1, KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted"))
        request.evaluate(T0, state(1, (1, 2)), (1, 2), NO_STOPS)
        assert codes(request) == shown
