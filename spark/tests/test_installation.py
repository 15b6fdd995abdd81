"""What is found in files, folders and by a process of the worker's interpreter."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headgate.spark import installation
from headgate.spark.installation import (
    find_installation,
    find_java_home,
    parse_settings,
    probe_worker,
    read_java_version,
    read_settings,
    spark_home,
)


def test_settings_of_spark_defaults() -> None:
    text = "# comment\nspark.master  local[2]\n\nspark.jars=/a.jar,/b.jar\n spark.ui.enabled: false\nalone\n"
    assert parse_settings(text) == {
        "spark.master": "local[2]",
        "spark.jars": "/a.jar,/b.jar",
        "spark.ui.enabled": "false",
        "alone": "",
    }


def test_settings_are_in_the_named_folder_or_at_home(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("a 1\n")
    assert read_settings({}, tmp_path) == {"a": "1"}
    assert read_settings({"SPARK_CONF_DIR": str(tmp_path / "conf")}, None) == {"a": "1"}
    assert read_settings({}, None) == read_settings({}, tmp_path / "other") == {}


def test_java_and_its_version(tmp_path: Path) -> None:
    assert read_java_version(tmp_path) is None
    (tmp_path / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="17.0.12"\n')
    assert read_java_version(tmp_path) == "17.0.12"
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.touch(mode=0o755)
    assert find_java_home({"PATH": str(program.parent)}) == str(tmp_path.resolve())
    assert find_java_home({"JAVA_HOME": "/jdk"}) == "/jdk"
    assert find_java_home({"PATH": str(tmp_path)}) == ""


def test_the_home_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    assert spark_home({"SPARK_HOME": "/spark"}) == Path("/spark")
    monkeypatch.setattr(installation, "find_spec", lambda name: None)
    assert spark_home({}) is None


@pytest.mark.sockets
def test_a_worker_tells_its_packages(tmp_path: Path) -> None:
    report = probe_worker(sys.executable)
    assert report is not None
    assert report["python"] == ".".join(map(str, sys.version_info[:3]))
    assert report["headgate"] is not None
    assert probe_worker(str(tmp_path / "python")) is None


def test_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostbyname", lambda name: "127.0.0.1")
    found = find_installation({"PYSPARK_PYTHON": "/worker", "PATH": ""})
    assert found.worker == "/worker"
    assert found.source_worker == "/worker"
    assert find_installation({"PATH": ""}, "/named").worker == "/named"
    assert find_installation({"PYSPARK_DRIVER_PYTHON": "/driver", "PATH": ""}).source_worker == "/driver"
    assert found.java_home == ""
