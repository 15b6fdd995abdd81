"""The last commits of groups and the last ends of partitions, as surveys have seen them, for verdicts.

Nothing is added to the path of a commit: a survey looks at the present offset, and at the time of its commit. So a
window has at most one commit a survey, as Burrow's has with a least distance between commits. The lag of a commit
counts to the end that the survey before knew, as Burrow counts to the last end that it has fetched: a group that reads
everything commits behind that end.

Numbers lie in arrays: a window takes some 300 bytes. `MAX_WINDOWS` bounds them; further partitions have no verdict.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

from headgate.gateway.lag.readers import NO_TIME, Committed
from headgate.protocol.lag.verdicts import WINDOW_COMMITS, Commit, Verdict, judge

MAX_WINDOWS: Final = 50_000
_FIELDS: Final = 3
_UNKNOWN: Final = -1
_NO_ENDS: Final = array("q")

Window = array  # of time, offset and lag of each commit, the oldest first
WindowKey = tuple[str, str, int]
"""A group, a topic and a partition."""


class CommitWindows:
    """One survey after another: `begin`, then `note_end` and `note` for each partition."""

    def __init__(self, max_windows: int = MAX_WINDOWS) -> None:
        self._max_windows = max_windows
        self._windows: dict[WindowKey, array[int]] = {}
        self._ends: dict[tuple[str, int], array[int]] = {}
        self._before: dict[WindowKey, array[int]] = {}
        self._ends_before: dict[tuple[str, int], array[int]] = {}

    def __len__(self) -> int:
        """The number of windows."""
        return len(self._windows)

    def begin(self) -> None:
        """Begin a survey. Windows that it does not note are forgotten."""
        self._before, self._windows = self._windows, {}
        self._ends_before, self._ends = self._ends, {}

    def note_end(self, topic: str, partition: int, end: int) -> None:
        """Note the present end of a partition; a second call in one survey does nothing."""
        key = topic, partition
        if key not in self._ends:
            ends = self._ends_before.pop(key, None) or array("q")
            ends.append(end)
            del ends[:-WINDOW_COMMITS]
            self._ends[key] = ends

    def note(self, group: str, topic: str, partition: int, committed: Committed, now_ms: int) -> None:
        """Note the present offset of a group, after the end of the partition."""
        key = group, topic, partition
        window = self._before.pop(key, None)
        if window is None:
            if len(self._windows) >= self._max_windows:
                return
            window = array("q")
        self._windows[key] = window
        last = Committed(window[-2], window[-3]) if window else None
        time_ms = committed.time_ms
        if time_ms == NO_TIME:
            time_ms = last.time_ms if last is not None and last.offset == committed.offset else now_ms
        if last is None or last.offset != committed.offset or last.time_ms != time_ms:
            window.extend((time_ms, committed.offset, self._lag(topic, partition, committed.offset)))
            del window[: -WINDOW_COMMITS * _FIELDS]

    def _lag(self, topic: str, partition: int, offset: int) -> int:
        ends = self._ends.get((topic, partition), _NO_ENDS)
        return max(0, ends[-2 if len(ends) > 1 else -1] - offset) if ends else _UNKNOWN

    def judge(self, group: str, topic: str, partition: int, lag: int, now_ms: int, quiet_ms: float) -> Verdict | None:
        """The verdict on a partition; None without a window."""
        window = self._windows.get((group, topic, partition))
        if window is None:
            return None
        if lag <= 0:
            return Verdict.OK
        return judge(_commits(window), self._ends.get((topic, partition), _NO_ENDS), lag, now_ms, quiet_ms)


def _commits(window: Sequence[int]) -> list[Commit]:
    return [
        Commit(window[place], window[place + 1], None if window[place + 2] == _UNKNOWN else window[place + 2])
        for place in range(0, len(window), _FIELDS)
    ]
