"""Records by time: which is the first from a moment on, and which is the newest.

A time index says up to which offset everything is older; from there on batches are walked, and the records of one that
may hold the moment are looked at. Timestamps need not be in order.

What is needed of the segments is taken at once, as pieces of their files. The rest goes in slices, as it may take long:
a batch says in its header how late its records are, which need not be true, and may hold a million of them. So it can
run in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from protocol.errors import KafkaError
from protocol.records import compression
from protocol.records.batch import HEADER_SIZE, MAX_TIMESTAMP, BatchHeader, read_header, read_varint
from protocol.records.compression import Steps
from storage import messages
from storage.segment import FileSlice, MessagesSlice, Segment

MOST_SEGMENTS = 4
"""So many are searched: the first whose newest record is late enough holds what is sought, unless headers say more
than their records hold."""

RECORDS_AT_ONCE = 500
_HOPS_AT_ONCE = 500
_WINDOW_BYTES = 4096


class TimestampOffset(NamedTuple):
    """A record found by time."""

    offset: int
    timestamp: int
    leader_epoch: int


class _Made:
    """Batches in memory, read as those of a file are."""

    __slots__ = ("_data",)

    def __init__(self, data: bytearray) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def read_steps(self, start: int, length: int) -> Steps[bytes | bytearray]:
        """Some of the bytes; never waits."""
        yield from ()
        return self._data[start : start + length]


class Search(NamedTuple):
    """What is sought, and where. `pieces` begin with a batch."""

    pieces: list[FileSlice]
    timestamp_ms: int
    start_offset: int

    def steps(self, up_to: int) -> Steps[TimestampOffset | None]:
        """The first record of this time or later, from `start_offset` on; None if it is not below `up_to`.

        Raises OSError.
        """
        for piece in self.pieces:
            if isinstance(piece, MessagesSlice):
                found = yield from self._within_messages(piece)
            else:
                found = yield from self._within(piece)
            piece.release()
            if found is not None:
                return found if found.offset < up_to else None
        return None

    def _within_messages(self, piece: FileSlice) -> Steps[TimestampOffset | None]:
        """The same where there may be messages of magic 0 and 1, up to the first fault."""
        position = 0
        while position < len(piece):
            try:
                made, position = yield from messages.batches_steps(piece, position)
            except KafkaError:
                return None
            found = yield from self._within(_Made(made))
            if found is not None:
                return found
            yield
        return None

    def _within(self, piece: FileSlice | _Made) -> Steps[TimestampOffset | None]:
        """The first in one piece, up to the first place that is no batch."""
        window: bytes | bytearray = b""
        start, position, hops = 0, 0, 0
        while len(piece) - position >= HEADER_SIZE:
            if position - start + HEADER_SIZE > len(window):
                window, start = (yield from piece.read_steps(position, _WINDOW_BYTES)), position
            try:
                header = read_header(window, position - start)
            except KafkaError:
                break
            if header.size > len(piece) - position:
                break
            if header.max_timestamp >= self.timestamp_ms and header.last_offset >= self.start_offset:
                data = yield from piece.read_steps(position, header.size)
                found = yield from self._among(header, data)
                if found is not None:
                    return found
            position += header.size
            hops += 1
            if not hops % _HOPS_AT_ONCE:
                yield
        return None

    def _among(self, header: BatchHeader, data: bytes | bytearray) -> Steps[TimestampOffset | None]:
        """The first of a batch's records; where they cannot be read, a stand-in that has what the header says."""
        content = memoryview(data)[HEADER_SIZE:]
        if header.compression != compression.NONE:
            yield
        try:
            plain = bytes(compression.decompress(header.compression, content))
            return (yield from self._scan(header, plain))
        except (KafkaError, IndexError):
            found = TimestampOffset(header.base_offset, header.max_timestamp, header.partition_leader_epoch)
            return found if found.offset >= self.start_offset else None

    def _scan(self, header: BatchHeader, data: bytes) -> Steps[TimestampOffset | None]:
        """Look at the length, the time and the offset of each record. Raises IndexError where there is none."""
        base_offset, base_timestamp = header.base_offset, header.base_timestamp
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
            if timestamp >= self.timestamp_ms and offset >= self.start_offset:
                if timestamp > MAX_TIMESTAMP:
                    raise IndexError
                return TimestampOffset(offset, timestamp, header.partition_leader_epoch)
            position = end
            if not number % RECORDS_AT_ONCE:
                yield
        return None


def first_from(segments: Iterable[Segment], timestamp_ms: int, start_offset: int) -> Search:
    """For the first record of this time or later, from `start_offset` on. Raises OSError."""
    pieces = []
    for segment in segments:
        if segment.max_timestamp >= timestamp_ms:
            pieces.append(_piece(segment, timestamp_ms))
            if len(pieces) == MOST_SEGMENTS:
                break
    return Search(pieces, timestamp_ms, start_offset)


def newest(segments: Sequence[Segment], start_offset: int) -> Search:
    """For the first record with the highest timestamp. Raises OSError."""
    latest = max(segments, key=lambda segment: segment.max_timestamp)
    pieces = [] if latest.max_timestamp < 0 else [_piece(latest, latest.max_timestamp)]
    return Search(pieces, latest.max_timestamp, start_offset)


def _piece(segment: Segment, timestamp_ms: int) -> FileSlice:
    """All from where a record of this time or later may be."""
    position = segment.offsets.floor(segment.times.floor(timestamp_ms))
    return segment.slice(position, max(0, segment.size - position))
