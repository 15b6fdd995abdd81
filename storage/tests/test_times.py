"""Records by time, in order and out of it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records.batch import Record, _seal, build
from storage.config import LogConfig
from storage.tests.builders import NOW_MS, append, batch, new_log
from storage.tests.test_log import BOUNDARIES, LOG


@given(timestamp=st.integers(NOW_MS - 5, NOW_MS + 905), up_to=st.integers(0, 59))
@settings(max_examples=60, deadline=None)
def test_offset_for_time(timestamp: int, up_to: int) -> None:
    expected = max(0, -(-(timestamp - NOW_MS) // 10))
    found = LOG.offset_for_time(timestamp, BOUNDARIES[up_to])
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
    found = log.offset_for_time(wanted, log.end_offset)
    expected = next(((offset, time, 0) for offset, time in enumerate(times) if time >= wanted), None)
    assert found == expected
    assert log.max_timestamp(log.end_offset) == (times.index(max(times)), max(times), 0)


def test_time_lookup_survives_unreadable_records() -> None:
    log = new_log()
    data = bytearray(batch(2))
    data[-30:] = bytes(30)
    _seal(data)
    append(log, memoryview(data))
    assert log.offset_for_time(NOW_MS, log.end_offset) == (0, NOW_MS, 0)
