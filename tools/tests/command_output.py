"""The captured output of a command that a test runs in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


class CommandOutput:
    """Exit code and output; `errors` are the lines of standard error, without the prefix `headgate <command>: `."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out = code, out
        self.errors = [line.partition(": ")[2] for line in err.splitlines()]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., CommandOutput]
"""Runs a command with these arguments."""
