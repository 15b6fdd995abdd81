"""Parquet files of one range: rows go to hidden files, each of about the wanted size."""

from __future__ import annotations

import contextlib
import hashlib
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.load.output.documents import LoadedFile
from headgate.spark.load.output.folder import DataFile, OutputFolder

_LONGEST_TOPIC = 120
_DELTA = "DELTA_BINARY_PACKED"
_ENCODINGS = {"offset": _DELTA, "timestamp": _DELTA}
_DICTIONARIES = ["topic", "partition", "timestampType"]
_STATISTICS = ["topic", "partition", "offset", "timestamp"]


class FileOptions(NamedTuple):
    """How rows become files. A file grows by whole row groups, so it may become larger than `file_bytes`."""

    codec: str = "zstd"
    file_bytes: int = 256 << 20
    row_group_bytes: int = 32 << 20


class RowFiles:
    """The files of one attempt of a task; they count only if the task's result names them."""

    def __init__(
        self, output: OutputFolder, work: str, partition: TopicPartition, options: FileOptions, attempt: str
    ) -> None:
        self._output, self._work, self._attempt = output, work, attempt
        self._partition, self._options = partition, options
        self._files: list[LoadedFile] = []
        self._batches: list[Any] = []
        self._bytes = 0
        self._file: DataFile | None = None
        self._writer: Any = None
        self._first = self._last = -1
        self._rows = 0

    def write(self, batch: Any) -> None:
        """Append a record batch with rows in order of their offsets. Raises FolderError."""
        if not batch.num_rows:
            return
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= self._options.row_group_bytes:
            self._write_group()

    def finish(self) -> list[LoadedFile]:
        """Close the last file; all files, each synced. Raises FolderError."""
        self._write_group()
        self._close()
        if self._files:
            self._output.sync(self._work)
        return self._files

    def abandon(self) -> None:
        if self._file is not None and not self._file.closed:
            with contextlib.suppress(OSError, ValueError):  # the disk may be full
                self._writer.close()
            self._file.close()
            self._output.remove(self._file.name)
        for file in self._files:
            self._output.remove(file.work_name)
        self._files = []

    def _write_group(self) -> None:
        if not self._batches:
            return
        table = pa.Table.from_batches(self._batches)
        offsets = table.column("offset")
        if self._writer is None:
            self._first = offsets[0].as_py()
            self._open(table.schema)
        self._last = offsets[-1].as_py()
        self._rows += table.num_rows
        self._batches, self._bytes = [], 0
        self._writer.write_table(table, row_group_size=table.num_rows)
        assert self._file is not None
        if self._file.size_bytes >= self._options.file_bytes:
            self._close()

    def _open(self, schema: Any) -> None:
        self._file = self._output.write(f"{self._work}/{self._partition_name()}-{self._first:020}.{self._attempt}")
        names = schema.names
        self._writer = pq.ParquetWriter(
            self._file,
            schema,
            compression=self._options.codec,
            use_dictionary=[name for name in _DICTIONARIES if name in names],
            column_encoding={name: encoding for name, encoding in _ENCODINGS.items() if name in names},
            write_statistics=[name for name in _STATISTICS if name in names],
        )

    def _close(self) -> None:
        if self._writer is None:
            return
        assert self._file is not None
        self._writer.close()
        written = self._file.finish()
        name = f"{self._partition_name()}-{self._first:020}-{self._last:020}.parquet"
        work_name = f"{self._work}/{name}.{self._attempt}"
        self._output.rename(written.name, work_name)
        self._files.append(
            LoadedFile(name, work_name, self._first, self._last, self._rows, written.size_bytes, written.sha256)
        )
        self._file = self._writer = None
        self._rows = 0

    def _partition_name(self) -> str:
        """`part-<topic>-<partition>`: no topic's name makes the file a hidden one, or too long a name."""
        topic, number = self._partition
        if len(topic) > _LONGEST_TOPIC:
            topic = f"{topic[:_LONGEST_TOPIC]}-{hashlib.sha256(topic.encode()).hexdigest()[:12]}"
        return f"part-{topic}-{number}"
