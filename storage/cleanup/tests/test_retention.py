"""What may be deleted: by time, by size, behind the start; never above the high watermark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.storage.cleanup.retention import Expirable, Hold, expired

# Ends at 10, 20, 30, 40; 100 bytes each; the highest timestamps are 1000, 2000, 3000, 4000
SEGMENTS = [Expirable(10 * number, 100, 1000 * number) for number in range(1, 5)]


def count(segments: list[Expirable] = SEGMENTS, **settings: Any) -> int:
    defaults = {"now_ms": 5000, "retention_ms": -1, "retention_bytes": -1, "start_offset": 0, "up_to": 40}
    if "last" not in settings:
        settings |= {"total_bytes": sum(segment.size for segment in segments), "last": len(segments) - 1}
    return expired(segments, **{**defaults, **settings})


def test_without_limits_nothing_goes() -> None:
    assert count() == 0
    assert count([]) == 0


@pytest.mark.parametrize("retention_ms,expected", [(0, 4), (999, 4), (1000, 3), (3999, 1), (4000, 0)])
def test_by_time(retention_ms: int, expected: int) -> None:
    assert count(retention_ms=retention_ms) == expected


@pytest.mark.parametrize(
    "retention_bytes,expected", [(0, 4), (99, 3), (100, 3), (250, 1), (300, 1), (301, 0), (400, 0)]
)
def test_by_size(retention_bytes: int, expected: int) -> None:
    assert count(retention_bytes=retention_bytes) == expected


@pytest.mark.parametrize("start_offset,expected", [(9, 0), (10, 1), (25, 2), (40, 4)])
def test_behind_the_start(start_offset: int, expected: int) -> None:
    assert count(start_offset=start_offset) == expected


@pytest.mark.parametrize("up_to,expected", [(9, 0), (10, 1), (39, 3), (40, 4)])
def test_nothing_above_the_high_watermark(up_to: int, expected: int) -> None:
    assert count(retention_ms=0, up_to=up_to) == expected


def test_a_young_segment_keeps_all_behind_it() -> None:
    young = [SEGMENTS[0], SEGMENTS[1]._replace(newest_ms=5000), *SEGMENTS[2:]]
    assert count(young, retention_ms=500) == 1
    assert count(young, retention_ms=500, retention_bytes=250) == 1


def test_only_an_empty_segment_at_the_end_stays() -> None:
    """It is the one being written; an empty one before it, as compaction may leave, goes like any other."""
    empty = Expirable(10, 0, 1000)
    assert count([empty], retention_ms=0, retention_bytes=0, start_offset=10, up_to=10) == 0
    assert count([empty, Expirable(20, 100, 2000)], retention_ms=2500) == 2
    assert count([empty, Expirable(20, 100, 2000)], retention_ms=3500) == 1
    assert count([empty, Expirable(20, 100, 2000)], retention_bytes=100) == 1
    assert count([empty, Expirable(20, 100, 2000)], retention_bytes=101) == 0


@pytest.mark.parametrize(
    "hold, expected",
    [
        (Hold(0), 0),
        (Hold(9), 0),
        (Hold(10), 1),
        (Hold(39), 3),
        (Hold(40), 4),
        (Hold(99), 4),
        (Hold(0, max_ms=4000), 0),
        (Hold(0, max_ms=3000), 1),
        (Hold(0, max_ms=0), 4),
        (Hold(0, max_bytes=400), 0),
        (Hold(0, max_bytes=399), 0),
        (Hold(0, max_bytes=300), 1),
        (Hold(0, max_bytes=0), 4),
        (Hold(20, max_ms=2000, max_bytes=300), 2),
    ],
)
@pytest.mark.parametrize("limit", [{"retention_ms": 0}, {"retention_bytes": 0}])
def test_unread_segments_are_held_within_limits(hold: Hold, expected: int, limit: dict[str, int]) -> None:
    assert count(SEGMENTS, hold=hold, **limit) == expected


def test_a_hold_keeps_nothing_that_somebody_deleted_and_deletes_nothing_that_retention_keeps() -> None:
    assert count(hold=Hold(0), retention_ms=0, start_offset=20) == 2
    assert count(hold=Hold(0, max_ms=0, max_bytes=0)) == 0
    assert count(hold=Hold(40), retention_ms=3000) == 1


@pytest.mark.slow
@given(st.data())
def test_a_hold_only_keeps_more(data: st.DataObject) -> None:
    few, limits = st.integers(0, 6), st.integers(-1, 20)
    facts = data.draw(st.lists(st.tuples(few, few), min_size=1, max_size=6))
    segments = [Expirable(3 * number + 3, *one) for number, one in enumerate(facts)]
    names = ("now_ms", "retention_ms", "retention_bytes", "start_offset", "up_to")
    *values, first_unread, max_ms, max_bytes = data.draw(st.lists(limits, min_size=8, max_size=8))
    settings = dict(zip(names, values, strict=True))
    plain = count(segments, **settings)
    assert count(segments, hold=Hold(first_unread, max_ms, max_bytes), **settings) <= plain
    kept = segments[count(segments, hold=Hold(first_unread), **settings) :]
    unread = [one for one in segments if one.end_offset > max(first_unread, settings["start_offset"])]
    assert kept[-len(unread) :] == unread or not unread
    assert count(segments, hold=Hold(0, 0, 0), **settings) <= plain


def kafkas(
    segments: list[Expirable], now_ms: int, retention_ms: int, retention_bytes: int, start_offset: int, up_to: int
) -> int:
    """What Kafka's `UnifiedLog.deleteOldSegments` does: start offset, size, time, each over what the last one left."""

    def delete(left: list[Expirable], should_delete: Callable[[Expirable], bool]) -> list[Expirable]:
        gone = 0
        for number, segment in enumerate(left):
            is_last_and_empty = number == len(left) - 1 and segment.size == 0
            if up_to < segment.end_offset or is_last_and_empty or not should_delete(segment):
                break
            gone += 1
        return left[gone:]

    left = delete(segments, lambda segment: segment.end_offset <= start_offset)
    size = sum(segment.size for segment in left)
    if 0 <= retention_bytes <= size:
        surplus = [size - retention_bytes]

        def is_surplus(segment: Expirable) -> bool:
            if surplus[0] - segment.size < 0:
                return False
            surplus[0] -= segment.size
            return True

        left = delete(left, is_surplus)
    if retention_ms >= 0:
        left = delete(left, lambda segment: now_ms - segment.newest_ms > retention_ms)
    return len(segments) - len(left)


@given(st.data())
def test_the_same_goes_as_in_kafka(data: st.DataObject) -> None:
    few = st.integers(0, 6)
    ends = sorted(data.draw(st.sets(st.integers(1, 20), min_size=1, max_size=6)))
    segments = [Expirable(end, data.draw(few), data.draw(few)) for end in ends]
    limits = st.integers(-1, 20)
    now_ms, retention_ms, retention_bytes = data.draw(few), data.draw(st.integers(-1, 6)), data.draw(limits)
    start_offset, up_to = data.draw(limits), data.draw(limits)
    expected = kafkas(segments, now_ms, retention_ms, retention_bytes, start_offset, up_to)
    most = data.draw(st.none() | st.integers(0, 7))
    found = count(
        segments,
        now_ms=now_ms,
        retention_ms=retention_ms,
        retention_bytes=retention_bytes,
        start_offset=start_offset,
        up_to=up_to,
        most=most,
    )
    assert found == (expected if most is None else min(expected, most))


@pytest.mark.parametrize(
    "settings,looked_at", [({"retention_ms": 2500}, 3), ({"retention_ms": 0, "most": 1}, 1), ({}, 1)]
)
def test_no_more_is_looked_at_than_decides(settings: dict[str, int], looked_at: int) -> None:
    asked = iter(SEGMENTS)
    found = count(asked, total_bytes=400, last=3, **settings)  # type: ignore[arg-type]
    assert found == max(0, looked_at - ("most" not in settings))
    assert len(list(asked)) == 4 - looked_at
