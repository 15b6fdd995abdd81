from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.spark.load.command import main_load, main_verify
from headgate.tools.tests.log_data import Data

Run = Callable[..., tuple[int, list[dict[str, Any]], str]]
PARTS = ("--processes", "1", "--json")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(main: Callable[[list[str]], int], *words: object) -> tuple[int, list[dict[str, Any]], str]:
        code = main([str(word) for word in words])
        out, errors = capsys.readouterr()
        return code, [json.loads(line) for line in out.splitlines()], errors

    return call


@pytest.mark.slow
def test_a_load_from_the_files_of_a_broker(tmp_path: Path, run: Run) -> None:
    with Data(tmp_path / "data") as data:
        data.fill("t", 0)
        data.fill("t", 1, count=3)
    words = ("t", tmp_path / "out", "--log-dir", tmp_path / "data", *PARTS)
    code, rows, errors = run(main_load, *words, "--dry-run")
    assert (code, errors) == (0, "headgate spark load: this was a dry run, nothing is loaded\n")
    assert [(row["partition"], row["from"], row["to"]) for row in rows] == [(0, 0, 79), (1, 0, 5)]
    assert not (tmp_path / "out").exists()

    code, rows, errors = run(main_load, *words)
    assert (code, errors) == (0, "")
    assert [(row["partition"], row["rows"], row["files"], row["gaps"]) for row in rows] == [
        (0, 80, 1, {}),
        (1, 6, 1, {}),
    ]
    assert run(main_load, *words)[::2] == (0, "headgate spark load: there is nothing new; the folder is as it was\n")

    code, rows, errors = run(main_verify, tmp_path / "out", "--json")
    assert (code, errors) == (0, "")
    assert rows[0] == {"topic": "t", "partition": 0, "offsets": "0-79", "rows": 80, "gaps": {}}
    next((tmp_path / "out").glob("part-t-1-*")).unlink()
    code, _, errors = run(main_verify, tmp_path / "out", "--json")
    assert code == 1
    assert "is missing, and with it t-1 from 0 to 5" in errors


def test_a_table_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Data(tmp_path / "data") as data:
        data.fill("t", 0, count=2)
    words = ["t", str(tmp_path / "out"), "--log-dir", str(tmp_path / "data"), "--processes", "1", "--table"]
    assert main_load(words) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["LOAD", "TOPIC", "PARTITION", "FROM", "TO", "ROWS", "FILES", "GAPS"]
    assert row.split() == ["1", "t", "0", "0", "3", "4", "1", "-"]


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["t", "out"], "name the origin: --bootstrap-server host:port, or --log-dir directory, or both"),
        (["t", "out", "--log-dir", "d", "--from", "earliest"], "'earliest' is no time"),
        (["t", "out", "--log-dir", "d", "--from", "later"], "'later' is no target"),
        (["t", "out", "--log-dir", "d", "--file-size", "5x"], "'5x' is no size; write 64m or 1g"),
        (["t", "out", "--log-dir", "d", "--processes", "0"], "'0' is no number from 1 on"),
        (["t", "out", "--log-dir", "d", "--reject-limit", "-1"], "'-1' is no number from 0 on"),
        (["t", "out", "--log-dir", "d", "--conf", "x"], "'x' is no setting; write name=value"),
        (["t", "out", "--log-dir", "d", "--format", "xml"], "invalid choice: 'xml'"),
    ],
)
def test_wrong_usage_is_named(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main_load(words)
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["--format", "json"], "--format json needs --schema file"),
        (["--schema", "x"], "--format raw takes no --schema"),
        (["--state", "x"], "--state is for tables"),
        (["--into", "iceberg"], "a table of Iceberg needs --state folder"),
        (["--into", "delta", "--format", "protobuf", "--schema", "x", "--message", "m"], "--schema x: No such file"),
    ],
)
def test_options_that_do_not_fit_are_named(words: list[str], sentence: str, tmp_path: Path, run: Run) -> None:
    code, _, errors = run(main_load, "t", tmp_path / "out", "--log-dir", tmp_path, *PARTS, *words)
    assert code == 1
    assert sentence in errors
    assert not (tmp_path / "out").exists()


def test_a_folder_without_a_load_is_no_sound_one(tmp_path: Path, run: Run) -> None:
    assert "has no published load" in run(main_verify, tmp_path)[2]
    assert "there is no folder" in run(main_verify, tmp_path / "none")[2]
