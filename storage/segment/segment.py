"""One `.log` file with its indexes: appends, seals, truncation, deletion, lookups.

Other modules read a segment: `batch_seek` from batch to batch, `batch_iterator` header after header, `file_slice` for
responses.

A segment's name is its base offset in 20 digits. Its file is batches one after another and nothing else, never
ending in zeros.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from headgate.protocol.records import Buffer, batch
from headgate.protocol.records.batch import BatchHeader
from headgate.storage.disk.pool import Pool
from headgate.storage.files import File, WouldBlock
from headgate.storage.segment import legacy_messages, offset_lookup
from headgate.storage.segment.batch_iterator import BatchIterator
from headgate.storage.segment.batch_seek import NO_LIMIT, WINDOW_BYTES, BatchBounds, damaged, seek
from headgate.storage.segment.file_slice import FileSlice, MessagesSlice
from headgate.storage.segment.index import NO_TIMESTAMP, EntryFile, OffsetIndex, TimeIndex
from headgate.storage.segment.transaction_index import AbortedTransaction, TransactionIndex

LOG_SUFFIX = ".log"
DELETED_SUFFIX = ".deleted"
DERIVED_SUFFIXES = (OffsetIndex.SUFFIX, TimeIndex.SUFFIX, TransactionIndex.SUFFIX, ".snapshot")
_UNKNOWN = -2  # a timestamp that is not loaded yet

Written: TypeAlias = tuple[int, int, int]
"""The size, the last offset and the highest timestamp of a batch, for the indexes."""


class Segment:
    """One segment file. `first_timestamp` and `max_timestamp` are those of batches; -1 without batches."""

    __slots__ = (
        "_file",
        "_first_timestamp",
        "_has_debris",
        "_indexed_position",
        "_is_retired",
        "_max_offset",
        "_max_timestamp",
        "_modified_ms",
        "_suffix",
        "aborted",
        "base_offset",
        "created_ms",
        "directory",
        "has_legacy_format",
        "is_sealed",
        "may_be_longer",
        "offsets",
        "pool",
        "size",
        "times",
        "was_truncated",
    )

    def __init__(
        self,
        pool: Pool,
        directory: str,
        base_offset: int,
        sizes: Sequence[int] = (0, -1, -1, -1),
        created_ms: int = 0,
        suffix: str = "",
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
        self.created_ms = created_ms
        self._suffix = LOG_SUFFIX + suffix
        self.has_legacy_format = False
        """Whether the segment may hold messages of magic 0 and 1: see `storage.segment.legacy_messages`."""
        self._file: File | None = None
        self._has_debris = False  # a failed write left bytes at the end, and the disk refused to cut them off
        self.was_truncated = False
        """Whether bytes of a failed write were cut off: a crash before a sync brings them back."""
        self.may_be_longer = False  # a thread appends to the file, or is about to cut it
        self._is_retired = False
        self._first_timestamp = _UNKNOWN if sizes[0] else NO_TIMESTAMP
        self._max_timestamp = _UNKNOWN if sizes[0] else NO_TIMESTAMP
        self._max_offset = base_offset
        self._indexed_position = 0
        self._modified_ms: int | None = None  # while the segment is sealed
        self.is_sealed = sizes[0] > 0

    @classmethod
    def create(cls, pool: Pool, directory: str, base_offset: int, now_ms: int, suffix: str = "") -> Segment:
        """A new segment, with an empty `.log` file."""
        segment = cls(pool, directory, base_offset, created_ms=now_ms, suffix=suffix)
        pool.files.write(segment.path, b"")
        return segment

    def __repr__(self) -> str:
        return f"Segment({self.path}, {self.size} bytes)"

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
    def file(self) -> File:
        """The open file, opened at first use. The last reader closes the file of a deleted segment."""
        file = self._file
        if file is None:
            self._check_alive()
            file = self.pool.open(self.path)
            if self.is_deleted:
                return file
            if file.size() > self.size and not self.may_be_longer:
                self._has_debris = True
                with contextlib.suppress(OSError):  # reads work; the next append has to cut the file
                    self._cut_debris(file)
            self._file = file
            self.pool.opened(self)
        return file

    def _cut_debris(self, file: File) -> None:
        """Cut off the rest of a failed write. Raises OSError."""
        file.truncate(self.size)
        self._has_debris, self.was_truncated = False, True

    def _check_alive(self) -> None:
        if self._is_retired:
            raise OSError(errno.ESTALE, "the log was deleted; its path may be another's by now", self.path)

    def retire(self) -> None:
        """Close the file for good."""
        self.close()
        self._is_retired = True

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

    @property
    def modified_ms(self) -> int:
        """The time of the file's last write; cached for a sealed segment. Raises OSError."""
        if self._modified_ms is None or not self.is_sealed:
            self._modified_ms = self.pool.files.modified_ms(self.path)
        return self._modified_ms

    # Timestamps

    @property
    def max_timestamp(self) -> int:
        """The highest timestamp in the segment."""
        if self._max_timestamp == _UNKNOWN:
            self._load_max_timestamp()
        return self._max_timestamp

    @property
    def max_timestamp_offset(self) -> int:
        """The last offset of the first batch with the highest timestamp."""
        if self._max_timestamp == _UNKNOWN:
            self._load_max_timestamp()
        return self._max_offset

    @property
    def first_timestamp(self) -> int:
        """The timestamp of the first batch, the start of the segment's age."""
        if self._first_timestamp == _UNKNOWN:
            return self.read_first_timestamp(blocking=True)
        return self._first_timestamp

    def read_max_timestamp(self, blocking: bool) -> int:
        """`max_timestamp`. Raises WouldBlock if not `blocking`."""
        if self._max_timestamp == _UNKNOWN:
            self._load_max_timestamp(blocking)
        return self._max_timestamp

    def read_newest_ms(self, blocking: bool) -> int:
        """The time of the newest record; without times, of the last write. Raises OSError; WouldBlock.

        Records have no timestamps before Kafka 0.10.
        """
        timestamp = self.read_max_timestamp(blocking)
        return timestamp if timestamp >= 0 or not self.size else self.modified_ms

    def read_first_timestamp(self, blocking: bool) -> int:
        """`first_timestamp`. Raises WouldBlock if not `blocking`."""
        if self._first_timestamp == _UNKNOWN:
            self._first_timestamp = self.read_head(self.read_window(0, blocking)).max_timestamp
        return self._first_timestamp

    def _load_max_timestamp(self, blocking: bool = True) -> None:
        """Load it from the last entry of the time index, which a seal writes."""
        if self.times.entries:
            timestamp, relative = self.times.last(blocking)
            self._max_timestamp, self._max_offset = timestamp, self.base_offset + relative
        else:
            self._max_timestamp = NO_TIMESTAMP

    # Writing

    def look_up(self) -> None:
        """Load the data for the first append since the start, without waiting for the disk.

        These are the segment's age, the data for `_unseal`, and the page at the end of the file. Raises WouldBlock,
        OSError, KafkaError.
        """
        if not self.is_sealed:
            return
        self.read_first_timestamp(blocking=False)
        if self.times.entries:
            self.times.last(blocking=False)
            self.times.first(blocking=False)
        if self.offsets.entries:
            self.offsets.last(blocking=False)
        self.read_window(self.size - 1, blocking=False)

    def append(
        self, data: memoryview | bytes | bytearray, batches: Iterable[Written], index_interval_bytes: int
    ) -> None:
        """Write whole batches at the end.

        Raises OSError, and then the file is as before. If the disk refuses even to cut the file, the next opening of
        the file cuts it.
        """
        position = self.size
        file = self._file or self.file
        if self.is_sealed:
            self._unseal()
        if self._has_debris:
            self._cut_debris(file)
        error = None
        try:
            file.write_at(data, position)
        except OSError as failure:
            error = failure
        self.finish_append(batches, index_interval_bytes, error)

    def begin_append(self) -> File:
        """The file for a write at the end, with a reference that the caller releases. Raises OSError."""
        if self.is_sealed:
            self._unseal()
        if self._has_debris:
            self._cut_debris(self.file)
        file = self.hold()
        self.may_be_longer = True
        return file

    def finish_append(
        self,
        batches: Iterable[Written],
        index_interval_bytes: int,
        error: BaseException | None = None,
        in_memory: bool = False,
    ) -> None:
        """End a write at the end of the file, or raise its error. Raises OSError.

        `in_memory`: new index entries stay in memory, as the disk is slow.
        """
        self.may_be_longer = False
        if self._is_retired:
            return
        if error is not None:
            self.close()
            self._has_debris = True
            with contextlib.suppress(OSError):
                self._cut_debris(self.file)
            raise error
        position = self.size
        for size, last_offset, timestamp in batches:
            self.index(position, last_offset, timestamp, index_interval_bytes, in_memory)
            position += size
        self.size = position

    def index(
        self, position: int, last_offset: int, timestamp: int, index_interval_bytes: int, in_memory: bool = False
    ) -> None:
        """Index a batch that begins far enough after the last indexed one. Part of `append` and `rebuild`."""
        if timestamp > self._max_timestamp:
            self._max_timestamp, self._max_offset = timestamp, last_offset
        if not position:
            self._first_timestamp = timestamp
        if position - self._indexed_position > index_interval_bytes:
            self.offsets.append(last_offset, position, in_memory)
            self.times.append(self._max_timestamp, self._max_offset, in_memory)
            self._indexed_position = position

    def is_full(self, index_bytes: int, more: int = 0) -> bool:
        """Whether an index reaches its limit with `more` entries. The time index reserves one for `seal`."""
        return 8 * (self.offsets.entries + more + 1) > index_bytes or 12 * (self.times.entries + more + 2) > index_bytes

    def seal(self) -> bool:
        """Write the indexes to their files, the highest timestamp as the last entry, as Kafka does at a roll or close.

        True if there were entries to write: the next `sync` makes them durable. Raises OSError.
        """
        self._check_alive()
        if self._has_debris:
            self._cut_debris(self.file)
        if self.is_sealed or not self.size:
            return False
        times = self.times
        before = times.entries, times.last() if times.entries else None
        try:
            times.append(self.max_timestamp, self.max_timestamp_offset)
            for index in self.indexes:
                index.touch()
        except OSError:  # more entries may be appended before the next try
            times.restore(*before)
            raise
        self._modified_ms = None
        self.is_sealed = True
        return True

    def _unseal(self) -> None:
        """Remove the entry of `seal`, so that appends alone determine the time index."""
        self._load_max_timestamp()
        self._trim_times()

    def _trim_times(self) -> None:
        """Drop timestamps of offsets after the last indexed one: of `seal`, or of truncated batches."""
        self.times.truncate_to(self.base_offset + self.offsets.last()[0] + 1 if self.offsets.entries else -1)
        self._indexed_position = self.offsets.last_position
        self.is_sealed = False

    @property
    def sealed_indexes(self) -> list[str]:
        """The complete index files; recovery rebuilds those of an open segment."""
        if not self.is_sealed:
            return []
        return [index.path for index in self.indexes]

    @property
    def sealed_files(self) -> list[str]:
        """The index files, and the `.log` if it `was_truncated`: no offset shows that it needs a sync."""
        return [*self.sealed_indexes, self.path] if self.was_truncated else self.sealed_indexes

    def follow_transactions(self, aborted: Iterable[AbortedTransaction] = (), in_memory: bool = False) -> None:
        """Have a `.txnindex` from now on, and add transactions that ended here; `in_memory`: write no block."""
        if self.aborted is None:
            self.aborted = TransactionIndex(self.pool, self.directory, self.base_offset, suffix=self.suffix)
        for one in aborted:
            self.aborted.append(one, in_memory)

    def sync(self) -> None:
        """Wait until the bytes are on the disk, and the indexes of a sealed segment."""
        self.file.sync()
        for path in self.sealed_indexes:
            self.pool.files.sync(path)

    def truncate(self, position: int) -> None:
        """Cut the segment at `position`, the beginning of a batch."""
        self.file.truncate(position)
        self._has_debris = False
        self.size = position
        self.offsets.truncate_to(position)
        self._trim_times()
        self._restore_max_timestamp()
        if self.aborted is not None:
            self.aborted.truncate_to(self.end_offset())

    def _restore_max_timestamp(self) -> None:
        """Load the highest timestamp from the last entry of the time index and all later batches."""
        self._first_timestamp = _UNKNOWN if self.size else NO_TIMESTAMP
        self._max_offset = self.base_offset
        self._load_max_timestamp()
        iterator = self.iterate(self.offsets.last_position)
        for _, header in iterator:
            if header.max_timestamp > self.max_timestamp:
                self._max_timestamp, self._max_offset = header.max_timestamp, header.last_offset

    def rebuild(
        self, index_interval_bytes: int, in_memory: bool = False, check_crc_from: int = NO_LIMIT
    ) -> BatchIterator:
        """Rebuild the indexes: the caller iterates over the result, and cuts the segment where it ends early.

        A caller that knows the open transactions at the base offset sets `BatchIterator.transactions`.
        `in_memory`: no block is written before all entries are known.
        """
        for index in self.indexes:
            index.truncate(0)
        self._first_timestamp = self._max_timestamp = NO_TIMESTAMP
        self._max_offset, self._indexed_position, self.is_sealed = self.base_offset, 0, False
        return BatchIterator(self, 0, check_crc_from, index_interval_bytes, in_memory)

    def delete(self, delay_ms: float = 0.0, replaced: int | None = None) -> None:
        """Have the files removed after `delay_ms`; may be called again after a failure. Raises OSError.

        The files are renamed now, the `.log` first: after a crash their suffixes mark them. Planned reads still
        succeed. `replaced`: a unique number for a segment whose names another segment takes over, as that one
        may be deleted before these files are removed.
        """
        self.close()
        pending, ending = (
            self.pool.pending_deletions,
            DELETED_SUFFIX if replaced is None else f".{replaced}{DELETED_SUFFIX}",
        )
        own = self.suffix.removesuffix(ending)
        for suffix in (LOG_SUFFIX, *DERIVED_SUFFIXES):
            pending.rename(f"{self.directory}/{self.base_offset:020d}{suffix}{own}", ending, delay_ms)
            self._suffix = LOG_SUFFIX + own + ending
        for index in self.indexes:
            index.note_deleted(own + ending)

    @property
    def is_deleted(self) -> bool:
        """Whether the `.log` has the suffix of a deleted file."""
        return self._suffix.endswith(DELETED_SUFFIX)

    # Reading

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

    def locate(self, offset: int, blocking: bool = True) -> int:
        """See `offset_lookup.locate`."""
        return offset_lookup.locate(self, offset, blocking)

    def end_offset(self) -> int:
        """The offset after the last batch; the base offset for an empty segment."""
        last = seek(self, self.offsets.last_position, self.size - 1)
        return self.base_offset if last is None else last[3] + 1

    def cut(self, position: int, limit: int, blocking: bool = True) -> BatchBounds:
        """The first batch from `position` on that ends after the position `limit`. There must be one."""
        bounds = offset_lookup.cut(self, position, limit, blocking)
        if bounds is None:
            raise damaged(self, self.size)
        return bounds

    @property
    def read_head(self) -> Callable[[Buffer], BatchHeader]:
        """The function that reads the header at the start of a buffer. It raises KafkaError(CORRUPT_MESSAGE)."""
        return legacy_messages.read_head if self.has_legacy_format else batch.read_header

    def slice(self, position: int, length: int) -> FileSlice:
        """A slice of the file. Raises OSError."""
        return (MessagesSlice if self.has_legacy_format else FileSlice)(self.file, position, length)

    def iterate(self, position: int = 0, check_crc_from: int = NO_LIMIT) -> BatchIterator:
        """The headers from `position` on."""
        return BatchIterator(self, position, check_crc_from)
