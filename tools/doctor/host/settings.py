"""The rows of a server.properties: the answers of `headgate config`. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.tools.doctor.check_result import NOTE, OK, WRONG, CheckResult, of_sentence
from headgate.tools.doctor.inspection import SettingsReport


def check_settings(report: SettingsReport, source: str) -> Iterator[CheckResult]:
    """One row for each problem and each warning, and one for all others."""
    for problem in report.problems:
        row = of_sentence("settings", WRONG, problem)
        yield row if row.cure else row._replace(cure="correct the line: no broker starts with it")
    for is_warning, sentence in report.notes:
        if is_warning:
            yield CheckResult("settings", NOTE, sentence, "the line means something else in a later version")
    if not report.problems:
        silent = sum(not is_warning for is_warning, _ in report.notes)
        more = f"; {silent} have no effect here, `headgate config {source}` says why" if silent else ""
        yield CheckResult("settings", OK, f"{len(report.given)} settings of {source or 'the command line'}{more}")
