"""What a leader checks: here what `test_log` does not reach."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.errors import ErrorCode, KafkaError
from protocol.records.batch import Record, build, iterate, read_header
from storage import validation
from storage.config import LogConfig
from storage.tests.builders import NOW_MS, batch

HOUR_MS = 3_600_000


def refusal(data: memoryview, config: LogConfig, validate: str = "header") -> ErrorCode:
    header = read_header(data)
    try:
        validation.check_header(header, data, config, NOW_MS)
        validation.adapt(header, data, config, NOW_MS, validate)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


@pytest.mark.parametrize(
    "timestamp,settings,code",
    [
        (NOW_MS + HOUR_MS, {}, ErrorCode.NONE),
        (NOW_MS + HOUR_MS + 1, {}, ErrorCode.INVALID_TIMESTAMP),
        (NOW_MS + HOUR_MS + 1, {"message_timestamp_type": "LogAppendTime"}, ErrorCode.NONE),
        (0, {}, ErrorCode.NONE),
        (-1, {"message_timestamp_before_max_ms": 5}, ErrorCode.NONE),
        (NOW_MS - 6, {"message_timestamp_before_max_ms": 5}, ErrorCode.INVALID_TIMESTAMP),
    ],
)
def test_times(timestamp: int, settings: dict[str, Any], code: ErrorCode) -> None:
    assert refusal(batch(timestamp=timestamp), LogConfig(**settings)) is code


def test_the_times_of_all_records_are_looked_at_only_in_full() -> None:
    config = LogConfig(message_timestamp_before_max_ms=5)
    data = memoryview(build([Record(timestamp=NOW_MS), Record(timestamp=NOW_MS - 6)]))
    assert refusal(data, config) is ErrorCode.NONE
    assert refusal(data, config, "full") is ErrorCode.INVALID_TIMESTAMP


def test_log_append_time_from_a_client() -> None:
    data = batch(log_append_time_ms=NOW_MS)
    assert refusal(data, LogConfig()) is ErrorCode.INVALID_TIMESTAMP
    assert refusal(data, LogConfig(message_timestamp_type="LogAppendTime")) is ErrorCode.NONE


def test_recompression_leaves_what_is_right_alone() -> None:
    config = LogConfig(compression_type="gzip")
    data = batch(3, compression=1)
    assert validation.adapt(read_header(data), data, config, NOW_MS, "header") is data
    plain = batch(3)
    packed = validation.adapt(read_header(plain), plain, config, NOW_MS, "header")
    assert read_header(packed).compression == 1
    assert list(iterate(packed)) == list(iterate(plain))
