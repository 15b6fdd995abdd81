"""What may be deleted: by time, by size, behind the start; never above the high watermark."""

from __future__ import annotations

from typing import Any

import pytest

from storage.retention import SegmentFacts, expired

# Ends at 10, 20, 30, 40; 100 bytes each; the highest timestamps are 1000, 2000, 3000, 4000
SEGMENTS = [SegmentFacts(10 * number, 100, 1000 * number) for number in range(1, 5)]


def count(segments: list[SegmentFacts] = SEGMENTS, **settings: Any) -> int:
    defaults = {"now_ms": 5000, "retention_ms": -1, "retention_bytes": -1, "start_offset": 0, "up_to": 40}
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
    young = [SEGMENTS[0], SEGMENTS[1]._replace(max_timestamp=5000), *SEGMENTS[2:]]
    assert count(young, retention_ms=500) == 1
    assert count(young, retention_ms=500, retention_bytes=250) == 1


def test_segments_without_timestamps_or_bytes_stay() -> None:
    assert count([SegmentFacts(10, 100, -1)], retention_ms=0, up_to=10) == 0
    assert count([SegmentFacts(10, 0, -1)], retention_bytes=0, start_offset=10, up_to=10) == 0
