"""An error is the value of its partition, and stops no other."""

import logging

import pytest

from gateway.handlers.each import each
from protocol.errors import ErrorCode, KafkaError


def test_every_partition_has_its_row(caplog: pytest.LogCaptureFixture) -> None:
    def answer(number: int) -> str:
        if number == 1:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another is")
        if number == 2:
            raise OSError(28, "No space left on device")
        return f"{number} is fine"

    with caplog.at_level(logging.CRITICAL):
        rows = each([0, 1, 2, 3], answer, lambda number, code, message: f"{number} {code.name}: {message}")
    assert rows == [
        "0 is fine",
        "1 NOT_LEADER_OR_FOLLOWER: another is",
        "2 KAFKA_STORAGE_ERROR: the store failed: No space left on device",
        "3 is fine",
    ]


def test_why_the_store_refuses_stands_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    refusals = [
        KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another is"),
        KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk of t-0 refuses: no space"),
    ]

    def answer(error: KafkaError) -> None:
        raise error

    each(refusals, answer, lambda error, code, message: None)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("ERROR", "refused to a client: the disk of t-0 refuses: no space")
    ]


def test_a_fault_of_ours_is_no_value() -> None:
    with pytest.raises(ZeroDivisionError):
        each([0], lambda number: 1 // number, lambda number, code, message: 0)
