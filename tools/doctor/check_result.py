"""The result of one check, and the output of all: a table with the cures below, or JSON lines.

Exit codes: 0 nothing wrong; 2 wrong usage; 3 at least one check is wrong. A note is no error: the row says what it
costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from headgate.tools.output import CommandResult, Row, format_table

OK, NOTE, WRONG = "ok", "note", "wrong"


class CheckResult(NamedTuple):
    """The result of one check. `state`: OK, NOTE or WRONG; `cure`: the next step, "" for OK."""

    check: str
    state: str
    found: str
    cure: str = ""


def of_sentence(check: str, state: str, sentence: str) -> CheckResult:
    """The result of a sentence whose cure stands behind a semicolon, as in the errors of clients and brokers."""
    found, _, cure = sentence.partition("; ")
    return CheckResult(check, state, found, cure)


def result_of(findings: Sequence[CheckResult], notes: Iterable[str] = ()) -> CommandResult:
    """The rows of all checks; a wrong one is an alarm."""
    rows: list[Row] = [finding._asdict() | {"cure": finding.cure or None} for finding in findings]
    wrong = sum(finding.state == WRONG for finding in findings)
    counted = [f"{wrong} of {len(findings)} checks {'is' if wrong == 1 else 'are'} wrong"] if wrong else []
    return CommandResult(rows, notes=[*counted, *notes], is_alarm=bool(wrong))


def table_lines(rows: Sequence[Row]) -> Iterator[str]:
    """The table without cures, which are long; below it a line for each."""
    yield from format_table([{name: row[name] for name in ("check", "state", "found")} for row in rows])
    cures = [f"{row['check']}: {row['cure']}" for row in rows if row["cure"]]
    if cures:
        yield ""
        yield from cures
