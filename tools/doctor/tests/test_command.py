"""The command with reports that a test gives; what it dials is tried in compat_tests/doctor."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from headgate.tools.doctor import command

SETTINGS: Mapping[str, Any] = {"problems": [], "notes": [], "given": [("a", "b")], "secrets": [], "values": None}
NODES: Mapping[str, Any] = {
    "problem": None,
    "session_ms": 12.0,
    "read_ms": 3.0,
    "has_chroot": True,
    "cluster_id": "one",
    "controller": 1,
    "brokers": {1: ["PLAINTEXT://h:9092"]},
    "root": [],
}


def run(arguments: Sequence[str], settings: Mapping[str, Any] = SETTINGS, nodes: Mapping[str, Any] = NODES) -> int:
    return command.main(["--json", *arguments], lambda *_: settings, lambda *_: nodes)


def rows(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_file_that_is_not_there_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([str(tmp_path / "none")]) == 3
    [row] = rows(capsys)
    assert (row["check"], row["state"]) == ("settings", "wrong")


def test_problems_of_the_settings_are_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.dirs=/nowhere/at/all\n")
    assert run([str(file)], {**SETTINGS, "problems": ["line 1: x is unknown; write y"]}) == 3
    found = {row["check"]: row for row in rows(capsys)}
    assert (found["settings"]["found"], found["settings"]["cure"]) == ("line 1: x is unknown", "write y")
    assert "/nowhere/at/all" in found["directory"]["found"]


def test_client_settings_that_cannot_be_used_are_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_SLS\n")
    assert run(["--bootstrap-server", "127.0.0.1:1", "--command-config", str(file)]) == 3
    [row] = rows(capsys)
    assert row["check"] == "client settings"
    assert "SASL_SLS" in row["found"]


@pytest.mark.sockets
def test_zookeeper_is_asked_where_an_option_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--zookeeper", "127.0.0.1:1/kafka"]) == 3
    [row] = rows(capsys)
    assert row["found"] == "ZooKeeper at 127.0.0.1:1: nothing listens there"


@pytest.mark.sockets
def test_without_options_the_usual_address_is_dialled(capsys: pytest.CaptureFixture[str]) -> None:
    run(["--timeout", "1"])
    assert any("127.0.0.1:9092" in row["found"] or row["found"] == "127.0.0.1" for row in rows(capsys))


def test_options_that_do_not_fit_together() -> None:
    for arguments in (["--create-canary"], ["--local", "--canary", "t"], ["--local", "--http", "http://a:1"]):
        with pytest.raises(SystemExit) as ended:
            run(arguments)
        assert ended.value.code == 2


def test_a_file_of_java_may_be_latin_1(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes("log.dirs=/d\xe4ta\n".encode("latin-1"))
    assert command.read_server_properties(str(file)) == "log.dirs=/d\xe4ta\n"
