"""A simulated disk for readers, and what a consumer makes of the batches that it gets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from headgate.protocol.records import batch, legacy
from headgate.protocol.records.aborted_batches import AbortedBatches
from headgate.protocol.records.batch import Record
from headgate.spark.reading.log_reader import FetchedBatches, OffsetRange
from headgate.storage.directory.kafka_directory import OWN_METADATA
from headgate.storage.files import NO_DESCRIPTOR, File, Files
from headgate.storage.segment import legacy_messages
from headgate.storage.tests.crashing_files import CrashingFiles


class ViewedFile(File):
    """An open file that cannot be changed."""

    __slots__ = ("_file",)

    def __init__(self, file: File) -> None:
        super().__init__(NO_DESCRIPTOR)
        self._file = file

    def close(self) -> None:
        self._file.release()

    def read_at(self, length: int, position: int) -> bytes:
        return self._file.read_at(length, position)

    def read_cached(self, length: int, position: int) -> bytes | bytearray | None:
        return self._file.read_cached(length, position)

    def size(self) -> int:
        return self._file.size()

    def truncate(self, size: int) -> None:
        """As with a file on a disk that is only read."""

    def sync(self) -> None:
        """Nothing was written."""

    def write_at(self, data: memoryview | bytearray | bytes, position: int) -> None:
        raise AssertionError("a reader writes")


class SimulatedDisk(Files):
    """A disk of Headgate in memory, for reading only; `before` runs before each operation."""

    def __init__(self, files: CrashingFiles, before: Callable[[], None] = lambda: None) -> None:
        self.files = files
        self.before = before

    def open(self, path: str, *, create: bool = False) -> File:
        self.before()
        return ViewedFile(self.files.open(path))

    def read(self, path: str) -> bytes:
        self.before()
        return self.files.read(path)

    def exists(self, path: str) -> bool:
        self.before()
        return path.endswith(OWN_METADATA) or self.files.exists(path)

    def size(self, path: str) -> int:
        self.before()
        return self.files.size(path)

    def list(self, path: str) -> dict[str, int]:
        self.before()
        return self.files.list(path)

    def modified_ms(self, path: str) -> int:
        return self.files.modified_ms(path)

    def identity(self, path: str) -> str:
        self.before()
        return str(id(self.files.file(path)))


def batches_in(data: memoryview) -> Iterator[memoryview]:
    """The batches and messages in whole ones, one by one."""
    while data:
        size = legacy_messages.size_at(data)
        assert size is not None
        assert size <= len(data), "whole batches"
        yield data[:size]
        data = data[size:]


def records(pieces: Iterable[FetchedBatches], wanted: OffsetRange) -> list[Record]:
    """The records that a consumer gets from a range; and the pieces are as `FetchedBatches` says."""
    found, expected, end = list[Record](), 0, wanted.start_offset
    for piece in pieces:
        view = memoryview(piece.batches)
        aborted = AbortedBatches(piece.aborted)
        for one in batches_in(view):
            header = legacy_messages.read_head(one)
            assert header.last_offset >= expected
            expected = header.last_offset + 1
            if aborted.includes(header, one) or header.is_control:
                continue
            iterate = batch.iterate if header.magic == batch.MAGIC else legacy.iterate
            in_range = (record for record in iterate(one) if wanted.start_offset <= record.offset < wanted.end_offset)
            found += in_range
        assert piece.next_offset >= end
        end = piece.next_offset
        assert expected <= end
    assert end >= wanted.end_offset
    return found
