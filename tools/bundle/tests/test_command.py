from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headgate.tools.bundle import command

SETTINGS: Mapping[str, Any] = {
    "problems": ["line 1: x is unknown; write y"],
    "notes": [],
    "given": [("log.dirs", "/d"), ("ssl.key.password", "[hidden]")],
    "secrets": ["hunter2-XYZZY"],
    "values": None,
}


def run(*arguments: str) -> int:
    return command.main(["--json", *arguments], lambda *_: SETTINGS, lambda *_: {})


def test_an_archive_of_a_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, log, output = tmp_path / "server.properties", tmp_path / "log", tmp_path / "b.tar.gz"
    file.write_text(f"log.dirs={tmp_path}/data\n")
    log.write_text("the password hunter2-XYZZY is wrong\n")
    assert run(str(file), "--log", str(log), "--output", str(output)) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    with tarfile.open(output) as archive:
        texts = {name.partition("/")[2]: archive.extractfile(name) for name in archive.getnames()}
        contents = {name: file.read() for name, file in texts.items() if file is not None}
    assert list(contents) == [row["file"] for row in rows]
    assert {"doctor.jsonl", "settings.txt", "limits.txt", "log-0.txt", "manifest.json"} <= set(contents)
    assert not any(b"XYZZY" in content for content in contents.values())
    assert run(str(file), "--output", str(output)) == 1
    assert "exists already" in capsys.readouterr().err


def test_a_dry_run_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("--local", "--dry-run") == 0
    assert list(tmp_path.iterdir()) == []
    shown = capsys.readouterr()
    assert "limits.txt" in shown.out
    assert "nothing is written" in shown.err


def test_a_place_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--local", "--output", str(tmp_path / "none" / "b.tar.gz")) == 1
    assert "cannot write" in capsys.readouterr().err


def test_a_size_that_is_none() -> None:
    for text in ("0", "x", "99999"):
        with pytest.raises(SystemExit):
            run("--local", "--max-mib", text)
