"""The segments of one log in order; appends go to the last. Finds offsets in them, and plans reads.

Synchronous, for one thread, as the log. A reader that continues at the end of its last read needs no search: the place
is remembered.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import is_
from typing import overload

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.batch import HEADER_SIZE, BatchHeader
from headgate.protocol.records.control import Marker
from headgate.storage.segment.batch_seek import seek
from headgate.storage.segment.file_slice import FileSlice, MessagesSlice
from headgate.storage.segment.replacement import CompactionState
from headgate.storage.segment.segment import Segment
from headgate.storage.segment.transaction_index import Reaching

_MEMO_ENTRIES = 64
_RECALL_BYTES = 64 * 1024 * 1024
_MAX_EMPTY_SEGMENTS = 1000  # skipped in one read: each takes two microseconds


class Segments:
    """From the oldest segment to `active`, the one for appends. There is always one."""

    __slots__ = ("_compacted", "_items", "_memo", "active")

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._items = list(segments)
        self.active = self._items[-1]
        self._memo: dict[int, tuple[Segment, int]] | None = None
        self._compacted: CompactionState | None = None

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, number: int) -> Segment: ...
    @overload
    def __getitem__(self, number: slice) -> list[Segment]: ...
    def __getitem__(self, number: int | slice) -> Segment | list[Segment]:
        return self._items[number]

    @property
    def compacted(self) -> CompactionState:
        """The state of compaction, created at first use: most logs are never compacted."""
        if self._compacted is None:
            self._compacted = CompactionState(self)
        return self._compacted

    @property
    def are_being_replaced(self) -> bool:
        """Whether a compaction is about to replace segments, or to abandon that."""
        return self._compacted is not None and self._compacted.is_under_way

    def deletable(self, count: int) -> int:
        """How many of the first segments, at most `count`, compaction does not need."""
        return count if self._compacted is None else self._compacted.before_begun(count)

    @property
    def were_compacted(self) -> bool:
        """Whether `compacted` was used."""
        return self._compacted is not None

    @property
    def size(self) -> int:
        """The size of all segments in bytes."""
        return sum(segment.size for segment in self._items)

    @property
    def has_legacy_format(self) -> bool:
        """Whether a segment may hold messages of magic 0 and 1."""
        return any(segment.has_legacy_format for segment in self._items)

    # Finding

    def position_of(self, offset: int) -> int:
        """The number of the segment for an offset."""
        if len(self._items) == 1:
            return 0
        return max(0, bisect_right(self._items, offset, key=_base_offset) - 1)

    def owner(self, offset: int) -> Segment:
        """The segment for an offset."""
        return self._items[self.position_of(offset)]

    def since(self, offset: int) -> list[Segment]:
        """The segments from the one with an offset on."""
        return self._items[self.position_of(offset) :]

    def locate(self, offset: int, blocking: bool = True) -> tuple[Segment, int]:
        """The place of the batch with `offset`, or of the next one. Raises WouldBlock if not `blocking`."""
        if self._memo is not None:
            found = self._memo.get(offset)
            if found is not None:
                return found
        number = self.position_of(offset)
        segment = self._items[number]
        position = segment.locate(offset, blocking)
        while position == segment.size and segment is not self.active:
            number += 1
            segment, position = self._items[number], 0
        self._remember(offset, segment, position)
        return segment, position

    def headers(self, offset: int) -> Iterator[BatchHeader]:
        """The headers of all batches from the one with `offset` on.

        Raises KafkaError(KAFKA_STORAGE_ERROR) at a damaged place.
        """
        for header, _ in self.batches(offset, reads_markers=False):
            yield header

    def batches(self, offset: int, *, reads_markers: bool = True) -> Iterator[tuple[BatchHeader, Marker | None]]:
        """The headers, each with the transaction marker in its batch, if any. Raises KafkaError as `headers` does."""
        first = self.position_of(offset)
        for number in range(first, len(self._items)):
            segment = self._items[number]
            iterator = segment.iterate(segment.locate(offset) if number == first else 0)
            for _, header in iterator:
                yield header, iterator.marker(header) if reads_markers else None
            if iterator.problem:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR, f"{segment.path}, byte {iterator.position}: {iterator.problem}"
                )

    def headers_before(self, end: int, bytes_back: int) -> Iterator[BatchHeader]:
        """The headers of batches up to the offset `end`, from about `bytes_back` bytes before it on."""
        last = first = self.position_of(end)
        position = self._items[last].locate(end) - bytes_back
        while position < 0 and first:
            first -= 1
            position += self._items[first].size
        for number in range(first, last + 1):
            segment = self._items[number]
            start = segment.offsets.floor_position(max(0, position)) if number == first else 0
            for _, header in segment.iterate(start):
                if header.last_offset > end:
                    return
                yield header

    def recall(self, producer_id: int, end: int) -> Iterator[BatchHeader]:
        """A producer's batches up to the offset `end`, from the last part of the log that may have them."""
        for header in self.headers_before(end, _RECALL_BYTES):
            if header.producer_id == producer_id and not header.is_control:
                yield header

    # Reading

    def aborted(self, start: int, up_to: int, blocking: bool = True) -> Reaching:
        """The aborted transactions with records from `start` on and before `up_to`.

        Their markers, which may be in a later segment, have the facts. Raises OSError; WouldBlock if not `blocking`.
        """
        found = []
        for number in range(self.position_of(start), len(self._items)):
            index = self._items[number].aborted
            if index is not None and index.entries:
                some, is_complete = index.collect(start, up_to, blocking)
                found += some
                if is_complete:
                    break
        return found

    def bound(self, offset: int, piece: FileSlice, end_offset: int, blocking: bool = True) -> int:
        """An offset after all batches of a slice that was planned for an offset, and not much higher.

        Raises OSError; WouldBlock if not `blocking`.
        """
        segment, _ = self.locate(offset, blocking)
        if not piece.is_of(segment.file):  # of a later segment: the read passed over batches without records
            return end_offset
        bound = segment.offsets.bound(piece.position + len(piece), blocking)
        if bound is not None:
            return bound
        if segment is self.active:
            return end_offset
        return self._items[self.position_of(segment.base_offset) + 1].base_offset

    def plan(
        self, offset: int, max_bytes: int, up_to: int, end_offset: int, at_least_one: bool, blocking: bool = True
    ) -> FileSlice | None:
        """Plan a read of whole batches of one segment: see `Log.read`. Raises OSError; WouldBlock if not `blocking`."""
        segment, position = self.locate(offset, blocking)
        if self._compacted is not None and segment is not self.active:
            segment, position = self._behind_empty(segment, position, up_to, blocking)
        limit = segment.size if up_to >= end_offset else self._limit(segment, up_to, blocking)
        if limit - position > max_bytes:
            limit = self._limit_of(segment, position, max_bytes, at_least_one, blocking)
        elif segment is self.active:
            self._remember(min(up_to, end_offset), segment, limit)
        if limit <= position:
            return None
        kind = MessagesSlice if segment.has_legacy_format else FileSlice
        return kind(segment.file, position, limit - position)

    def _behind_empty(self, segment: Segment, position: int, up_to: int, blocking: bool) -> tuple[Segment, int]:
        """The next batch with records, or the last one without: so a reader need not ask for each empty batch.

        librdkafka takes ten responses in a row without a record for a message that is too large.
        """
        found = segment, position
        for _ in range(_MAX_EMPTY_SEGMENTS):
            if segment.has_legacy_format:  # a message of that size is never empty
                break
            bounds = seek(segment, position, position, blocking=blocking)
            if bounds is None:
                if segment is self.active:
                    break
                segment, position = self._items[self.position_of(segment.base_offset) + 1], 0
                continue
            start, position, base_offset, _ = bounds
            if base_offset >= up_to:
                break
            found = segment, start
            if position - start > HEADER_SIZE:
                break
        return found

    def _limit_of(self, segment: Segment, position: int, max_bytes: int, at_least_one: bool, blocking: bool) -> int:
        """The end of a partial read: before the first batch that does not fit, unless that is the only one."""
        start, end, base_offset, last_offset = segment.cut(position, position + max_bytes, blocking)
        if start > position:
            self._remember(base_offset, segment, start)
            return start
        if not at_least_one:
            return position
        if end < segment.size:
            self._remember(last_offset + 1, segment, end)
        return end

    def _limit(self, segment: Segment, up_to: int, blocking: bool) -> int:
        """The position in this segment that a read up to an offset may not pass."""
        owner, position = self.locate(up_to, blocking)
        return position if owner is segment else segment.size

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        """Remember the place of an offset: a sequential consumer asks next for the end of its last read."""
        memo = self._memo
        if memo is None:
            memo = self._memo = {}
        elif len(memo) >= _MEMO_ENTRIES:
            del memo[next(iter(memo))]
        memo[offset] = (segment, position)

    def forget(self) -> None:
        """Forget the places of readers."""
        self._memo = None

    # Changing

    def add(self, segment: Segment) -> None:
        """Append to a new segment from now on."""
        if self._memo is not None:  # the offset was the end of the old segment
            self._memo.pop(segment.base_offset, None)
        self._items.append(segment)
        self.active = segment

    def delete_first(self, delay_ms: float) -> None:
        """Delete the oldest of several segments; its files go after `delay_ms`. Raises OSError: the segment stays."""
        self._memo = None
        self._items[0].delete(delay_ms)
        del self._items[0]

    def forget_first(self, count: int) -> list[Segment]:
        """Give up the oldest segments, and return them; at least one must stay."""
        self._memo = None
        gone = self._items[:count]
        del self._items[:count]
        for segment in gone:
            segment.close()
        return gone

    def put_back(self, segments: Sequence[Segment]) -> None:
        """Put given-up segments back, as the oldest ones."""
        self._items[:0] = segments

    def seal(self, unsynced: list[str]) -> bool:
        """Write the indexes of all segments that are not sealed; true if there were any. Raises OSError.

        These are the last segment, and others that found no room on the disk. The paths are added to `unsynced`.
        """
        is_changed = False
        for segment in list(self._items):  # a copy, for a thread that rolls: the loop may swap segments meanwhile
            if not segment.is_sealed and segment.seal():
                unsynced += segment.sealed_files
                is_changed = True
        return is_changed

    def drop_behind(self, segment: Segment, position: int) -> None:
        """Remove the bytes of a segment from a position on, and all later segments. Raises OSError."""
        self._memo = None
        if self._compacted is not None:
            self._compacted.void_from(segment.base_offset)
        while self._items[-1] is not segment:
            self._delete_last()
        segment.truncate(position)
        segment.file.sync()
        if not position and len(self._items) > 1:
            self._delete_last()
        self.active = self._items[-1]

    def forget_behind(self, base_offset: int, position: int) -> None:
        """`drop_behind` in memory alone, for later or empty segments; the files do not change."""
        number = self.position_of(base_offset)
        self._forget(self._items[number if number and not position else number + 1 :], base_offset)
        self.active = self._items[-1]

    def replace_all(self, segment: Segment) -> None:
        """Replace all segments by this one; the files do not change."""
        self._forget(self._items, self._items[0].base_offset)
        self.add(segment)

    def _forget(self, gone: Sequence[Segment], offset: int) -> None:
        """Forget these, the last segments; facts about records from `offset` on are void."""
        self._memo = None
        if self._compacted is not None:
            self._compacted.void_in_memory(offset)
        del self._items[len(self._items) - len(gone) :]
        for segment in gone:
            segment.retire()

    def renew(self, segment: Segment) -> None:
        """Replace the segment with the same base offset by this one, which has rebuilt indexes."""
        number = self.position_of(segment.base_offset)
        old, self._items[number] = self._items[number], segment
        old.close()
        segment.created_ms = old.created_ms
        self._memo = None
        if old is self.active:
            self.active = segment

    def _delete_last(self) -> None:
        self._items[-1].delete()  # after a failure it is still the last
        del self._items[-1]

    def holds(self, segments: Sequence[Segment]) -> bool:
        """Whether these segments are here, in a row, before the active one."""
        first = self.position_of(segments[0].base_offset)
        found = self._items[first : first + len(segments)]
        return len(found) == len(segments) and all(map(is_, found, segments)) and self.active not in segments

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace `old`, which must be here, by one segment with the base offset of the first."""
        first = self.position_of(old[0].base_offset)
        self._items[first : first + len(old)] = [new]
        self._memo = None


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
