"""One run of `headgate doctor`: its rows, and what is asserted about them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Final, NamedTuple

from compat_tests.harness.broker import installed_command

LIMIT_S: Final = 60
ALARM: Final = 3
# A machine of tests has no time service, little memory or a full disk: rows of the machine itself
OF_THE_MACHINE: Final = ("time", "memory", "backlog", "descriptors")


class DoctorRow(NamedTuple):
    """A row of the command."""

    check: str
    state: str
    found: str
    cure: str | None


class Examination(NamedTuple):
    """The exit code, the rows, and the lines on standard error."""

    code: int
    rows: Sequence[DoctorRow]
    errors: str

    def wrong(self) -> dict[str, DoctorRow]:
        """The wrong rows by check."""
        return {row.check: row for row in self.rows if row.state == "wrong"}

    def fails(self, check: str, *words: str) -> DoctorRow:
        """Assert that the row of this check is wrong, with these words in it or in its cure; and the exit code."""
        found = [row for row in self.rows if row.check == check and row.state == "wrong"]
        assert found, f"{check} is not wrong: {self}"
        text = " | ".join(f"{row.found} | {row.cure}" for row in found)
        assert all(word in text for word in words), (text, words)
        assert all(row.cure for row in found), found
        assert self.code == ALARM
        return found[0]

    def fails_alone(self, check: str, *words: str) -> DoctorRow:
        """As `fails`, and every other row is right."""
        row = self.fails(check, *words)
        assert set(self.wrong()) == {check}, self.wrong()
        return row

    def is_sound(self) -> None:
        """Assert that nothing is wrong."""
        assert (self.code, self.wrong()) == (0, {}), self


def examine(*arguments: str, within: Sequence[str] = (), headgate: Sequence[str] = ()) -> Examination:
    """Run the command; `within` is a command that runs it, `headgate` another form of the command itself."""
    command = [*within, *(headgate or installed_command()), "doctor", "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode in {0, ALARM}, done.stderr
    rows = [DoctorRow(**json.loads(line)) for line in done.stdout.splitlines()]
    return Examination(done.returncode, rows, done.stderr)


SHIFTED: Final = """
import sys, time
seconds, read, read_ns = float(sys.argv.pop(1)), time.time, time.time_ns
time.time = lambda: read() + seconds
time.time_ns = lambda: read_ns() + int(seconds * 1e9)
from headgate.gateway.app.cli import main
sys.exit(main())
"""
"""The command `headgate` on a machine whose clock is so many seconds ahead."""
