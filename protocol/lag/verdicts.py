"""A verdict on each partition of a group, judged by its last commits: the rules of LinkedIn's Burrow.

    lag now 0 ────────────────────────────────────────────────────────────────────────> OK
    no commit for longer than the window spans, and no recent end that was all read ──> STOP
    a commit went back, and none has reached the offset before since ─────────────────> REWIND
    one of the commits had read everything ───────────────────────────────────────────> OK
    all commits have one offset ──────────────────────────────────────────────────────> STALL
    the lag of no commit is below that of the commit before ──────────────────────────> WARN
    else ─────────────────────────────────────────────────────────────────────────────> OK

The first rule that holds counts. There is no threshold: a group may be far behind and OK, as long as it catches up.

A window has `WINDOW_COMMITS` commits. Burrow judges a window with fewer as it judges a full one, or not at all; both
mislead after a start. Here such a window can only be STOP, if there was no commit for `quiet_ms` either.

Source: Burrow's evaluator (core/internal/evaluator/caching.go) and its page "Consumer Lag Evaluation Rules".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from itertools import pairwise
from typing import Final, NamedTuple

WINDOW_COMMITS: Final = 10
"""The length of a full window: Burrow's default for `intervals`."""


class Verdict(Enum):
    """How a group does in a partition."""

    OK = "OK"
    WARN = "WARN"
    STALL = "STALL"
    REWIND = "REWIND"
    STOP = "STOP"


_SEVERITY: Final = {verdict: number for number, verdict in enumerate(Verdict)}


class Commit(NamedTuple):
    """A commit: its time in ms since 1970, its offset, and the records behind it at that time (None: unknown)."""

    time_ms: int
    offset: int
    lag: int | None


def judge(commits: Sequence[Commit], ends: Sequence[int], lag: int, now_ms: int, quiet_ms: float) -> Verdict:
    """The verdict on a partition.

    `commits`: the window, the oldest first. `ends`: the last known ends of the partition. `lag`: the lag now.
    """
    if lag <= 0 or not commits:
        return Verdict.OK
    is_full = len(commits) >= WINDOW_COMMITS
    if _has_stopped(commits, now_ms, 0 if is_full else quiet_ms) and not _was_recently_read(commits[-1], ends):
        return Verdict.STOP
    if not is_full:
        return Verdict.OK
    if _is_rewound(commits):
        return Verdict.REWIND
    if any(commit.lag is not None and commit.lag <= 0 for commit in commits):
        return Verdict.OK
    if all(commit.offset == commits[0].offset for commit in commits):
        return Verdict.STALL
    lags = [commit.lag for commit in commits if commit.lag is not None]
    return Verdict.OK if any(later < before for before, later in pairwise(lags)) else Verdict.WARN


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a group: the most severe one of its partitions."""
    return max(verdicts, key=_SEVERITY.__getitem__, default=Verdict.OK)


def _has_stopped(commits: Sequence[Commit], now_ms: int, least_ms: float) -> bool:
    last_ms = commits[-1].time_ms
    return now_ms - last_ms > max(last_ms - commits[0].time_ms, least_ms)


def _was_recently_read(last: Commit, ends: Sequence[int]) -> bool:
    """Whether the last commit was at an end that the partition had a short time ago: the lag is new."""
    return any(end <= last.offset for end in ends)


def _is_rewound(commits: Sequence[Commit]) -> bool:
    for number, (before, commit) in enumerate(pairwise(commits), 1):
        if commit.offset < before.offset:
            return all(later.offset < before.offset for later in commits[number:])
    return False
