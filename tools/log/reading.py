"""Batches and records of a partition's segments, or of one file of batches under any name."""

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
from headgate.storage.segment.segment import LOG_SUFFIX, Segment
from headgate.storage.segment.transaction_index import TransactionIndex

_SUFFIXES = (LOG_SUFFIX, OffsetIndex.SUFFIX, TimeIndex.SUFFIX, TransactionIndex.SUFFIX)


class Damaged(Exception):
    """A file goes on with something that is no batch. `next_offset` would come there."""

    def __init__(self, path: str, position: int, next_offset: int, problem: str) -> None:
        self.path, self.position, self.next_offset, self.problem = path, position, next_offset, problem
        super().__init__(
            f"{path}: byte {position}, offset {next_offset}: {problem}; "
            "`headgate log verify` looks at all of it, `headgate log repair` goes on behind it"
        )


class LogFile(Segment):
    """A file of batches that has another name than a segment: set aside, deleted, or a snapshot of KRaft's.

    A snapshot is named by the offset that it stands for, and numbers its own records from 0 on.
    """

    __slots__ = ("_name",)

    def __init__(self, pool: Pool, path: str) -> None:
        directory, _, self._name = path.rpartition("/")
        base_offset = base_of(self._name.partition(LOG_SUFFIX)[0] + LOG_SUFFIX) or 0
        super().__init__(pool, directory or ".", base_offset, (pool.files.size(path), -1, -1, -1))
        self.has_legacy_format = _begins_with_a_message(pool.files, path)

    @property
    def path(self) -> str:
        """Where it is."""
        return f"{self.directory}/{self._name}"


class Stored(NamedTuple):
    """A batch, and where it lies."""

    segment: Segment
    position: int
    header: BatchHeader

    def content(self) -> bytes:
        """All of its bytes. Raises OSError."""
        return self.segment.file.read_at(self.header.size, self.position)

    def records(self) -> Iterator[Record]:
        """Its records; those of a transaction marker too. Raises Damaged for what cannot be read, OSError."""
        iterate = batch.iterate if self.header.magic == batch.MAGIC else legacy.iterate
        try:
            yield from iterate(self.content())
        except KafkaError as error:
            raise Damaged(self.segment.path, self.position, self.header.base_offset, error.message) from None


def segments(pool: Pool, directory: str, names: Mapping[str, int]) -> list[Segment]:
    """The segments of a partition's directory, in order."""
    bases = sorted(base for name in names if name.endswith(LOG_SUFFIX) and (base := base_of(name)) is not None)
    found = [
        Segment(pool, directory, base, [names.get(f"{base:020d}{suffix}", -1) for suffix in _SUFFIXES])
        for base in bases
    ]
    for segment in found:
        segment.has_legacy_format = _begins_with_a_message(pool.files, segment.path)
    return found


def _begins_with_a_message(files: Files, path: str) -> bool:
    """Whether a file begins with a message of magic 0 or 1: in one that has any, they come first."""
    file = files.open(path)
    try:
        head = file.read_at(MAGIC_POSITION + 1, 0)
    finally:
        file.release()
    return len(head) > MAGIC_POSITION and head[MAGIC_POSITION] < batch.MAGIC


def batches(
    found: Sequence[Segment], from_offset: int = 0, to_offset: int | None = None, *, check_crc: bool = False
) -> Iterator[Stored]:
    """The batches that hold offsets from `from_offset` on and before `to_offset`. Raises Damaged, OSError."""
    for segment in _holding(found, from_offset):
        walk = segment.iterate()
        if check_crc:
            walk.check_crc_from = from_offset
        for position, header in walk:
            if to_offset is not None and header.base_offset >= to_offset:
                return
            if header.last_offset >= from_offset:
                yield Stored(segment, position, header)
        segment.close()
        if walk.problem is not None:
            raise Damaged(segment.path, walk.position, walk.next_offset, walk.problem)


def _holding(found: Sequence[Segment], from_offset: int) -> Iterable[Segment]:
    """Without the segments that end before an offset."""
    first = max(0, sum(segment.base_offset <= from_offset for segment in found) - 1)
    return found[first:]
