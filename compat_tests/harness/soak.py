"""Long runs: `make soak` sets HEADGATE_SOAK."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

SOAK: Final = os.environ.get("HEADGATE_SOAK", "") not in {"", "0"}


class Progress:
    """The numbered rounds of a long run that have passed, in a file: an interrupted run goes on with the others.

    Once all have passed, the next run begins anew.
    """

    def __init__(self, file: Path, count: int) -> None:
        self.file, self.rounds = file, range(count)

    def left(self) -> list[int]:
        """The rounds that have not passed yet, in order."""
        passed = set(map(int, self.file.read_text().split())) if self.file.exists() else set()
        return [number for number in self.rounds if number not in passed]

    def note_passed(self, number: int) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a") as file:
            file.write(f"{number}\n")
        if not self.left():
            self.file.unlink()
