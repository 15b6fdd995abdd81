"""Sparse indexes of a segment, in Kafka's own layout.

`.index` (offset -> position) and `.timeindex` (timestamp -> offset).

    .index       relative offset i32 | position i32            last offset of a batch, where that batch begins
    .timeindex   timestamp i64 | relative offset i32           highest timestamp so far, last offset of its batch

Offsets are relative to the segment's base offset. An entry is added before a batch that begins more than
`index.interval.bytes` after the previous entry: so both are functions of the log's bytes, and can always be rebuilt.
New entries are kept in memory and written in blocks: after a crash the recovery writes them again. Unlike Kafka's, the
files are never longer than their entries.
"""

from __future__ import annotations

import contextlib
import errno
import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import lt
from typing import ClassVar, Self

from headgate.storage.disk.pool import Pool
from headgate.storage.files import WouldBlock

BLOCK_BYTES = 4096
"""The bytes kept in memory before a block is written."""
NO_TIMESTAMP = -1
MAX_RELATIVE_OFFSET = 0x7FFF_FFFF


class WrongIndex(OSError):
    """An index file differs from its entries; `storage.recovery.sync_failure_repair` rebuilds it."""

    def __init__(self, path: str, base_offset: int, what: str = "was cut") -> None:
        super().__init__(errno.EIO, f"the index {what}: another program has changed it, and it needs a rebuild", path)
        self.base_offset = base_offset


class EntryFile:
    """Entries of one size in a file; the last of them may be in memory only."""

    __slots__ = (
        "_is_torn",
        "_pending",
        "_suffix",
        "_written",
        "base_offset",
        "directory",
        "entries",
        "is_whole",
        "pool",
    )
    SUFFIX: ClassVar[str]
    ENTRY: ClassVar[struct.Struct]

    def __init__(self, pool: Pool, directory: str, base_offset: int, written: int = -1, suffix: str = "") -> None:
        """`written`: the size of the file; -1 without a file. A partial entry counts as empty.

        `suffix` follows the name, as with the segment.
        """
        self.pool = pool
        self.directory = directory
        self.base_offset = base_offset
        self.is_whole = written >= 0 and written % self.ENTRY.size == 0
        self._written = written if self.is_whole else 0
        self.entries = self._written // self.ENTRY.size
        self._pending: bytes | bytearray = b""  # empty in most indexes
        self._is_torn = False  # the file may be longer than its written entries
        self._suffix = self.SUFFIX + suffix

    @property
    def path(self) -> str:
        return f"{self.directory}/{self.base_offset:020d}{self._suffix}"

    def rename(self, suffix: str) -> None:
        """Change the suffix of the name. Raises OSError."""
        if self._suffix != self.SUFFIX + suffix:
            self.pool.files.rename(self.path, f"{self.directory}/{self.base_offset:020d}{self.SUFFIX}{suffix}")
            self._suffix = self.SUFFIX + suffix

    def note_deleted(self, suffix: str) -> None:
        """Note that the file was renamed, and will be removed."""
        self._suffix = self.SUFFIX + suffix

    @property
    def size(self) -> int:
        """The size of all entries in bytes, written or not."""
        return self.entries * self.ENTRY.size

    @property
    def written(self) -> int:
        """The size of the written entries in bytes."""
        return self._written

    def content(self, blocking: bool = True) -> bytes:
        """All entries, as the file has them. Raises WouldBlock if not `blocking`."""
        written = self._read(self._written, 0, blocking) if self._written else b""
        return written + self._pending

    def _read(self, length: int, position: int, blocking: bool) -> bytes:
        """A part of the file; fewer bytes if the file is cut. Raises WouldBlock if not `blocking`."""
        file = self.pool.open(self.path)
        try:
            if blocking:
                return file.read_at(length, position)
            data = file.read_cached(length, position)
            if data is None and file.size() >= position + length:
                raise WouldBlock(file, self.path, length, position)
            return file.read_at(length, position) if data is None else bytes(data)
        finally:
            file.release()

    def copied(self, pool: Pool) -> Self:
        """The same entries for another thread, under the final name of the file."""
        copy = type(self)(pool, self.directory, self.base_offset, self._written or -1)
        copy.take_pending(self._pending)
        return copy

    def take_pending(self, pending: bytes | bytearray) -> None:
        """Have these entries in memory, after those of a file that may be longer."""
        self._pending, self._is_torn = bytearray(pending), self._written > 0
        self.entries += len(pending) // self.ENTRY.size

    def flush(self) -> None:
        """Write the entries in memory. Raises OSError, and then they stay in memory."""
        if not self._pending:
            return
        if self._written:
            self._append_pending()
        else:
            self.is_whole = False
            self.pool.files.write(self.path, self._pending)
            self.is_whole, self._is_torn = True, False
        self._written += len(self._pending)
        self._pending = b""

    def note_written(self) -> None:
        self._written += len(self._pending)
        self._pending = b""
        self.is_whole, self._is_torn = True, False

    def _keep(self, entry: bytes) -> None:
        if not self._pending:
            self._pending = bytearray()
        self._pending += entry
        self.entries += 1

    def _flush_block(self) -> None:
        """Write a block of entries. Without disk space they stay in memory, and can be derived again."""
        size = len(self._pending)
        if size >= BLOCK_BYTES and size % BLOCK_BYTES < self.ENTRY.size:
            with contextlib.suppress(OSError):
                self.flush()

    def _append_pending(self) -> None:
        self.cut_torn()
        self._is_torn = True
        try:
            self.pool.files.append(self.path, self._pending)
        except OSError:
            with contextlib.suppress(OSError):  # a full disk may have written a part
                self.cut_torn()
            raise
        self._is_torn = False

    def cut_torn(self) -> None:
        """Cut off the rest of a failed write. Raises OSError."""
        if self._is_torn:
            self.pool.files.truncate(self.path, self._written)
            self._is_torn = False

    def move_to(self, pool: Pool) -> None:
        """Move to this pool; nothing is loaded."""
        self.pool = pool

    def touch(self) -> None:
        """Have the file hold all entries; Kafka needs a file even without entries. Raises OSError."""
        self.flush()
        self.cut_torn()
        if not self.is_whole:
            self.pool.files.write(self.path, b"")
            self.is_whole = True

    def truncate(self, entries: int, *, in_memory: bool = False) -> None:
        """Keep only the first `entries`. If the disk refuses to cut the file, or `in_memory`, the next write does."""
        if entries >= self.entries:
            return
        self.entries = entries
        size = self.size
        if size < self._written:
            self._written = size
            self._is_torn = True
            self._pending = b""
            if in_memory:
                self.is_whole = self._is_torn = size > 0  # otherwise the next write makes the file
            else:
                with contextlib.suppress(OSError):
                    self.cut_torn()
        else:
            self._pending = self._pending[: size - self._written]
        self.unload()

    def unload(self) -> None:
        raise NotImplementedError


class Index(EntryFile):
    """Entries of (key, value), both increasing; on disk and, after a lookup, in memory."""

    __slots__ = ("_columns", "_last")
    KEY_TYPE: ClassVar[str]

    def __init__(self, pool: Pool, directory: str, base_offset: int, written: int = -1, suffix: str = "") -> None:
        super().__init__(pool, directory, base_offset, written, suffix)
        self._columns: tuple[array[int], array[int]] | None = None
        self._last: tuple[int, int] | None = None

    def last(self, blocking: bool = True) -> tuple[int, int]:
        """Key and value of the last entry, both relative.

        Raises IndexError for an index without entries; WouldBlock if not `blocking`.
        """
        if self._last is None:
            self._last = self._read_last(blocking)
        return self._last

    def first(self, blocking: bool = True) -> tuple[int, int]:
        """Key and value of the first entry. Raises WouldBlock if not `blocking`."""
        keys, values = self._load(blocking)
        return keys[0], values[0]

    @property
    def is_increasing(self) -> bool:
        """Whether the entries are increasing, as written entries are; a lost block leaves zeros."""
        if not self.entries:
            return True
        keys, values = self._load()
        return bool(keys[0] or values[0]) and all(all(map(lt, column, column[1:])) for column in (keys, values))

    def truncate(self, entries: int, *, in_memory: bool = False) -> None:
        """Keep only the first `entries`, and the last of them in memory: an append compares with it after its write."""
        if entries < self.entries:
            self._last = None
            if entries:
                keys, values = self._load()
                self._last = keys[entries - 1], values[entries - 1]
        super().truncate(entries, in_memory=in_memory)

    def restore(self, entries: int, last: tuple[int, int] | None) -> None:
        """`truncate` with a known last entry, without a read: the disk may refuse that too."""
        self._last = last
        super().truncate(entries)

    def unload(self) -> None:
        if self._columns is not None:
            self._columns = None
            self.pool.unloaded(self)

    def _add(self, key: int, value: int, in_memory: bool) -> None:
        self._keep(self.ENTRY.pack(key, value))
        self._last = (key, value)
        if self._columns is not None:
            self._columns[0].append(key)
            self._columns[1].append(value)
        if not in_memory:
            self._flush_block()

    def _read_last(self, blocking: bool) -> tuple[int, int]:
        size = self.ENTRY.size
        if not self.entries:
            raise IndexError(f"{self.path} has no entries")
        if self._pending:
            key, value = self.ENTRY.unpack(self._pending[-size:])
            return key, value
        data = self._read(size, self._written - size, blocking)
        if len(data) < size:
            raise WrongIndex(self.path, self.base_offset)
        key, value = self.ENTRY.unpack(data)
        return key, value

    def _load(self, blocking: bool = True) -> tuple[array[int], array[int]]:
        """All entries, in memory from now on. Raises WouldBlock if not `blocking`."""
        columns = self._columns
        if columns is None:
            data = self.content(blocking)
            stride, width = self.ENTRY.size, self.ENTRY.size - 4
            columns = (_column(data, 0, width, stride, self.KEY_TYPE), _column(data, width, 4, stride, "i"))
            self._columns = columns
        self.pool.used(self, self.size)
        return columns


class OffsetIndex(Index):
    """Last offset of a batch -> position of the batch."""

    __slots__ = ()
    SUFFIX = ".index"
    ENTRY = struct.Struct(">ii")
    KEY_TYPE = "i"

    @property
    def last_position(self) -> int:
        """The position of the last indexed batch; 0 without entries."""
        return self.last()[1] if self.entries else 0

    def append(self, last_offset: int, position: int, in_memory: bool = False) -> None:
        """Index the batch that begins at `position` and ends with `last_offset`; `in_memory`: write no block."""
        self._add(last_offset - self.base_offset, position, in_memory)

    def floor(self, offset: int, blocking: bool = True) -> int:
        """The position of the last indexed batch that does not end after `offset`; 0 without one.

        Raises WouldBlock if not `blocking`.
        """
        if not self.entries:
            return 0
        if self._columns is None:
            last_offset, position = self.last(blocking)
            if last_offset <= offset - self.base_offset:  # most lookups are at the end
                return position
        keys, positions = self._load(blocking)
        found = bisect_right(keys, offset - self.base_offset)
        return positions[found - 1] if found else 0

    def floors(self, offset: int, blocking: bool = True) -> Iterator[int]:
        """Other candidates for a wrong `floor`: all positions, the last ones first, and 0.

        Raises WouldBlock if not `blocking`.
        """
        keys, positions = self._load(blocking)
        yield from (positions[at] for at in reversed(range(len(keys))) if keys[at] <= offset - self.base_offset)
        yield 0

    def floor_position(self, position: int, blocking: bool = True) -> int:
        """The position of the last indexed batch that begins at or before `position`; 0 without one.

        Raises WouldBlock if not `blocking`.
        """
        if not self.entries:
            return 0
        _, positions = self._load(blocking)
        found = bisect_right(positions, position)
        return positions[found - 1] if found else 0

    def bound(self, position: int, blocking: bool = True) -> int | None:
        """An offset after all batches that begin before `position`, not much higher; None without a suitable entry.

        Raises WouldBlock if not `blocking`.
        """
        if not self.entries:
            return None
        offsets, positions = self._load(blocking)
        found = bisect_left(positions, position)
        return self.base_offset + offsets[found] if found < len(offsets) else None

    def truncate_to(self, position: int, *, in_memory: bool = False) -> None:
        """Drop the entries of batches at or after `position`."""
        if self.entries and self.last_position >= position:
            _, positions = self._load()
            self.truncate(bisect_right(positions, position - 1), in_memory=in_memory)


class TimeIndex(Index):
    """Highest timestamp so far -> last offset of its batch."""

    __slots__ = ()
    SUFFIX = ".timeindex"
    ENTRY = struct.Struct(">qi")
    KEY_TYPE = "q"

    @property
    def last_timestamp(self) -> int:
        """The highest indexed timestamp; -1 without entries."""
        return self.last()[0] if self.entries else NO_TIMESTAMP

    @property
    def last_offset(self) -> int:
        """The offset of the last entry; one before the base offset without entries."""
        return self.base_offset + (self.last()[1] if self.entries else -1)

    def append(self, timestamp: int, offset: int, in_memory: bool = False) -> None:
        """Index the highest timestamp so far, unless the index has it already; `in_memory`: write no block."""
        if timestamp > self.last_timestamp:
            self._add(timestamp, offset - self.base_offset, in_memory)

    def floor(self, timestamp: int, blocking: bool = True) -> int:
        """An offset before which every batch is older than `timestamp`; the base offset if none is known.

        Raises WouldBlock if not `blocking`.
        """
        if not self.entries:
            return self.base_offset
        timestamps, offsets = self._load(blocking)
        found = bisect_right(timestamps, timestamp)
        return self.base_offset + (offsets[found - 1] if found else 0)

    def truncate_to(self, offset: int, *, in_memory: bool = False) -> None:
        """Drop entries at or after `offset`."""
        if self.entries and self.last()[1] + self.base_offset >= offset:
            _, offsets = self._load()
            self.truncate(bisect_right(offsets, offset - 1 - self.base_offset), in_memory=in_memory)


def _column(data: bytes, start: int, width: int, stride: int, kind: str) -> array[int]:
    """One big-endian field of every entry: strided copies run in C, a loop over the entries would not."""
    packed = bytearray(len(data) // stride * width)
    for byte in range(width):
        packed[byte::width] = data[start + byte :: stride]
    column = array(kind)
    column.frombytes(packed)
    if sys.byteorder == "little":
        column.byteswap()
    return column
