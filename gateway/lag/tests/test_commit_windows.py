"""Windows of commits: what a survey adds to them, and what bounds them."""

from __future__ import annotations

from headgate.gateway.lag.commit_windows import CommitWindows
from headgate.gateway.lag.readers import NO_TIME, Committed
from headgate.protocol.lag.verdicts import WINDOW_COMMITS, Verdict

QUIET_MS = 10_000


def survey(windows: CommitWindows, now_ms: int, end: int, **groups: tuple[int, int]) -> None:
    """Note the end of t-0, and of each group (offset, time of the commit)."""
    windows.begin()
    windows.note_end("t", 0, end)
    for name, (offset, time_ms) in groups.items():
        windows.note(name, "t", 0, Committed(offset, time_ms), now_ms)


def verdict(windows: CommitWindows, lag: int, now_ms: int) -> Verdict | None:
    return windows.judge("g", "t", 0, lag, now_ms, QUIET_MS)


def test_a_commit_is_noted_once() -> None:
    """The surveys after it add nothing: the group has stopped."""
    windows = CommitWindows()
    for now_ms in range(0, 12_000, 1_000):
        survey(windows, now_ms, 100 + now_ms, g=(5, 0))
    assert verdict(windows, 50, 10_000) is Verdict.OK
    assert verdict(windows, 50, 10_001) is Verdict.STOP


def test_a_window_has_the_last_commits() -> None:
    """The first ones, which had read everything, are forgotten."""
    windows = CommitWindows()
    for number in range(3):
        survey(windows, number * 1_000, number, g=(number, number * 1_000))
    for number in range(3, 4 + WINDOW_COMMITS):
        survey(windows, number * 1_000, 100 + 2 * number, g=(number, number * 1_000))
    assert verdict(windows, 90, 13_500) is Verdict.WARN


def test_a_commit_counts_to_the_end_of_the_survey_before() -> None:
    """A group that reads everything commits a moment before the end moves on."""
    windows = CommitWindows()
    for number in range(WINDOW_COMMITS):
        survey(windows, number * 1_000, 10 * number, g=(10 * (number - 1) if number else 0, number * 1_000))
    assert verdict(windows, 10, 9_500) is Verdict.OK


def test_an_offset_without_a_time_gets_that_of_the_survey() -> None:
    windows = CommitWindows()
    for now_ms in range(0, 20_000, 1_000):
        survey(windows, now_ms, 20_000 + now_ms, g=(min(now_ms, 9_000), NO_TIME))
    assert verdict(windows, 50, 18_000) is Verdict.OK
    assert verdict(windows, 50, 18_001) is Verdict.STOP


def test_an_unknown_end_is_no_lag() -> None:
    windows = CommitWindows()
    windows.begin()
    windows.note("g", "t", 0, Committed(5, 0), 0)
    assert verdict(windows, 1, 0) is Verdict.OK


def test_windows_of_gone_groups_are_forgotten() -> None:
    windows = CommitWindows()
    survey(windows, 0, 5, g=(1, 0), h=(1, 0))
    survey(windows, 1_000, 5, h=(1, 0))
    assert len(windows) == 1
    assert verdict(windows, 5, 0) is None


def test_the_number_of_windows_is_bounded() -> None:
    """Those that are there stay; further partitions have no verdict."""
    windows = CommitWindows(max_windows=2)
    survey(windows, 0, 5, a=(1, 0), b=(1, 0), g=(1, 0))
    assert len(windows) == 2
    assert verdict(windows, 5, 0) is None
    assert windows.judge("a", "t", 0, 5, 0, QUIET_MS) is Verdict.OK
    survey(windows, 1_000, 5, b=(1, 0), g=(1, 0))
    assert verdict(windows, 5, 0) is Verdict.OK
