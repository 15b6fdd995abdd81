"""Timestamp lookup: the first record at or after a time, and the newest record.

A time index gives the offset before which everything is older; from there on the lookup reads batches, and the records
of a batch that may have the time. Timestamps need not be in order.

The result is exact if no record is later than the maximum timestamp in its batch's header. Where a header claims too
much, the search continues, and finds the same after a longer time. By default no leader checks either. Where a header
may claim too little (`may_have_later_records`), the search reads the batch. It also begins one segment earlier, as the
last batch there may be such a one. So times that grow from batch to batch are found whatever such headers claim; any
other record that is later than its header is found only together with others.

The planner takes slices of a few segments at once. The search itself runs in time slices, also in a thread, as it may
take long: a batch may hold a million records. If these segments were not enough, the search ends with `More`, for the
next plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from headgate.protocol.errors import KafkaError
from headgate.protocol.records import compression
from headgate.protocol.records.batch import HEADER_SIZE, MAX_TIMESTAMP, BatchHeader, read_header
from headgate.protocol.records.varint import read_varint
from headgate.protocol.steps import Steps
from headgate.storage.segment import legacy_messages
from headgate.storage.segment.file_slice import FileSlice, MessagesSlice
from headgate.storage.segment.segment import Segment

SEGMENTS_AT_ONCE = 4
"""The number of segments planned together, as each keeps a file open: mostly the first one has the record."""

RECORDS_AT_ONCE = 500
_BATCHES_AT_ONCE = 500
_WINDOW_BYTES = 4096


class TimestampOffset(NamedTuple):
    """A record found by time."""

    offset: int
    timestamp: int
    leader_epoch: int


class _Made:
    """Batches in memory, with the interface of a slice."""

    __slots__ = ("_data",)

    def __init__(self, data: bytearray) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def read_steps(self, start: int, length: int) -> Steps[bytes | bytearray]:
        """A part of the bytes; never waits."""
        yield from ()
        return self._data[start : start + length]


class More(NamedTuple):
    """The planned segments were not enough. The next plan begins with the segment of this base offset.

    In a search for the newest record, with segments in the order of their claimed times: that claim, and the best
    record so far.
    """

    base_offset: int
    claim: int = 0
    best: TimestampOffset | None = None


Found: TypeAlias = TimestampOffset | More | None


class Wanted(NamedTuple):
    """Records at or after a time, from an offset on: the first of them, or the first of the newest.

    `ends_with_claims`: the search ends where, behind such a record, a header claims an older time than `timestamp_ms`.
    """

    timestamp_ms: int
    start_offset: int
    is_newest: bool = False
    ends_with_claims: bool = False


class First(NamedTuple):
    """The search for the first record at or after a time. Each slice begins with a batch."""

    pieces: list[FileSlice]
    wanted: Wanted
    more: More | None

    def steps(self, up_to: int) -> Steps[Found]:
        """The record; None if it is not below `up_to`. Raises OSError."""
        for piece in self.pieces:
            found = yield from _within(piece, self.wanted)
            piece.release()
            if found is not None:
                return _below(up_to, found)
        return self.more


class Rank(NamedTuple):
    """A segment that may hold the newest record; later claims of headers are searched first."""

    claim: int
    base_offset: int

    @property
    def key(self) -> tuple[int, int]:
        """The order of the search: the oldest first among equal claims."""
        return -self.claim, self.base_offset

    def may_hold_newer(self, best: TimestampOffset | None) -> bool:
        """Whether the segment may hold the first record with the highest timestamp."""
        return best is None or self.claim > best.timestamp or self.is_tie(best)

    def is_tie(self, best: TimestampOffset) -> bool:
        """Whether the segment may hold an earlier record with the same time."""
        return self.claim >= best.timestamp and self.base_offset < best.offset


class Newest(NamedTuple):
    """The search for the first record with the highest timestamp, if a segment's headers claimed too much."""

    pieces: list[tuple[Rank, FileSlice]]
    start_offset: int
    best: TimestampOffset | None
    left: Rank | None

    def steps(self, up_to: int) -> Steps[Found]:
        """The record; None if it is not below `up_to`. Raises OSError."""
        best = self.best
        for rank, piece in self.pieces:
            if not rank.may_hold_newer(best):
                break
            least = 0 if best is None else best.timestamp + (not rank.is_tie(best))
            best = (yield from _within(piece, Wanted(least, self.start_offset, is_newest=True))) or best
            piece.release()
        left = self.left
        if left is not None and left.may_hold_newer(best):
            return More(left.base_offset, left.claim, best)
        return _below(up_to, best)


Search: TypeAlias = First | Newest


def _below(up_to: int, found: TimestampOffset | None) -> TimestampOffset | None:
    return found if found is not None and found.offset < up_to else None


def _within(piece: FileSlice, wanted: Wanted) -> Steps[TimestampOffset | None]:
    """The wanted record in a slice, up to the first fault."""
    if not isinstance(piece, MessagesSlice):
        return (yield from _within_batches(piece, wanted))
    best = None  # there may be messages of magic 0 and 1
    position = 0
    while position < len(piece):
        try:
            made, position = yield from legacy_messages.batches_steps(piece, position)
        except KafkaError:
            break
        found = yield from _within_batches(_Made(made), wanted)
        if found is not None:
            if not wanted.is_newest or wanted.ends_with_claims:
                return found
            best, wanted = found, wanted._replace(timestamp_ms=found.timestamp + 1)
        yield
    return best


def _within_batches(piece: FileSlice | _Made, wanted: Wanted) -> Steps[TimestampOffset | None]:
    window: bytes | bytearray = b""
    best, claim = None, wanted.timestamp_ms
    start, position, batches_read = 0, 0, 0
    while len(piece) - position >= HEADER_SIZE:
        if position - start + HEADER_SIZE > len(window):
            window, start = (yield from piece.read_steps(position, _WINDOW_BYTES)), position
        try:
            header = read_header(window, position - start)
        except KafkaError:
            break
        if header.size > len(piece) - position:
            break
        if best is not None and wanted.ends_with_claims and header.max_timestamp < claim:
            break
        may_be_in_time = header.max_timestamp >= wanted.timestamp_ms or header.may_have_later_records
        if may_be_in_time and header.last_offset >= wanted.start_offset:
            data = yield from piece.read_steps(position, header.size)
            found = yield from _among(header, data, wanted)
            if found is not None:
                if not wanted.is_newest:
                    return found
                best, wanted = found, wanted._replace(timestamp_ms=found.timestamp + 1)
        position += header.size
        batches_read += 1
        if not batches_read % _BATCHES_AT_ONCE:
            yield
    return best


def _among(header: BatchHeader, data: bytes | bytearray, wanted: Wanted) -> Steps[TimestampOffset | None]:
    """The wanted record in a batch; for unreadable records a stand-in with the header's values."""
    content = memoryview(data)[HEADER_SIZE:]
    if header.compression != compression.NONE:
        yield
    try:
        plain = compression.decompress_records(header.compression, content)
        return (yield from _scan(header, plain, wanted))
    except (KafkaError, IndexError):
        found = TimestampOffset(header.base_offset, header.max_timestamp, header.partition_leader_epoch)
        is_wanted = found.offset >= wanted.start_offset and found.timestamp >= wanted.timestamp_ms
        return found if is_wanted else None


def _scan(header: BatchHeader, data: bytes | memoryview, wanted: Wanted) -> Steps[TimestampOffset | None]:
    """Read the length, the time and the offset of each record. Raises IndexError where there is no record."""
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    least, best = wanted.timestamp_ms, None
    position = 0
    for number in range(1, header.records_count + 1):
        length, position = read_varint(data, position)
        end = position + length
        delta, at = read_varint(data, position + 1)  # a byte of attributes, unused, comes first
        offset_delta, _ = read_varint(data, at)
        if not position < end <= len(data) or not 0 <= offset_delta <= header.last_offset_delta:
            raise IndexError
        timestamp = header.max_timestamp if header.is_log_append_time else base_timestamp + delta
        offset = base_offset + offset_delta
        if timestamp >= least and offset >= wanted.start_offset:
            if timestamp > MAX_TIMESTAMP:
                raise IndexError
            best, least = TimestampOffset(offset, timestamp, header.partition_leader_epoch), timestamp + 1
            if not wanted.is_newest:
                break
        position = end
        if not number % RECORDS_AT_ONCE:
            yield
    return best


def first_from(segments: Sequence[Segment], timestamp_ms: int, start_offset: int, blocking: bool = True) -> First:
    """Plan the search for the first record at or after a time, from `start_offset` on.

    Raises OSError; WouldBlock if not `blocking`.
    """
    pieces: list[FileSlice] = []
    more = None
    older, before_ms = None, timestamp_ms - 1  # batches before the first one that claims the time may have it too
    for segment in segments:
        if segment.read_max_timestamp(blocking) < timestamp_ms:
            older = segment
            continue
        if len(pieces) >= SEGMENTS_AT_ONCE:
            more = More(segment.base_offset)
            break
        if not pieces and older is not None:
            pieces.append(_piece(older, before_ms, blocking))
        pieces.append(_piece(segment, before_ms, blocking))
    if not pieces and older is not None:
        pieces.append(_piece(older, before_ms, blocking))
    return First(pieces, Wanted(timestamp_ms, start_offset), more)


def newest(segments: Sequence[Segment], start_offset: int, more: More | None = None, blocking: bool = True) -> Search:
    """Plan the search for the newest record's first. Raises OSError; WouldBlock if not `blocking`.

    `more`: the end of an earlier search, which did not find the highest timestamp that the headers claim.
    """
    if more is None:
        latest = max(segments, key=lambda segment: segment.read_max_timestamp(blocking))  # the oldest of equal ones
        claim = latest.max_timestamp
        if claim < 0:
            return First([], Wanted(0, start_offset), None)
        wanted = Wanted(claim, start_offset, is_newest=True, ends_with_claims=True)
        return First([_piece(latest, claim, blocking)], wanted, More(latest.base_offset, claim))
    reached = Rank(more.claim, more.base_offset).key
    ranked = [(Rank(segment.read_max_timestamp(blocking), segment.base_offset), segment) for segment in segments]
    ranked = sorted([one for one in ranked if one[0].claim >= 0 and one[0].key >= reached], key=lambda one: one[0].key)
    pieces = [(rank, _piece(segment, -1, blocking)) for rank, segment in ranked[:SEGMENTS_AT_ONCE]]
    left = ranked[SEGMENTS_AT_ONCE][0] if len(ranked) > SEGMENTS_AT_ONCE else None
    return Newest(pieces, start_offset, more.best, left)


def _piece(segment: Segment, timestamp_ms: int, blocking: bool) -> FileSlice:
    """The rest of a segment, from the first place that may have a record at or after a time."""
    position = segment.offsets.floor(segment.times.floor(timestamp_ms, blocking), blocking)
    return segment.slice(position, max(0, segment.size - position))
