"""One `.log` file with its indexes: appends, seals, truncation, deletion, lookups.

Other modules read the `SegmentFile` below: `batch_seek` from batch to batch, `batch_iterator` header after header,
`file_slice` for responses.

A segment's name is its base offset in 20 digits. Its file is batches one after another and nothing else, never
ending in zeros.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TypeAlias

from headgate.protocol.errors import KafkaError
from headgate.storage.disk.pool import Pool
from headgate.storage.files import File
from headgate.storage.segment import offset_lookup
from headgate.storage.segment.batch_iterator import BatchIterator
from headgate.storage.segment.batch_seek import NO_LIMIT, BatchBounds, damaged, seek
from headgate.storage.segment.file_slice import FileSlice, MessagesSlice
from headgate.storage.segment.index import NO_TIMESTAMP, OffsetIndex, TimeIndex, WrongIndex
from headgate.storage.segment.segment_file import (
    DEBRIS,
    DELETED_SUFFIX,
    GROWING,
    LOG_SUFFIX,
    NO_SIZES,
    RETIRED,
    SOUND,
    SegmentFile,
)
from headgate.storage.segment.transaction_index import AbortedTransaction, TransactionIndex

DERIVED_SUFFIXES = (OffsetIndex.SUFFIX, TimeIndex.SUFFIX, TransactionIndex.SUFFIX, ".snapshot")
_UNKNOWN = -2  # a timestamp that is not loaded yet

Written: TypeAlias = tuple[int, int, int]
"""The size, the last offset and the highest timestamp of a batch, for the indexes."""


class Segment(SegmentFile):
    """One segment file. `first_timestamp` and `max_timestamp` are those of batches; -1 without batches."""

    __slots__ = (
        "_first_timestamp",
        "_indexed_position",
        "_max_offset",
        "_max_timestamp",
        "_modified_ms",
        "created_ms",
        "is_sealed",
    )

    def __init__(
        self,
        pool: Pool,
        directory: str,
        base_offset: int,
        sizes: Sequence[int] = NO_SIZES,
        created_ms: int = 0,
        suffix: str = "",
    ) -> None:
        """See `SegmentFile`."""
        super().__init__(pool, directory, base_offset, sizes, suffix)
        self.created_ms = created_ms
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

    def copied(self, pool: Pool) -> Segment:
        """A copy for another thread, under the final names of the files, which may be longer than the copy."""
        copy = Segment(pool, self.directory, self.base_offset, (self.size, -1, -1, -1), self.created_ms)
        copy.offsets, copy.times = self.offsets.copied(pool), self.times.copied(pool)
        copy.aborted = None if self.aborted is None else self.aborted.copied(pool)
        copy.has_legacy_format, copy.state = self.has_legacy_format, GROWING
        return copy

    def __repr__(self) -> str:
        return f"Segment({self.path}, {self.size} bytes)"

    @property
    def modified_ms(self) -> int:
        """The time of the file's last write; cached for a sealed segment. Raises OSError."""
        if self._modified_ms is None or not self.is_sealed:
            self._modified_ms = self.pool.files.modified_ms(self.path)
        return self._modified_ms

    # Timestamps

    @property
    def max_timestamp(self) -> int:
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
        if self.state is DEBRIS:
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
        if self.state is DEBRIS:
            self._cut_debris(self.file)
        file = self.hold()
        self.state = GROWING
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
        if self.state is RETIRED:
            return
        self.state = SOUND
        if error is not None:
            self.close()
            self.state = DEBRIS
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
        if self.state is DEBRIS:
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

    def _trim_times(self, *, in_memory: bool = False) -> None:
        """Drop timestamps of offsets after the last indexed one: of `seal`, or of truncated batches."""
        end = self.base_offset + self.offsets.last()[0] + 1 if self.offsets.entries else -1
        self.times.truncate_to(end, in_memory=in_memory)
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
        self.state = SOUND
        self.forget_behind(position)

    def forget_behind(self, position: int, *, in_memory: bool = False) -> None:
        """Forget the batches behind `position`, and their index entries; `in_memory`: change no file."""
        self.size = position
        self.offsets.truncate_to(position, in_memory=in_memory)
        self._trim_times(in_memory=in_memory)
        self._restore_max_timestamp()
        if self.aborted is not None:
            self.aborted.truncate_to(self.end_offset(), in_memory=in_memory)

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
        add_entry = partial(self.index, index_interval_bytes=index_interval_bytes, in_memory=in_memory)
        follow = partial(self.follow_transactions, in_memory=in_memory)
        return BatchIterator(self, 0, check_crc_from, add_entry, follow)

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

    # Reading

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

    def slice(self, position: int, length: int) -> FileSlice:
        """A slice of the file. Raises OSError."""
        return (MessagesSlice if self.has_legacy_format else FileSlice)(self.file, position, length)

    def iterate(self, position: int = 0, check_crc_from: int = NO_LIMIT) -> BatchIterator:
        return BatchIterator(self, position, check_crc_from)

    def check_newest(self, blocking: bool = True) -> None:
        """Check that a batch has the highest timestamp of the time index, which retention uses.

        Raises WrongIndex, OSError; WouldBlock if not `blocking`.
        """
        timestamp = self.read_max_timestamp(blocking)
        if self.has_legacy_format or timestamp < 0:
            return
        try:
            position = self.locate(self.max_timestamp_offset, blocking)
            if position < self.size:
                head = self.read_head(self.read_window(position, blocking))
                if head.max_timestamp == timestamp:
                    return
        except KafkaError:  # the segment is damaged; its index still gives its age
            return
        wrong = f"has {timestamp} as the highest timestamp, which no batch has"
        raise WrongIndex(self.times.path, self.base_offset, wrong)
