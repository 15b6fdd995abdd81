"""`headgate spark table`: options and refusals; the table itself needs Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headgate.spark.load.output.documents import Manifest
from headgate.spark.load.output.planning import TaskFailed
from headgate.spark.table import command
from headgate.spark.table.command import main
from headgate.tools.tests.log_data import Data


class Screen:
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)


def test_a_dry_run_shows_the_first_merge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Data(tmp_path / "data") as data:
        data.fill("t", 0, count=2)
    words = ["t", str(tmp_path / "out"), "--log-dir", str(tmp_path / "data"), "--dry-run", "--json"]
    assert main(words) == 0
    out, errors = capsys.readouterr()
    (row,) = [json.loads(line) for line in out.splitlines()]
    assert (row["load"], row["topic"], row["from"], row["to"]) == (1, "t", 0, 3)
    assert errors == "headgate spark table: this was a dry run, nothing is loaded\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["--table-format", "parquet"], "write --table-format delta or --table-format iceberg"),
        (["--table-format", "iceberg"], "a table of Iceberg needs --state folder"),
        (["--format", "debezium", "--confluent"], "--format debezium takes no --confluent; it takes --schema"),
        (["--format", "json"], "--format json needs --schema file"),
    ],
)
def test_what_cannot_be_is_named(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["t", "out", "--log-dir", "d", *words]) == 1
    assert sentence in capsys.readouterr().err


def test_an_origin_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["t", "out"])
    assert "name the origin" in capsys.readouterr().err


@pytest.mark.slow
def test_a_merge_is_tried_again_if_another_writer_was_faster() -> None:
    errors = pytest.importorskip("pyspark.errors")
    screen, tries = Screen(), []

    def merge(text: str, until: int) -> list[Manifest]:
        tries.append(text)
        if len(tries) < until:
            raise errors.PySparkException(text)
        return []

    assert command.tried(lambda: merge("DELTA_CONCURRENT_APPEND", 3), screen.note) == []
    assert [note.partition("; ")[2] for note in screen.notes] == ["try 2 of 3 begins", "try 3 of 3 begins"]
    tries.clear()
    with pytest.raises(TaskFailed, match="Spark could not merge: no such column"):
        command.tried(lambda: merge("no such column", 3), screen.note)
    assert len(tries) == 1


def test_a_table_in_an_object_store_needs_a_folder_of_positions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["t", "s3a://bucket/t", "--log-dir", "d"]) == 1
    assert "give --state folder, for plans and positions" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["-1", "x", "nan", "inf"])
def test_a_pause_is_a_number_of_seconds(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["t", "out", "--log-dir", "d", "--every", text])
    assert "is no number of seconds" in capsys.readouterr().err or text == "-1"
