"""The aborted transactions that end in a segment (`.txnindex`), in Kafka's own layout.

    version i16 = 0 | producer id i64 | first offset i64 | last offset i64 | last stable offset i64

The last offset is the marker's. The last stable offset is the log's at the append of the marker: the start of the first
transaction that was open then, else the offset after the marker. Both increase from entry to entry. So a reader up to
some offset has all entries at the first one whose last stable offset is not before that offset, in this segment or a
later one.

In a log that never had transactions, segments have no such file. In other logs a segment without ended transactions has
an empty file: a missing one was lost, and is rebuilt from the log. Kafka has a file only for entries. Source: Apache
Kafka's `TransactionIndex`, `AbortedTxn`.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from typing import NamedTuple, TypeAlias

from headgate.storage.disk.pool import Pool
from headgate.storage.errors import BadFile
from headgate.storage.segment.index import EntryFile

VERSION = 0
_LAST_OFFSET = struct.Struct(">18xq8x")


NO_OFFSET = 1 << 62
"""An offset after the end of every log."""


class AbortedTransaction(NamedTuple):
    """A producer's aborted transaction: its first offset, the marker's, and the last stable one at that time."""

    producer_id: int
    first_offset: int
    last_offset: int = NO_OFFSET
    last_stable_offset: int = NO_OFFSET


Reaching: TypeAlias = list[tuple[int, int]]
"""(producer id, first offset) of aborted transactions that reach into a range of offsets."""


class TransactionIndex(EntryFile):
    """The file of one segment."""

    __slots__ = ("_data",)
    SUFFIX = ".txnindex"
    ENTRY = struct.Struct(">hqqqq")

    def __init__(self, pool: Pool, directory: str, base_offset: int, written: int = -1, suffix: str = "") -> None:
        super().__init__(pool, directory, base_offset, written, suffix)
        self._data: bytearray | None = None

    def append(self, aborted: AbortedTransaction, in_memory: bool = False) -> None:
        """Add the last ended transaction; `in_memory`: write no block.

        An entry that cannot be written stays in memory: the log has the marker already, and the file is derived.
        """
        entry = self.ENTRY.pack(VERSION, *aborted)
        self._keep(entry)
        if self._data is not None:
            self._data += entry
        if not in_memory:
            self._flush_block()

    def collect(self, start: int, up_to: int, blocking: bool = True) -> tuple[Reaching, bool]:
        """The transactions with records from `start` on and before `up_to`.

        Also returned: whether later segments have no relevant entries. Raises WouldBlock if not `blocking`.
        """
        if not self.entries:
            return [], False
        data = self._load(blocking)
        found = []
        first = bisect_left(range(self.entries), start, key=lambda number: _last_offset(data, number))
        behind = memoryview(data)[first * self.ENTRY.size :]
        for _, producer_id, first_offset, _, last_stable_offset in self.ENTRY.iter_unpack(behind):
            if first_offset < up_to:
                found.append((producer_id, first_offset))
            if last_stable_offset >= up_to:
                return found, True
        return found, False

    @property
    def is_plausible(self) -> bool:
        """Whether the entries are plausible; a lost block leaves zeros."""
        try:
            entries = parse(self.content())
        except BadFile:
            return False
        return not entries or entries[0].last_offset >= self.base_offset

    def truncate_to(self, offset: int, *, in_memory: bool = False) -> None:
        """Drop the transactions with markers at or after `offset`."""
        if self.entries:
            data = self._load()
            kept = bisect_left(range(self.entries), offset, key=lambda number: _last_offset(data, number))
            self.truncate(kept, in_memory=in_memory)

    def unload(self) -> None:
        if self._data is not None:
            self._data = None
            self.pool.unloaded(self)

    def _load(self, blocking: bool = True) -> bytearray:
        if self._data is None:
            self._data = bytearray(self.content(blocking))
        self.pool.used(self, self.size)
        return self._data


def parse(data: bytes) -> list[AbortedTransaction]:
    """The entries of a `.txnindex` file. Raises BadFile for invalid entries, or a wrong order."""
    if len(data) % TransactionIndex.ENTRY.size:
        raise BadFile(f"{len(data)} bytes are no whole entries of an index of aborted transactions")
    entries: list[AbortedTransaction] = []
    last = -1
    for version, *fields in TransactionIndex.ENTRY.iter_unpack(data):
        entry = AbortedTransaction(*fields)
        if version != VERSION:
            raise BadFile(f"entry {len(entries)} has version {version}; {VERSION} is known here")
        if not entry.first_offset < entry.last_offset > last:
            raise BadFile(f"entry {len(entries)} is out of order: {entry}, after offset {last}")
        entries.append(entry)
        last = entry.last_offset
    return entries


def _last_offset(data: bytearray, number: int) -> int:
    offset: int = _LAST_OFFSET.unpack_from(data, number * TransactionIndex.ENTRY.size)[0]
    return offset
