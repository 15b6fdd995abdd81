from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.load.output.folder import OutputFolder
from headgate.spark.load.output.row_files import FileOptions, RowFiles


def rows(first: int, count: int) -> pa.RecordBatch:
    offsets, places = np.arange(first, first + count), np.arange(count + 1, dtype=np.int32) * 100
    columns = [
        pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(offsets)]),
        pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(places), pa.py_buffer(b"v" * 100 * count)]),
    ]
    return pa.RecordBatch.from_arrays(columns, ["offset", "value"])


def test_files_have_the_wanted_size_and_their_offsets_as_names(tmp_path: Path) -> None:
    output = OutputFolder(tmp_path)
    files = RowFiles(output, ".", TopicPartition("t", 7), FileOptions("none", 30_000, 10_000), "x")
    for first in range(0, 1000, 50):
        files.write(rows(first, 50))
    files.write(rows(0, 0))
    found = files.finish()
    assert sum(one.rows for one in found) == 1000
    assert len(found) == 4
    expected = 0
    for one in found:
        assert one.first_offset == expected
        assert one.name == f"part-t-7-{one.first_offset:020}-{one.last_offset:020}.parquet"
        assert one.work_name == f"./{one.name}.x"
        measured = output.measure(one.work_name)
        assert measured is not None
        assert (measured.size_bytes, measured.sha256) == (one.size_bytes, one.sha256)
        table = pq.ParquetFile(tmp_path / one.work_name).read()
        assert table.column("offset").to_pylist() == list(range(expected, one.last_offset + 1))
        expected = one.last_offset + 1
    assert len(output.list(".")) == 4


def test_what_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    output = OutputFolder(tmp_path)
    files = RowFiles(output, ".", TopicPartition("t", 0), FileOptions("zstd", 15_000, 10_000), "x")
    for first in range(0, 550, 50):
        files.write(rows(first, 50))
    assert output.list(".") != []
    files.abandon()
    assert output.list(".") == []


def test_a_name_is_never_hidden_or_too_long(tmp_path: Path) -> None:
    names = set()
    for topic in ("_hidden", "t" * 249, "t" * 248 + "u"):
        files = RowFiles(OutputFolder(tmp_path), ".", TopicPartition(topic, (1 << 31) - 1), FileOptions(), "1" * 16)
        files.write(rows(0, 1))
        (one,) = files.finish()
        assert one.name.startswith("part-")
        names.add(one.name)
    assert len(names) == 3
