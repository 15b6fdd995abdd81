"""Records by time, in order and out of it."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records.batch import Record, _seal, build
from protocol.records.compression import GZIP, NONE, ZSTD, finish
from storage.config import LOG_APPEND_TIME, LogConfig
from storage.tests.builders import NOW_MS, append, batch, new_log
from storage.tests.test_log import BOUNDARIES, LOG
from storage.times import MOST_SEGMENTS, RECORDS_AT_ONCE


@given(timestamp=st.integers(NOW_MS - 5, NOW_MS + 905), up_to=st.integers(0, 59))
@settings(max_examples=60, deadline=None)
def test_offset_for_time(timestamp: int, up_to: int) -> None:
    expected = max(0, -(-(timestamp - NOW_MS) // 10))
    found = finish(LOG.offset_for_time(timestamp, BOUNDARIES[up_to]))
    if expected >= BOUNDARIES[up_to]:
        assert found is None
    else:
        assert found == (expected, NOW_MS + 10 * expected, 0)


@given(st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=3), min_size=1, max_size=40), st.integers(0, 51))
@settings(max_examples=40, deadline=None)
def test_times_out_of_order_are_found_exactly(batches: list[list[int]], wanted: int) -> None:
    log = new_log(config=LogConfig(segment_bytes=700, index_interval_bytes=100))
    times: list[int] = []
    for some in batches:
        append(log, memoryview(build([Record(timestamp=time) for time in some])))
        times += some
    found = finish(log.offset_for_time(wanted, log.end_offset))
    expected = next(((offset, time, 0) for offset, time in enumerate(times) if time >= wanted), None)
    assert found == expected
    assert finish(log.max_timestamp(log.end_offset)) == (times.index(max(times)), max(times), 0)


def test_time_lookup_survives_unreadable_records() -> None:
    log = new_log()
    data = bytearray(batch(2))
    data[-30:] = bytes(30)
    _seal(data)
    append(log, memoryview(data))
    assert finish(log.offset_for_time(NOW_MS, log.end_offset)) == (0, NOW_MS, 0)


def lying(*timestamps: int, claim: int, codec: int = NONE) -> memoryview:
    """A batch whose header says that its records are later than they are."""
    data = build([Record(timestamp=timestamp) for timestamp in timestamps], compression=codec)
    struct.pack_into(">q", data, 35, claim)
    _seal(data)
    return memoryview(data)


def test_a_header_that_promises_too_much_is_passed_over() -> None:
    log = new_log(config=LogConfig(segment_bytes=100))
    for number in range(MOST_SEGMENTS - 1):
        append(log, lying(NOW_MS + number, claim=NOW_MS + 1_000))
    append(log, batch(1, timestamp=NOW_MS + 500))
    assert finish(log.offset_for_time(NOW_MS + 500, log.end_offset)) == (MOST_SEGMENTS - 1, NOW_MS + 500, 0)


def test_only_so_many_segments_are_searched() -> None:
    log = new_log(config=LogConfig(segment_bytes=100))
    for _ in range(MOST_SEGMENTS):
        append(log, lying(NOW_MS, claim=NOW_MS + 1_000))
    append(log, batch(1, timestamp=NOW_MS + 500))
    assert len(log.segments) == MOST_SEGMENTS + 1
    assert finish(log.offset_for_time(NOW_MS + 500, log.end_offset)) is None
    assert finish(log.offset_for_time(NOW_MS, log.end_offset)) == (0, NOW_MS, 0)


@pytest.mark.parametrize("codec", [NONE, GZIP, ZSTD])
def test_a_long_search_goes_in_slices(codec: int) -> None:
    """Also where the log is closed meanwhile."""
    log = new_log(config=LogConfig())
    records = 10 * RECORDS_AT_ONCE
    append(log, lying(*[NOW_MS] * records, claim=NOW_MS + 2, codec=codec))
    append(log, batch(1, timestamp=NOW_MS + 1))
    steps = log.offset_for_time(NOW_MS + 1, log.end_offset)
    for _ in range(9):
        next(steps)
    log.close()
    assert finish(steps) == (records, NOW_MS + 1, 0)


@pytest.mark.parametrize("codec", [NONE, ZSTD])
def test_log_append_time_is_that_of_all_records(codec: int) -> None:
    log = new_log()
    append(log, batch(3))
    data = build([Record(timestamp=1), Record(timestamp=2)], compression=codec)
    log.config = LogConfig(message_timestamp_type=LOG_APPEND_TIME)
    log.append(memoryview(data), leader_epoch=0, now_ms=NOW_MS + 100)
    assert finish(log.offset_for_time(NOW_MS + 50, log.end_offset)) == (3, NOW_MS + 100, 0)


def test_what_is_below_the_start_of_the_log_is_not_found() -> None:
    log = new_log()
    append(log, memoryview(build([Record(timestamp=NOW_MS + number) for number in range(4)])))
    log.advance_start(2)
    assert finish(log.offset_for_time(NOW_MS, log.end_offset)) == (2, NOW_MS + 2, 0)


def test_segments_below_the_start_of_the_log_are_not_searched() -> None:
    """They stay until retention comes by, and must not be counted as searched, nor have the newest record."""
    log = new_log(config=LogConfig(segment_bytes=100))
    for _ in range(MOST_SEGMENTS):
        append(log, batch(1, timestamp=NOW_MS + 1_000))
    append(log, batch(1, timestamp=NOW_MS + 500))
    log.advance_start(MOST_SEGMENTS)
    assert len(log.segments) == MOST_SEGMENTS + 1
    expected = (MOST_SEGMENTS, NOW_MS + 500, 0)
    assert finish(log.offset_for_time(NOW_MS, log.end_offset)) == expected
    assert finish(log.max_timestamp(log.end_offset)) == expected
