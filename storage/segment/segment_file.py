"""The `.log` file of a segment with its indexes: their names, the open file, and reads of a window.

`batch_seek`, `batch_iterator` and `offset_lookup` read a segment as a `SegmentFile`; `Segment` adds writes.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Sequence
from enum import Enum, auto

from headgate.protocol.records import Buffer, batch
from headgate.protocol.records.batch import BatchHeader
from headgate.storage.disk.pool import Pool
from headgate.storage.files import File, WouldBlock
from headgate.storage.segment import legacy_messages
from headgate.storage.segment.index import EntryFile, OffsetIndex, TimeIndex
from headgate.storage.segment.transaction_index import TransactionIndex

LOG_SUFFIX = ".log"
DELETED_SUFFIX = ".deleted"
NO_SIZES = (0, -1, -1, -1)
"""The sizes of a new segment: see `SegmentFile`."""
WINDOW_BYTES = 4096
"""The size of one read of a batch seek."""


class FileState(Enum):
    """The end of a segment's file, compared with the size of the segment."""

    SOUND = auto()
    GROWING = auto()
    """A thread appends to the file, or is about to cut it: the file may be longer."""
    DEBRIS = auto()
    """A failed write left bytes at the end, and the disk refused to cut them off."""
    RETIRED = auto()
    """The log was deleted, and another log may use the names of its files."""


SOUND, GROWING, DEBRIS, RETIRED = FileState


class SegmentFile:
    """The file of a segment, and its indexes."""

    __slots__ = (
        "_file",
        "_suffix",
        "aborted",
        "base_offset",
        "directory",
        "has_legacy_format",
        "offsets",
        "pool",
        "size",
        "state",
        "times",
        "was_truncated",
    )

    def __init__(
        self, pool: Pool, directory: str, base_offset: int, sizes: Sequence[int] = NO_SIZES, suffix: str = ""
    ) -> None:
        """`sizes` are those of `.log`, `.index`, `.timeindex` and `.txnindex`, -1 for a missing file.

        A segment has `aborted` if transactions ended in it, or if the log had one before. `suffix` follows the names of
        the files until the segment belongs to its log.
        """
        self.pool = pool
        self.directory = directory
        self.base_offset = base_offset
        self.size = sizes[0]
        # The indexes of an empty segment have no meaning.
        offsets_size, times_size, aborted_size = sizes[1:] if self.size else (-1, -1, -1)
        self.offsets = OffsetIndex(pool, directory, base_offset, offsets_size, suffix)
        self.times = TimeIndex(pool, directory, base_offset, times_size, suffix)
        has_aborted = aborted_size >= 0
        self.aborted = TransactionIndex(pool, directory, base_offset, aborted_size, suffix) if has_aborted else None
        self._suffix = LOG_SUFFIX + suffix
        self.has_legacy_format = False
        """Whether the segment may hold messages of magic 0 and 1: see `storage.segment.legacy_messages`."""
        self._file: File | None = None
        self.state = SOUND
        self.was_truncated = False
        """Whether bytes of a failed write were cut off: a crash before a sync brings them back."""

    @property
    def path(self) -> str:
        """The path of the `.log` file."""
        return f"{self.directory}/{self.base_offset:020d}{self._suffix}"

    @property
    def indexes(self) -> list[EntryFile]:
        """The existing indexes."""
        return [self.offsets, self.times] if self.aborted is None else [self.offsets, self.times, self.aborted]

    def rename(self, suffix: str) -> None:
        """Change the suffix of all files, of the `.log` last: it marks a complete set. Raises OSError."""
        for index in self.indexes:
            index.rename(suffix)
        if self._suffix != LOG_SUFFIX + suffix:
            self.pool.files.rename(self.path, f"{self.directory}/{self.base_offset:020d}{LOG_SUFFIX}{suffix}")
            self._suffix = LOG_SUFFIX + suffix

    @property
    def suffix(self) -> str:
        """The suffix of the file names."""
        return self._suffix[len(LOG_SUFFIX) :]

    @property
    def is_deleted(self) -> bool:
        """Whether the `.log` has the suffix of a deleted file."""
        return self._suffix.endswith(DELETED_SUFFIX)

    @property
    def file(self) -> File:
        """The open file, opened at first use. The last reader closes the file of a deleted segment."""
        file = self._file
        if file is None:
            self._check_alive()
            file = self.pool.open(self.path)
            if self.is_deleted:
                return file
            if file.size() > self.size and self.state is not GROWING:
                self.state = DEBRIS
                with contextlib.suppress(OSError):  # reads work; the next append has to cut the file
                    self._cut_debris(file)
            self._file = file
            self.pool.opened(self)
        return file

    def _cut_debris(self, file: File) -> None:
        """Cut off the rest of a failed write. Raises OSError."""
        file.truncate(self.size)
        self.state, self.was_truncated = SOUND, True

    def _check_alive(self) -> None:
        if self.state is RETIRED:
            raise OSError(errno.ESTALE, "the log was deleted; its path may be another's by now", self.path)

    def retire(self) -> None:
        """Close the file for good."""
        self.close()
        self.state = RETIRED

    def hold(self) -> File:
        """The open file with one more reference, which the caller releases."""
        file = self.file
        file.references += 1
        return file

    @property
    def is_held(self) -> bool:
        """Whether slices keep the file open already, so that one more costs nothing."""
        return self._file is not None and self._file.holds > 0

    def unload(self) -> None:
        """Close the file once no slice holds it; the next use opens it again."""
        if self._file is not None:
            self._file.release()
            self._file = None

    def move_to(self, pool: Pool) -> None:
        """Move to this pool; the file is closed, and no index is loaded."""
        self.close()
        self.pool = pool
        for index in self.indexes:
            index.move_to(pool)

    def close(self) -> None:
        """Close the file and forget the loaded indexes."""
        self.pool.closed(self)
        self.unload()
        for index in self.indexes:
            index.unload()

    def read_window(self, position: int, blocking: bool = True) -> bytes | bytearray:
        """The window of a batch seek. Raises WouldBlock if not `blocking`."""
        file = self._file or self.file
        if blocking:
            return file.read_at(WINDOW_BYTES, position)
        length = min(WINDOW_BYTES, self.size - position)
        data = file.read_cached(length, position)
        if data is None:
            raise WouldBlock(file, self.path, length, position)
        return data

    @property
    def read_head(self) -> Callable[[Buffer], BatchHeader]:
        """The function that reads the header at the start of a buffer. It raises KafkaError(CORRUPT_MESSAGE)."""
        return legacy_messages.read_head if self.has_legacy_format else batch.read_header
