"""Error codes, against kio's, and the two exceptions."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from headgate.protocol.errors import MAX_MESSAGE_LENGTH, ErrorCode, KafkaError


@pytest.mark.parametrize("theirs", KioErrorCode, ids=lambda code: str(code.name))
def test_codes_equal_kios(theirs: KioErrorCode) -> None:
    ours = ErrorCode(theirs.value)
    assert ours.name.lower() == theirs.name
    assert ours.retriable == theirs.retriable


def test_codes_have_no_gap_and_each_has_a_message() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, len(ErrorCode) - 1))
    assert all(code.message.endswith(".") for code in ErrorCode if code is not ErrorCode.NONE)


def test_a_kafka_error_names_its_code() -> None:
    assert str(KafkaError(ErrorCode.INVALID_PARTITIONS)) == "INVALID_PARTITIONS: The number of partitions is invalid."
    error = KafkaError(ErrorCode.INVALID_PARTITIONS, "-3 partitions for t")
    assert (error.code, error.message) == (ErrorCode.INVALID_PARTITIONS, "-3 partitions for t")
    assert str(error) == "INVALID_PARTITIONS: -3 partitions for t"


def test_a_long_message_is_cut() -> None:
    error = KafkaError(ErrorCode.INVALID_REQUEST, "x" * 40_000)
    assert len(error.message) == MAX_MESSAGE_LENGTH
    assert error.message.endswith("...")
