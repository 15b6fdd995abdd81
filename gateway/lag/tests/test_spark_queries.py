"""Queries of Spark: read from checkpoints as Spark writes them, and named where they cannot be read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.lag.readers import NO_TIME, Committed, GroupReading
from headgate.gateway.lag.spark_queries import MAX_HANGING, READ_MS, CheckpointFolder, SparkQueries
from headgate.gateway.runtime.tasks import Tasks
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.protocol.spark.checkpoint_files import MAX_FILE_BYTES, MalformedCheckpoint
from headgate.storage.files import Files


def write(path: Path, name: str, content: str) -> None:
    (path / name).parent.mkdir(parents=True, exist_ok=True)
    (path / name).write_text(content)


def do(path: Path, batch: int, offsets: Mapping[str, Any] | str, planned_ms: int = 0, *, commits: bool = True) -> None:
    """A batch of the format `kafka`."""
    write(path, "metadata", json.dumps({"id": "q"}))
    text = offsets if isinstance(offsets, str) else json.dumps(offsets)
    write(path, f"offsets/{batch}", f'v1\n{{"batchTimestampMs":{planned_ms}}}\n{text}')
    if commits:
        write(path, f"commits/{batch}", "v1\n{}")


class Reader:
    """The queries of a setting, read at once, unless a test holds the threads."""

    def __init__(self, **directories: Path) -> None:
        self.time = ManualTime()
        self.tasks = Tasks(self.time.clock, self.time.scheduler)
        texts = {name: str(path) for name, path in directories.items()}
        self.queries = SparkQueries(Files(), self.time.scheduler, texts)

    def begin(self) -> list[Any]:
        found: list[Any] = []
        self.tasks.start(self.queries.read(), found.append)
        self.time.advance()
        return found

    def read(self) -> list[GroupReading]:
        (readings,) = self.begin()
        assert isinstance(readings, list)
        return readings


def test_a_query_is_behind_its_last_done_batch(tmp_path: Path) -> None:
    do(tmp_path, 0, {"t": {"0": 3}}, 1_000)
    do(tmp_path, 1, {"t": {"0": 5, "1": 6}}, 2_000)
    do(tmp_path, 2, {"t": {"0": 9, "1": 9}}, 3_000, commits=False)
    (reading,) = Reader(orders=tmp_path).read()
    assert reading == GroupReading(
        "spark:orders", "spark", offsets={"t": {0: Committed(5, 2_000), 1: Committed(6, 2_000)}}
    )


def test_a_query_that_has_done_nothing_is_at_its_beginning(tmp_path: Path) -> None:
    do(tmp_path, 0, {"t": {"0": 9}}, commits=False)
    write(tmp_path, "sources/0/0", '{"t":{"0":4}}')
    (reading,) = Reader(q=tmp_path).read()
    assert reading.offsets == {"t": {0: Committed(4, NO_TIME)}}


@pytest.mark.parametrize(
    "content, error",
    [
        ("", r"cannot read .*: no checkpoint of a query"),
        ('{"t":{"0":', r"cannot read .*: the offsets of a source are no whole JSON"),
        ('{"logOffset":4}', r"has no offsets of Kafka's topics yet"),
    ],
)
def test_an_unreadable_checkpoint_is_named_without_lag(tmp_path: Path, content: str, error: str) -> None:
    if content:
        do(tmp_path, 0, content)
    (reading,) = Reader(q=tmp_path).read()
    assert (reading.name, reading.offsets) == ("spark:q", {})
    assert reading.error is not None
    assert re.search(error, reading.error)


def test_a_query_is_named_before_it_is_read(tmp_path: Path) -> None:
    (reading,) = Reader(q=tmp_path).queries.unread()
    assert reading == GroupReading("spark:q", "spark", error=f"{tmp_path} is not read yet")


def test_a_refusing_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Files, "list", refuse)
    (reading,) = Reader(q=tmp_path).read()
    assert reading.error == f"cannot read {tmp_path}: Permission denied"


def test_a_folder_that_hangs_keeps_one_thread(tmp_path: Path) -> None:
    """The survey goes on without it, and reads it again once the thread is free."""
    do(tmp_path, 0, {"t": {"0": 3}})
    reader = Reader(q=tmp_path)
    held = reader.time.scheduler.hold()
    first = reader.begin()
    reader.time.advance(READ_MS)
    (((reading,),)) = first
    assert reading.error == f"{tmp_path} does not answer"
    assert reader.read()[0].error == f"{tmp_path} does not answer"
    assert len(held.waiting) == 1
    held.run_all()
    reader.time.scheduler.release()
    assert reader.read()[0].error is None


def test_few_threads_hang(tmp_path: Path) -> None:
    reader = Reader(**{f"q{number}": tmp_path for number in range(MAX_HANGING + 1)})
    held = reader.time.scheduler.hold()
    found = reader.begin()
    reader.time.advance(READ_MS)
    reader.time.advance(READ_MS)
    assert len(held.waiting) == MAX_HANGING
    assert "is not read while 4 other checkpoints" in found[0][-1].error


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "metadata").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(MalformedCheckpoint, match="more than 64 MiB"):
        CheckpointFolder(Files(), str(tmp_path)).read("metadata")
    assert CheckpointFolder(Files(), str(tmp_path)).read("metadata/x") is None
    assert CheckpointFolder(Files(), str(tmp_path)).names("metadata") == []
