from __future__ import annotations

from pathlib import Path

from headgate.tools.doctor.host.examine import check_host, log_directories, read_host
from headgate.tools.doctor.inspection import BrokerValues, SettingsReport

VALUES = BrokerValues(1, True, ("/data",), (), (), (), None, 1, 1, 1)
BROKEN = SettingsReport(["no"], [], [], [], None)


def test_directories_of_a_file_with_problems() -> None:
    assert log_directories("log.dirs=/a, /b\n", BROKEN) == ("/a", "/b")
    assert log_directories("log.dir=/a\n", BROKEN) == ("/a",)
    assert log_directories("", BROKEN) == ()
    assert log_directories("log.dirs=/a", BROKEN._replace(values=VALUES)) == ("/data",)
    assert log_directories("log.dirs=/a", None) == ()


def test_a_host_without_settings_has_the_rows_of_every_broker() -> None:
    checks = [row.check for row in check_host(read_host(()), "", "", None)]
    assert checks[0] == "descriptors"
    assert checks[-1] == "time"


def test_a_host_with_settings(tmp_path: Path) -> None:
    state = read_host([str(tmp_path / "data")])
    values = VALUES._replace(log_directories=(str(tmp_path / "data"),), descriptors_needed=100)
    report = SettingsReport([], [], [], [], values)
    checks = [row.check for row in check_host(state, "", "s", report)]
    assert checks[0] == "settings"
    assert {"disk", "directory"} <= set(checks)
    assert state.cluster_ids == {}
