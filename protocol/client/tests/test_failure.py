"""Errors ask for a repetition, for another broker, or for nothing, as in Kafka's clients."""

from __future__ import annotations

from headgate.protocol.client.failure import Failure, Recovery
from headgate.protocol.errors import ErrorCode

# The classes below RefreshRetriableException in Kafka 4.1's clients, by code
REFRESHING = {3, 5, 6, 9, 13, 15, 16, 56, 72, 74, 80, 83, 84, 100, 103}
NO_BROKER, NOT_CONTROLLER = 0, 41


def test_recovery_is_that_of_kafkas_clients() -> None:
    for code in ErrorCode:
        expected = Recovery.AGAIN if code.retriable else Recovery.NEVER
        if code in REFRESHING | {NO_BROKER, NOT_CONTROLLER}:
            expected = Recovery.ELSEWHERE
        assert Failure.of(code).recovery is expected, code.name


def test_an_unknown_error_is_never_repeated() -> None:
    assert Failure.of(9999).recovery is Recovery.NEVER


def test_an_error_code_becomes_a_sentence() -> None:
    assert Failure.of(ErrorCode.NON_EMPTY_GROUP).text == "The group is not empty (NON_EMPTY_GROUP)"
    assert Failure.of(ErrorCode.NON_EMPTY_GROUP, "it has two members").text == "it has two members (NON_EMPTY_GROUP)"
    assert Failure.of(9999).text == "error 9999"
    assert Failure.of(9999, "what is new").text == "what is new"
