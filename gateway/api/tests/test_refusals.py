"""The errors of rows: what a client gets, what the log has, and what is counted."""

from collections import Counter

import pytest

from headgate.gateway.api.refusals import known_code, refusal
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.errors import ErrorCode, KafkaError


def test_a_kafka_error_goes_to_the_client_as_it_is(node: HandlerBroker, caplog: pytest.LogCaptureFixture) -> None:
    error = KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "no")
    assert refusal(node.services, error) == (ErrorCode.INVALID_TOPIC_EXCEPTION, "no")
    assert caplog.messages == []
    assert node.services.refusals == Counter({ErrorCode.INVALID_TOPIC_EXCEPTION: 1})


@pytest.mark.parametrize(
    "error, message",
    [
        (OSError(5, "Input/output error"), "the store failed (t-3)"),
        (KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "offline"), "storage error for a client (t-3): offline"),
    ],
)
def test_the_log_has_the_reason_for_a_storage_error(
    node: HandlerBroker, error: KafkaError | OSError, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert refusal(node.services, error, "t", 3)[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert caplog.messages == [message]
    assert node.services.refusals == Counter({ErrorCode.KAFKA_STORAGE_ERROR: 1})


def test_a_client_that_knows_no_storage_error_retries() -> None:
    assert known_code(ErrorCode.KAFKA_STORAGE_ERROR, 5, 6) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert known_code(ErrorCode.KAFKA_STORAGE_ERROR, 6, 6) == ErrorCode.KAFKA_STORAGE_ERROR
    assert known_code(ErrorCode.UNKNOWN_TOPIC_ID, 5, 6) == ErrorCode.UNKNOWN_TOPIC_ID
