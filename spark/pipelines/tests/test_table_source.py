"""The table of a replay, by its name."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from headgate.spark.load.loading import LoadRequest, load
from headgate.spark.load.output.folder import OutputFolder
from headgate.spark.load.runners import SequentialRunner
from headgate.spark.load.tests.model_log import TOPIC, ModelLog
from headgate.spark.load.tests.test_loading import Listener
from headgate.spark.pipelines.table_source import TableSource, find_source
from headgate.tools.output import UsageError


class FakeReader:
    """Takes the place of a session and of its reader."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    @property
    def read(self) -> FakeReader:
        return self

    def parquet(self, *paths: str) -> None:
        self.paths = list(paths)


def test_a_folder_of_loads_has_the_files_of_a_version(tmp_path: Path) -> None:
    log, out = ModelLog.random(1), OutputFolder(tmp_path / "out")
    load(LoadRequest((TOPIC,)), log, out, SequentialRunner(), Listener())
    source = find_source(str(tmp_path / "out"))
    assert source == TableSource("parquet", str(tmp_path / "out"))
    assert (source.formats, source.version(None)) == ((), "1")
    before = {str(path) for path in (tmp_path / "out").glob("*.parquet")}
    log.partitions[0].append(Random(1), "plain")
    load(LoadRequest((TOPIC,)), log, out, SequentialRunner(), Listener())
    reader = FakeReader()
    source.rows(reader, "1")
    assert set(reader.paths) == before
    source.rows(reader, "2")
    assert set(reader.paths) == {str(path) for path in (tmp_path / "out").glob("*.parquet")} != before
    with pytest.raises(UsageError, match="'x' is no version"):
        source.rows(reader, "x")
    with pytest.raises(UsageError, match="is missing"):
        source.rows(reader, "3")


def test_tables_are_found_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "table/_delta_log").mkdir(parents=True)
    assert find_source(str(tmp_path / "table")) == TableSource("delta", str(tmp_path / "table"))
    assert find_source("s3a://bucket/t") == TableSource("delta", "s3a://bucket/t")
    assert find_source("iceberg.db.t").formats == ("iceberg",)
    for name, sentence in {
        str(tmp_path): "is no table of Delta, and no folder of `headgate spark load`",
        str(tmp_path / "none"): "a table of Iceberg is catalog.namespace.table",
        "a.b; DROP": "there is no folder a.b; DROP",
    }.items():
        with pytest.raises(UsageError, match=sentence):
            find_source(name)
    (tmp_path / "empty/_headgate").mkdir(parents=True)
    with pytest.raises(UsageError, match="has no published load"):
        find_source(str(tmp_path / "empty"))
