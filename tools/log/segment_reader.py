"""Batches and records of a partition's segments, or of one file of batches with any name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from headgate.protocol.errors import KafkaError
from headgate.protocol.records import batch, legacy
from headgate.protocol.records.batch import BatchHeader, Record
from headgate.storage.disk.layout import base_of
from headgate.storage.disk.pool import Pool
from headgate.storage.files import Files
from headgate.storage.segment.index import OffsetIndex, TimeIndex
from headgate.storage.segment.legacy_messages import MAGIC_POSITION
from headgate.storage.segment.segment import Segment
from headgate.storage.segment.segment_file import LOG_SUFFIX
from headgate.storage.segment.transaction_index import TransactionIndex

_SUFFIXES = (LOG_SUFFIX, OffsetIndex.SUFFIX, TimeIndex.SUFFIX, TransactionIndex.SUFFIX)


class DamagedLog(Exception):
    """The bytes of a file from `position` on are no batch; the expected offset there is `next_offset`."""

    def __init__(self, path: str, position: int, next_offset: int, problem: str) -> None:
        self.path, self.position, self.next_offset, self.problem = path, position, next_offset, problem
        super().__init__(
            f"{path}: byte {position}, offset {next_offset}: {problem}; "
            "`headgate log verify` checks the whole file, `headgate log repair` keeps the batches behind the damage"
        )


class LogFile(Segment):
    """A file of batches without the name of a segment: quarantined or deleted batches, or a KRaft snapshot.

    The name of a KRaft snapshot is the offset of its end; the offsets of its own records begin at 0.
    """

    __slots__ = ("_name",)

    def __init__(self, pool: Pool, path: str) -> None:
        directory, _, self._name = path.rpartition("/")
        base_offset = base_of(self._name.partition(LOG_SUFFIX)[0] + LOG_SUFFIX) or 0
        super().__init__(pool, directory or ".", base_offset, (pool.files.size(path), -1, -1, -1))
        self.has_legacy_format = _begins_with_a_message(pool.files, path)

    @property
    def path(self) -> str:
        return f"{self.directory}/{self._name}"


class StoredBatch(NamedTuple):
    """A batch and its position in a segment."""

    segment: Segment
    position: int
    header: BatchHeader

    def content(self) -> bytes:
        """All bytes of the batch. Raises OSError."""
        return self.segment.file.read_at(self.header.size, self.position)

    def records(self) -> Iterator[Record]:
        """The records of the batch, also of a control batch. Raises DamagedLog for unreadable records, OSError."""
        iterate = batch.iterate if self.header.magic == batch.MAGIC else legacy.iterate
        try:
            yield from iterate(self.content())
        except KafkaError as error:
            raise DamagedLog(self.segment.path, self.position, self.header.base_offset, error.message) from None


def open_segments(pool: Pool, directory: str, names: Mapping[str, int]) -> list[Segment]:
    """The segments of a partition's directory in order of their offsets. `names`: file name -> size in bytes."""
    bases = sorted(base for name in names if name.endswith(LOG_SUFFIX) and (base := base_of(name)) is not None)
    found = [
        Segment(pool, directory, base, [names.get(f"{base:020d}{suffix}", -1) for suffix in _SUFFIXES])
        for base in bases
    ]
    for segment in found:
        segment.has_legacy_format = _begins_with_a_message(pool.files, segment.path)
    return found


def _begins_with_a_message(files: Files, path: str) -> bool:
    """True if a file begins with a message of magic 0 or 1; old messages come before all batches of magic 2."""
    file = files.open(path)
    try:
        head = file.read_at(MAGIC_POSITION + 1, 0)
    finally:
        file.release()
    return len(head) > MAGIC_POSITION and head[MAGIC_POSITION] < batch.MAGIC


def iterate_batches(
    found: Sequence[Segment], from_offset: int = 0, to_offset: int | None = None
) -> Iterator[StoredBatch]:
    """The batches with offsets from `from_offset` to before `to_offset` (None: all). Raises DamagedLog, OSError."""
    for segment in _from_segment_with(found, from_offset):
        iterator = segment.iterate()
        for position, header in iterator:
            if to_offset is not None and header.base_offset >= to_offset:
                return
            if header.last_offset >= from_offset:
                yield StoredBatch(segment, position, header)
        segment.close()
        if iterator.problem is not None:
            raise DamagedLog(segment.path, iterator.position, iterator.next_offset, iterator.problem)


def _from_segment_with(found: Sequence[Segment], from_offset: int) -> Iterable[Segment]:
    first = max(0, sum(segment.base_offset <= from_offset for segment in found) - 1)
    return found[first:]
