from __future__ import annotations

from typing import Any

from headgate.tools.doctor.inspection import raw_value, settings_report

FIELDS: dict[str, Any] = {"problems": [], "notes": [], "given": [], "secrets": [], "values": None}


def test_a_report_without_values_has_problems() -> None:
    assert settings_report({**FIELDS, "problems": ["no"]}).values is None


def test_a_line_is_found_in_a_file_with_other_problems() -> None:
    text = "nonsense.setting=1\nzookeeper.connect = a:2181/kafka\nzookeeper.connect=b:2181\n"
    assert raw_value(text, "zookeeper.connect") == "b:2181"
    assert raw_value(text, "log.dirs") is None
    assert raw_value("a=\\u00zz", "a") is None
