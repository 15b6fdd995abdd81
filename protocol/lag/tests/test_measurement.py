"""Lag: the definition, at every edge of a partition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.protocol.lag.measurement import (
    UNKNOWN_TIMESTAMP,
    Lag,
    OffsetStatus,
    first_unread,
    measure,
    offset_status,
)

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    "committed, oldest_unread_ms, expected",
    [
        (20, NOW_MS - 1500, Lag(80, 1.5, OffsetStatus.OK)),
        (10, NOW_MS - 9000, Lag(90, 9.0, OffsetStatus.OK)),  # the first offset there is
        (100, None, Lag(0, 0.0, OffsetStatus.OK)),  # everything is read, however old the last record is
        (100, NOW_MS - 9000, Lag(0, 0.0, OffsetStatus.OK)),
        (95, None, Lag(5, 0.0, OffsetStatus.OK)),  # only gaps and markers are left
        (95, UNKNOWN_TIMESTAMP, Lag(5, None, OffsetStatus.OK)),
        (95, NOW_MS + 60_000, Lag(5, 0.0, OffsetStatus.OK)),  # a producer's clock is ahead
        (4, NOW_MS - 9000, Lag(96, 9.0, OffsetStatus.BELOW_START)),
        (101, None, Lag(0, 0.0, OffsetStatus.BEYOND_END)),
        (None, None, Lag(None, None, OffsetStatus.NO_OFFSET)),
        (-1, NOW_MS, Lag(None, None, OffsetStatus.NO_OFFSET)),
    ],
)
def test_of_a_partition_from_10_to_100(committed: int | None, oldest_unread_ms: int | None, expected: Lag) -> None:
    assert measure(committed, 10, 100, oldest_unread_ms, NOW_MS) == expected


@pytest.mark.parametrize("committed", [0, None])
def test_of_an_empty_partition(committed: int | None) -> None:
    assert first_unread(committed, 0, 0) is None
    expected = Lag(None, None, OffsetStatus.NO_OFFSET) if committed is None else Lag(0, 0.0, OffsetStatus.OK)
    assert measure(committed, 0, 0, None, NOW_MS) == expected


def test_of_a_partition_that_was_emptied() -> None:
    """Retention took everything: what was not read is out of range, and there is nothing whose age could be told."""
    assert first_unread(4, 10, 10) is None
    assert measure(4, 10, 10, None, NOW_MS) == Lag(6, 0.0, OffsetStatus.BELOW_START)


@pytest.mark.parametrize(
    "committed, expected", [(20, 20), (10, 10), (4, 10), (99, 99), (100, None), (101, None), (None, None), (-1, None)]
)
def test_where_the_oldest_unread_record_is_looked_for(committed: int | None, expected: int | None) -> None:
    assert first_unread(committed, 10, 100) == expected


@given(st.integers(-1, 50), st.integers(0, 40), st.integers(0, 40), st.integers(-1, 2000))
def test_there_is_something_to_read_exactly_below_the_end(
    committed: int, start: int, length: int, oldest_unread_ms: int
) -> None:
    end = start + length
    unread = first_unread(committed, start, end)
    lag = measure(committed, start, end, None if unread is None else oldest_unread_ms, 1000)
    assert (unread is not None) == (0 <= committed < end and length > 0)
    assert lag.status is offset_status(committed, start, end)
    assert (lag.records is None) == (committed < 0)
    assert lag.seconds is None or 0 <= lag.seconds <= 1
    if unread is not None:
        assert start <= unread < end
        assert (lag.seconds is None) == (oldest_unread_ms < 0)
