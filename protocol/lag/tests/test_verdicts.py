"""Verdicts on sequences of commits, by the rules of Burrow."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.protocol.lag.verdicts import WINDOW_COMMITS, Commit, Verdict, judge, worst

EVERY_MS, QUIET_MS = 1_000, 10_000
OK, WARN, STALL, REWIND, STOP = Verdict.OK, Verdict.WARN, Verdict.STALL, Verdict.REWIND, Verdict.STOP


def window(offsets: Sequence[int], lags: Sequence[int | None]) -> list[Commit]:
    """A commit each second."""
    return [
        Commit(number * EVERY_MS, offset, lag) for number, (offset, lag) in enumerate(zip(offsets, lags, strict=True))
    ]


def verdict_on(
    offsets: Sequence[int], lags: Sequence[int | None], *, after_ms: int = 500, ends: Sequence[int] = ()
) -> Verdict:
    """The verdict some time after the last commit; the lag is that of the last one, or 1."""
    commits = window(offsets, lags)
    return judge(commits, ends, lags[-1] or 1, commits[-1].time_ms + after_ms, QUIET_MS)


UP = range(10, 110, 10)
SAME = [50] * 10


@pytest.mark.parametrize(
    "offsets, lags, expected",
    [
        pytest.param(UP, [900, 800, 700, 600, 500, 400, 300, 200, 100, 50], OK, id="catches up"),
        pytest.param(UP, [10] * 10, WARN, id="keeps the same distance"),
        pytest.param(UP, range(1, 11), WARN, id="falls behind"),
        pytest.param(UP, [1, 2, 3, 4, 5, 6, 7, 8, 9, 8], OK, id="falls behind until the last commit"),
        pytest.param(UP, [1, 2, 3, 0, 5, 6, 7, 8, 9, 10], OK, id="had read everything once"),
        pytest.param(UP, [None, 2, 3, None, 5, 6, 7, 8, 9, 10], WARN, id="unknown lags say nothing"),
        pytest.param(UP, [None] * 10, WARN, id="no lag is known"),
        pytest.param(SAME, range(1, 11), STALL, id="commits one offset"),
        pytest.param(SAME, [9, 8, 7, 6, 5, 4, 3, 2, 1, 1], STALL, id="retention shrinks the lag of a stalled group"),
        pytest.param(SAME, [0, *range(1, 10)], OK, id="commits one offset, and was at the end"),
        pytest.param([*SAME[:9], 51], range(1, 11), WARN, id="one step is no stall"),
        pytest.param([*UP[:9], 10], range(1, 11), REWIND, id="went back at the last commit"),
        pytest.param([90, 10, 20, 30, 40, 50, 60, 70, 80, 85], [5] * 10, REWIND, id="went back, is not there yet"),
        pytest.param([90, 10, 20, 30, 40, 50, 60, 70, 80, 90], [5] * 10, WARN, id="went back, and has recovered"),
        pytest.param([90, 10, *SAME[:8]], [0, *[5] * 9], REWIND, id="went back from the end"),
    ],
)  # fmt: skip
def test_a_full_window(offsets: Sequence[int], lags: Sequence[int | None], expected: Verdict) -> None:
    assert verdict_on(offsets, lags) is expected


def test_a_group_without_lag_is_ok() -> None:
    """Whatever its commits were: a quiet topic has no new ones."""
    commits = window(SAME, [5] * 10)
    assert judge(commits, (), 0, 1 << 50, QUIET_MS) is OK
    assert judge([], (), 5, 1 << 50, QUIET_MS) is OK


@pytest.mark.parametrize("after_ms, expected", [(9_000, WARN), (9_001, STOP)])
def test_a_group_stops_after_the_span_of_its_window(after_ms: int, expected: Verdict) -> None:
    """Ten commits, one each second: nine seconds."""
    assert verdict_on(UP, [10] * 10, after_ms=after_ms) is expected


def test_stop_counts_before_all_other_rules() -> None:
    assert verdict_on(SAME, [0] * 10, after_ms=9_001) is STOP
    assert verdict_on([*UP[:9], 10], [5] * 10, after_ms=9_001) is STOP


@pytest.mark.parametrize("ends, expected", [((100, 160), OK), ((99, 160), OK), ((101, 160), STOP)])
def test_a_group_that_had_read_everything_has_not_stopped(ends: Sequence[int], expected: Verdict) -> None:
    """The last commit, at 100, was at the end of a short time ago."""
    assert verdict_on(UP, [0] * 10, after_ms=9_001, ends=ends) is expected


@pytest.mark.parametrize("count", range(1, WINDOW_COMMITS))
def test_a_short_window_can_only_stop(count: int) -> None:
    """After as much time without a commit as a full window is watched."""
    assert verdict_on(SAME[:count], [5] * count) is OK
    assert verdict_on(SAME[:count], [5] * count, after_ms=QUIET_MS) is OK
    assert verdict_on(SAME[:count], [5] * count, after_ms=QUIET_MS + 1) is STOP


def test_the_worst_partition_judges_the_group() -> None:
    assert worst([]) is OK
    assert worst([OK, WARN, OK]) is WARN
    assert worst([WARN, STALL]) is STALL
    assert worst([STALL, REWIND]) is REWIND
    assert worst([STOP, REWIND, OK]) is STOP


COMMITS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), min_size=1, max_size=12)


@given(
    rows=COMMITS, lag=st.integers(0, 5), after_ms=st.integers(0, 40_000), ends=st.lists(st.integers(0, 25), max_size=3)
)
def test_rules_that_hold_for_any_commits(rows: list[tuple[int, int]], lag: int, after_ms: int, ends: list[int]) -> None:
    commits = window([offset for offset, _ in rows], [lag for _, lag in rows])
    found = judge(commits, ends, lag, commits[-1].time_ms + after_ms, QUIET_MS)
    offsets, lags = [commit.offset for commit in commits], [commit.lag or 0 for commit in commits]
    if lag == 0:
        assert found is OK
    if found is STALL:
        assert len(set(offsets)) == 1
    if found is WARN:
        assert sorted(lags) == lags
        assert lags[0] > 0
    if found is REWIND:
        assert sorted(offsets) != offsets
    if found is not OK:
        assert len(commits) >= WINDOW_COMMITS or found is STOP
    assert (found is STOP) <= (after_ms > commits[-1].time_ms - commits[0].time_ms)
