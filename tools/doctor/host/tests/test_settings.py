from __future__ import annotations

from headgate.tools.doctor.check_result import NOTE, OK, WRONG
from headgate.tools.doctor.host.settings import check_settings
from headgate.tools.doctor.inspection import SettingsReport


def test_problems_and_warnings_are_rows() -> None:
    report = SettingsReport(["line 1: x is unknown; write y", "line 2: no"], [(True, "line 3: old name")], [], [], None)
    rows = list(check_settings(report, "server.properties"))
    assert [(row.state, bool(row.cure)) for row in rows] == [(WRONG, True), (WRONG, True), (NOTE, True)]


def test_settings_without_effect_are_counted() -> None:
    report = SettingsReport([], [(False, "line 1: nothing")], [("a", "b"), ("c", "d")], [], None)
    [row] = check_settings(report, "server.properties")
    assert (row.state, row.found) == (
        OK,
        "2 settings of server.properties; 1 have no effect here, `headgate config server.properties` says why",
    )
