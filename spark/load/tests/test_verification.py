from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headgate.spark.load.output.documents import DamagedDocument
from headgate.spark.load.output.folder import OutputFolder
from headgate.spark.load.tests.model_log import ModelLog
from headgate.spark.load.tests.test_loading import MODEST, run
from headgate.spark.load.verification import verify

pytestmark = pytest.mark.slow  # the first Parquet file of a process


@pytest.fixture
def loaded(tmp_path: Path) -> OutputFolder:
    log = ModelLog.random(1, partitions=1)
    run(log, OutputFolder(tmp_path), MODEST)
    return OutputFolder(tmp_path)


def the_file(output: OutputFolder) -> Path:
    (path,) = output.path.glob("*.parquet")
    return path


def change_manifest(output: OutputFolder, change: Callable[[dict[str, Any]], object]) -> None:
    (path,) = output.path.glob("_headgate/manifests/*.json")
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def finding(output: OutputFolder) -> str:
    _, (found,) = verify(output)
    return found.text


def test_a_lost_file_is_named_with_its_range(loaded: OutputFolder) -> None:
    the_file(loaded).unlink()
    assert "is missing, and with it orders-0 from 0 to " in finding(loaded)


def test_a_changed_byte_is_named_with_its_range(loaded: OutputFolder) -> None:
    data = bytearray(the_file(loaded).read_bytes())
    data[len(data) // 2] ^= 1
    the_file(loaded).write_bytes(data)
    assert "was changed, so orders-0 from 0 to " in finding(loaded)


def test_a_file_of_no_load_is_named(loaded: OutputFolder) -> None:
    (loaded.path / "part-orders-0-7-8.parquet").write_bytes(the_file(loaded).read_bytes())
    assert "is of no load" in finding(loaded)


def test_missing_rows_are_found_whatever_the_manifest_says(loaded: OutputFolder) -> None:
    """The file has one row fewer, and the manifest has its new checksum."""
    path = the_file(loaded)
    table = pq.ParquetFile(path).read()
    pq.write_table(pa.concat_tables([table.slice(0, 2), table.slice(3)]), path)
    written = loaded.measure(path.name)
    assert written is not None

    def change(document: dict[str, Any]) -> None:
        (file,) = document["ranges"][0]["files"]
        file |= {"size_bytes": written.size_bytes, "sha256": written.sha256}

    change_manifest(loaded, change)
    assert f"has {table.num_rows - 1} rows in its files, and its gaps leave {table.num_rows}" in finding(loaded)


def test_positions_that_do_not_fit_are_found(loaded: OutputFolder) -> None:
    change_manifest(loaded, lambda document: document.update(covered={"orders": {"0": [[0, 5]]}}))
    assert "the positions of orders-0 do not fit its ranges" in finding(loaded)


def test_a_range_that_is_loaded_twice_is_found(loaded: OutputFolder) -> None:
    (path,) = loaded.path.glob("_headgate/manifests/*1.json")
    document = json.loads(path.read_text()) | {"number": 2}
    path.with_name(f"{2:020}.json").write_text(json.dumps(document))
    assert "load 2: orders-0 from 0 to" in finding(loaded)


@pytest.mark.parametrize("has_hint", [False, True])
def test_a_lost_manifest_is_no_empty_folder(loaded: OutputFolder, *, has_hint: bool) -> None:
    (path,) = loaded.path.glob("_headgate/manifests/*.json")
    path.rename(path.with_name(f"{3:020}.json"))
    if not has_hint:
        (loaded.path / "_headgate/latest").unlink()
    with pytest.raises(DamagedDocument, match=r"manifests/0*1.json is missing"):
        run(ModelLog.random(1, partitions=1), loaded, MODEST)


def test_files_of_a_table_are_not_those_of_loads(loaded: OutputFolder) -> None:
    """Delta's own files lie beside the positions, with names like ours."""

    def change(document: dict[str, Any]) -> None:
        document["options"] |= {"into": "delta", "table": str(loaded.path)}
        for one in document["ranges"]:
            one["files"] = []

    change_manifest(loaded, change)
    assert verify(loaded)[1] == []


def test_rows_of_a_table_of_last_values_are_not_counted(loaded: OutputFolder) -> None:
    def change(document: dict[str, Any]) -> None:
        document["options"] |= {"into": "delta", "table": str(loaded.path), "mode": "merge"}
        for one in document["ranges"]:
            one["files"] = []

    change_manifest(loaded, change)
    assert verify(loaded, lambda _: pytest.fail("the table was opened"))[1] == []
