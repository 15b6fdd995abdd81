"""The segments of a partition's directory at one moment, to be read without their broker.

Reading takes the same segments as the next start: a complete compacted segment replaces the segments of its
offsets, and a segment that was being written or deleted does not count.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping

from headgate.protocol.steps import finish
from headgate.spark.reading.frozen_files import FrozenFiles
from headgate.storage.disk.pool import Pool
from headgate.storage.files import File, Files
from headgate.storage.recovery import interrupted_replacements
from headgate.storage.recovery.recovery_input import bases_of, of_log
from headgate.storage.segment import legacy_messages
from headgate.storage.segment.index import OffsetIndex
from headgate.storage.segment.segment import Segment
from headgate.storage.segment.segment_file import LOG_SUFFIX

_ENTRY = OffsetIndex.ENTRY
_HEAD_BYTES = legacy_messages.MAGIC_POSITION + 1
_OPEN_SEGMENTS = 2


class SegmentView:
    """The segments, by their base offsets in `bases`. `names` has names and sizes as at the listing."""

    def __init__(self, disk: Files, directory: str) -> None:
        """Raises OSError, DirectoryChanges; CorruptLog for a damaged compacted segment."""
        self.directory = directory
        self.files = FrozenFiles(disk, directory)
        self.pool = Pool(self.files, _OPEN_SEGMENTS)
        names = of_log(self.files.list(directory))
        self.names: Mapping[str, int] = of_log(
            finish(interrupted_replacements.finish_steps(self.pool, directory, names))
        )
        self.bases = bases_of(self.names)

    def path(self, base_offset: int, suffix: str = LOG_SUFFIX) -> str:
        return f"{self.directory}/{base_offset:020d}{suffix}"

    def owner(self, offset: int) -> int:
        """The number of the segment for an offset; 0 if all begin after the offset."""
        return max(0, bisect_right(self.bases, offset) - 1)

    def segment(self, number: int) -> Segment:
        """A segment without indexes, as long as its file is now, for an iteration over its headers. Raises OSError."""
        base_offset = self.bases[number]
        path = self.path(base_offset)
        segment = Segment(self.pool, self.directory, base_offset, (self.files.size(path), -1, -1, -1))
        segment.has_legacy_format = _is_legacy(segment.file)
        return segment

    def segments(self, number: int) -> Iterator[Segment]:
        """The segments from this one on, each closed before the next."""
        for following in range(number, len(self.bases)):
            segment = self.segment(following)
            try:
                yield segment
            finally:
                segment.close()

    def position(self, file: File, base_offset: int, offset: int) -> int:
        """A position in an open segment with no batch of `offset` or later before it, by the index; else 0.

        No checksum covers an index, and compaction may swap the file in between: so there must be a whole valid batch
        that does not begin after the offset.
        """
        try:
            index = self.files.open(self.path(base_offset, OffsetIndex.SUFFIX))
        except FileNotFoundError:
            return 0
        try:
            position = _floor(index, offset - base_offset)
        finally:
            index.release()
        return position if position and _holds_batch(file, position, offset) else 0


def _floor(index: File, relative_offset: int) -> int:
    """The position in the last entry at or before an offset; 0 without one.

    Unused entries at the end are zeros: Apache Kafka allocates the file of the active segment in advance.
    """
    low, high, found = 0, index.size() // _ENTRY.size, 0
    while low < high:
        middle = (low + high) // 2
        data = index.read_at(_ENTRY.size, middle * _ENTRY.size)
        if len(data) < _ENTRY.size:
            return 0
        offset, position = _ENTRY.unpack(data)
        if position and offset <= relative_offset:
            low, found = middle + 1, position
        else:
            high = middle
    return max(found, 0)


def _holds_batch(file: File, position: int, offset: int) -> bool:
    """Whether there is a whole batch with a right checksum at a position, which begins at or before an offset."""
    head = file.read_at(_HEAD_BYTES, position)
    if len(head) < _HEAD_BYTES or int.from_bytes(head[:8], "big", signed=True) > offset:
        return False
    size = int.from_bytes(head[8:12], "big", signed=True) + 12
    if not 0 < size <= file.size() - position:
        return False
    return legacy_messages.valid_bytes(file.read_at(size, position)) == size


def _is_legacy(file: File) -> bool:
    head = file.read_at(_HEAD_BYTES, 0)
    return len(head) == _HEAD_BYTES and head[legacy_messages.MAGIC_POSITION] < 2
