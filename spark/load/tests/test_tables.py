"""Tables of Delta and Iceberg in one real Spark session. Only `make soak` runs this."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headgate.spark.load.loading import LoadRequest, load
from headgate.spark.load.output import tables
from headgate.spark.load.output.folder import FolderLocked, OutputFolder
from headgate.spark.load.output.load_log import LoadLog
from headgate.spark.load.output.planning import LoadRefused
from headgate.spark.load.output.tables import TableName
from headgate.spark.load.runners import SparkRunner
from headgate.spark.load.tests.model_log import TOPIC, ModelLog
from headgate.spark.load.tests.test_loading import Killed, Listener, contents
from headgate.spark.load.verification import verify

in_spark = [pytest.mark.soak, pytest.mark.sockets, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def test_a_name_of_iceberg_is_checked() -> None:
    with pytest.raises(LoadRefused, match=r"write catalog\.namespace"):
        TableName("iceberg", "a.b; DROP TABLE c", "1").open(None)
    assert TableName("iceberg", "a.b.c", "1").open(None) is not None
    assert TableName("delta", "/any `path", "1").open(None) is not None


def request_for(kind: str, path: Path) -> LoadRequest:
    name = str(path / "table") if kind == "delta" else f"iceberg.db.t{abs(hash(path))}"
    return LoadRequest((TOPIC,), into=kind, table=name)


def table_rows(runner: SparkRunner, request: LoadRequest) -> dict[tuple[int, int], tuple[bytes | None, bytes | None]]:
    if request.into == "delta":
        frame = runner.session.read.format("delta").load(request.table)
    else:
        frame = runner.session.table(request.table)
    rows = frame.select("partition", "offset", "key", "value").collect()
    found = {(row.partition, row.offset): (row.key and bytes(row.key), row.value and bytes(row.value)) for row in rows}
    assert len(found) == len(rows), "an offset is in the table twice"
    return found


@pytest.mark.parametrize("kind", [pytest.param(one, marks=in_spark) for one in ("delta", "iceberg")])
def test_loads_into_a_table_follow_each_other(runner: SparkRunner, tmp_path: Path, kind: str) -> None:
    log, request = ModelLog.random(1), request_for(kind, tmp_path)
    output = OutputFolder(tmp_path / "state")
    for _ in range(2):
        load(request, log, output, runner, Listener())
        assert table_rows(runner, request) == contents(log)
        log.partitions[1].grow(Random(5), 4)
    assert verify(output)[1] == []
    with pytest.raises(LoadRefused, match="earlier loads went into"):
        load(request._replace(table=""), log, output, runner, Listener())
    with LoadLog(output).lock(), pytest.raises(FolderLocked):
        load(request, log, OutputFolder(output.path), runner, Listener())


@pytest.mark.parametrize("kind", [pytest.param(one, marks=in_spark) for one in ("delta", "iceberg")])
@pytest.mark.parametrize("moment", ["append", "publish", "manifest", "results"])
def test_a_table_has_a_load_once_whatever_kills_it(
    runner: SparkRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, moment: str
) -> None:
    """The driver dies after the commit, before the publication, before the manifest; the results may be lost too."""
    log, request = ModelLog.random(2), request_for(kind, tmp_path)
    path = tmp_path / "state"
    cls = tables.DeltaTable if kind == "delta" else tables.IcebergTable

    def step(what: str) -> None:
        if moment in ("manifest", "results") and what.startswith("before create _headgate/manifests"):
            raise Killed

    with monkeypatch.context() as patch:
        if moment in ("append", "publish"):
            whole = getattr(cls, moment)

            def die(self: Any, *arguments: Any) -> None:
                if moment == "append":
                    whole(self, *arguments)
                raise Killed

            patch.setattr(cls, moment, die)
        with pytest.raises(Killed):
            load(request, log, OutputFolder(path, step), runner, Listener())
    if moment == "results":
        for file in path.glob("_headgate/work/*/result-*"):
            file.unlink()
    log.partitions[0].grow(Random(5), 4)
    load(request, log, OutputFolder(path), runner, Listener())
    assert table_rows(runner, request) == contents(log)
    assert verify(OutputFolder(path))[1] == []


@pytest.mark.parametrize("kind", [pytest.param(one, marks=in_spark) for one in ("delta", "iceberg")])
def test_two_loads_at_once_without_a_lock(
    runner: SparkRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """As on a file system without locks: each may fail, and the table has each row once, also after the next load."""
    log, request = ModelLog.random(4), request_for(kind, tmp_path)
    output = OutputFolder(tmp_path / "state")
    monkeypatch.setattr(OutputFolder, "lock", lambda self, name: contextlib.nullcontext())
    start = threading.Barrier(2)

    def try_load(_: int) -> Exception | None:
        start.wait()
        try:
            load(request, log, OutputFolder(output.path), runner, Listener())
        except Exception as error:  # noqa: BLE001
            return error
        return None

    for _ in range(3):
        with ThreadPoolExecutor(2) as pool:
            failures = list(pool.map(try_load, range(2)))
        assert None in failures or not any(output.list("_headgate/manifests")), failures
        load(request, log, output, runner, Listener())
        assert table_rows(runner, request) == contents(log)
        log.partitions[1].grow(Random(6), 3)
    assert verify(output)[1] == []
    assert len(list(LoadLog(output).manifests())) == 3


@pytest.mark.soak
@pytest.mark.sockets
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_loads_of_two_tables_at_once(runner: SparkRunner, tmp_path: Path) -> None:
    """Iceberg takes the id of a commit from the session, which both share."""
    log = ModelLog.random(5)
    requests = [request_for("iceberg", tmp_path / name) for name in ("one", "two")]
    with ThreadPoolExecutor(2) as pool:
        for request in requests:
            folder = OutputFolder(tmp_path / request.table)
            pool.submit(load, request, log, folder, runner, Listener())
    for request in requests:
        assert table_rows(runner, request) == contents(log)
        assert verify(OutputFolder(tmp_path / request.table))[1] == []
