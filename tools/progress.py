"""The progress of a long command: a bar with rate and time left on a terminal, JSON lines otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TextIO

_BAR_EVERY_S = 0.2
_LINE_EVERY_S = 5.0
_WIDTH = 24


class Progress:
    """Bytes, or another unit, done of a total. A command that ends before the first line is due shows no progress."""

    def __init__(self, total: int, stream: TextIO, clock_s: Callable[[], float], unit: str = "bytes") -> None:
        self.total = total
        self.done = 0
        self._unit = unit
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._clock_s = clock_s
        self._began_s = clock_s()
        self._every_s = _BAR_EVERY_S if self._is_terminal else _LINE_EVERY_S
        self._due_s = self._began_s + self._every_s
        self._is_shown = False

    def add(self, count: int, what: str) -> None:
        """Count `count` more of `what` as done, and show the progress when it is due."""
        self.done += count
        now_s = self._clock_s()
        if now_s >= self._due_s:
            self._due_s = now_s + self._every_s
            self._show(now_s - self._began_s, what)

    def clear(self) -> None:
        """Remove the bar before other output."""
        if self._is_shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._is_shown = False

    def _show(self, elapsed_s: float, what: str) -> None:
        rate = self.done / elapsed_s if elapsed_s > 0 else 0.0
        left_s = (self.total - self.done) / rate if rate else 0.0
        share = self.done / self.total if self.total else 1.0
        if self._is_terminal:
            bar = ("#" * round(share * _WIDTH)).ljust(_WIDTH, ".")
            line = f"[{bar}] {share:4.0%} {self._rate(rate)}, {format_duration(left_s)} left, {what}"
            self._stream.write(f"\r\x1b[K{line}")
            self._is_shown = True
        else:
            row = {
                "progress": what,
                f"done_{self._unit}": self.done,
                f"total_{self._unit}": self.total,
                f"{self._unit}_per_s": round(rate),
                "seconds_left": round(left_s, 1),
            }
            self._stream.write(json.dumps(row) + "\n")
        self._stream.flush()

    def _rate(self, rate: float) -> str:
        return f"{rate / 1e6:,.0f} MB/s" if self._unit == "bytes" else f"{rate:,.0f} {self._unit}/s"


def format_duration(seconds: float) -> str:
    """A duration in its two largest units."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
