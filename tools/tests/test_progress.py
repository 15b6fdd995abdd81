"""The bar and the lines of a long command."""

from __future__ import annotations

import io
import json

import pytest

from headgate.tools.progress import Progress, format_duration


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_bar_on_a_terminal() -> None:
    stream, clock = Terminal(), Clock()
    progress = Progress(4_000_000, stream, clock)
    progress.add(500_000, "t-0")
    assert stream.getvalue() == ""
    clock.now_s += 0.5
    progress.add(500_000, "t-0")
    assert stream.getvalue() == "\r\x1b[K[######..................]  25% 2 MB/s, 2 s left, t-0"
    progress.clear()
    progress.clear()
    assert stream.getvalue().endswith("t-0\r\x1b[K")


def test_json_lines_elsewhere() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(3_000, stream, clock)
    for _ in range(3):
        clock.now_s += 2
        progress.add(500, "t-0")
    progress.clear()
    assert [json.loads(line) for line in stream.getvalue().splitlines()] == [
        {"progress": "t-0", "done_bytes": 1500, "total_bytes": 3000, "bytes_per_s": 250, "seconds_left": 6.0}
    ]


def test_a_total_of_zero_bytes_is_done() -> None:
    clock = Clock()
    progress = Progress(0, Terminal(), clock)
    clock.now_s += 1
    progress.add(0, "t-0")


@pytest.mark.parametrize("seconds, text", [(5.4, "5 s"), (65, "1 min 05 s"), (7500, "2 h 05 min")])
def test_durations_have_two_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
