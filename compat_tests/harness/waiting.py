"""Waiting on another process: by a condition, to a deadline, saying what was waited for."""

from __future__ import annotations

import time
from collections.abc import Callable


class Late(AssertionError):
    """What was waited for did not come in time."""


def until(condition: Callable[[], bool], what: str, timeout_s: float = 60.0, step_s: float = 0.01) -> float:
    """Wait for the condition; return the seconds that it took."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > timeout_s:
            raise Late(f"waited {timeout_s:.1f} s for {what}")
        time.sleep(step_s)
    return time.monotonic() - began
