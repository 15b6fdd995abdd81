"""Batches to message sets: what a log holds, for a reader of old formats.

The time goes into `MessageEncoder.give`, about a microsecond a record. A batch may have been taken with a look at its
header only, so that nothing is expected of its records.
"""

from __future__ import annotations

import struct
from zlib import crc32

from headgate.protocol.errors import KafkaError
from headgate.protocol.records import batch, compression
from headgate.protocol.records.batch import HEADER_SIZE, LOG_OVERHEAD, NO_TIMESTAMP, BatchHeader, Buffer, read_header
from headgate.protocol.records.compression import FAST_LEVEL, GZIP, NONE, SNAPPY
from headgate.protocol.records.message_set import (
    HEAD,
    LENGTH,
    LOG_APPEND_TIME,
    MAGIC_POSITION,
    MAGIC_TO_TIMESTAMP,
    NULL,
    OFFSET,
    SMALLEST_MESSAGE_BYTES,
    STEP_BYTES,
    ConvertedRecords,
    corrupt,
    encode,
    invalid,
)
from headgate.protocol.records.up_conversion import up_convert_stored_steps
from headgate.protocol.records.varint import read_rest, read_zigzag
from headgate.protocol.steps import Steps

MAX_SET_BYTES = 16 << 20
"""What goes into one wrapper: a batch that becomes larger than that is made into several."""


class MessageEncoder:
    """The records of one batch, as they are read to become messages."""

    __slots__ = (
        "_append_time",
        "_base",
        "_base_offset",
        "_base_timestamp",
        "_data",
        "_magic",
        "_most",
        "_wanted",
        "kind",
        "last_offset",
        "left",
        "max_timestamp",
        "position",
    )

    def __init__(self, header: BatchHeader, data: bytes, magic: int, first_offset: int) -> None:
        self._data = data
        self._magic = magic
        self._base_offset = header.base_offset
        self._wanted = max(0, first_offset - header.base_offset) << 1  # zigzag
        self._base_timestamp = header.base_timestamp
        self._most = header.last_offset_delta << 1  # zigzag
        self._append_time = header.max_timestamp if header.is_log_append_time else None
        self._base = 0
        self.kind = LOG_APPEND_TIME if magic and header.is_log_append_time else 0
        self.position = 0
        self.left = header.records_count
        self.last_offset = -1  # of those given
        self.max_timestamp = NO_TIMESTAMP

    def begin(self, *, is_relative: bool) -> tuple[int, int]:
        """Begin a wrapper: offsets may count from its first message. Gives `position` and `left` of now.

        Raises IndexError for what is no record.
        """
        self._base = self._base_offset + (self._offset_delta()[0] >> 1) if is_relative else 0
        self.max_timestamp = NO_TIMESTAMP
        return self.position, self.left

    def _offset_delta(self) -> tuple[int, int]:
        """That of the next record, zigzag, and the position behind that record."""
        size, position = read_zigzag(self._data, self.position)
        _, position_of_delta = read_zigzag(self._data, position + 1)
        return read_zigzag(self._data, position_of_delta)[0], position + (size >> 1)

    def skip(self, limit_bytes: int) -> bool:
        """Pass over records before the first wanted offset, of about that size; whether there are no more of these.

        Raises IndexError for what is no record.
        """
        stop_at = self.position + limit_bytes
        while self.left and self.position < stop_at:
            delta, end = self._offset_delta()
            if delta >= self._wanted:
                return True
            self.position, self.left = end, self.left - 1
        return not self.left

    def give(self, limit_bytes: int) -> list[bytes]:
        """Messages of about that size together, at least one, each as two parts; none if there are no more.

        Raises IndexError or struct.error for what is no record.
        """
        data, position, left, base, most = self._data, self.position, self.left, self._base, self._most
        base_offset, pack_head, pack_int, size, offset = self._base_offset, HEAD.pack, LENGTH.pack, 0, self.last_offset
        parts: list[bytes] = []
        previous, start = None, b""
        while left and size < limit_bytes:
            byte = data[position]
            position += 1
            if byte > 127:  # here, at the offset and the value two bytes are so common that they are taken inline
                high = data[position]
                if high < 128:
                    byte, position = byte + high * 128 - 128, position + 1
                else:
                    byte, position = read_rest(data, position, byte)
            end = position + (byte >> 1)
            byte = data[position + 1]  # after the attributes, unused
            position += 2
            if byte > 127:
                byte, position = read_rest(data, position, byte)
            if byte != previous:
                previous, start = byte, self._start(byte)
            byte = data[position]
            position += 1
            if byte > 127:
                high = data[position]
                if high < 128:
                    byte, position = byte + high * 128 - 128, position + 1
                else:
                    byte, position = read_rest(data, position, byte)
            if byte & 1 or byte > most:
                raise IndexError("its offset is outside of those that its batch has")
            offset = base_offset + (byte >> 1)
            byte = data[position]
            position += 1
            if byte > 127:
                byte, position = read_rest(data, position, byte)
            if byte & 1:
                message = start + NULL
            else:
                at = position + (byte >> 1)
                message = start + pack_int(byte >> 1) + data[position:at]
                position = at
            byte = data[position]
            position += 1
            if byte > 127:
                high = data[position]
                if high < 128:
                    byte, position = byte + high * 128 - 128, position + 1
                else:
                    byte, position = read_rest(data, position, byte)
            if byte & 1:
                message += NULL
            else:
                at = position + (byte >> 1)
                message += pack_int(byte >> 1) + data[position:at]
                position = at
            if position >= end:  # there is a count of headers at least
                raise IndexError(f"the record that ends at byte {end} has fields behind that")
            parts += (pack_head(offset - base, len(message) + 4, crc32(message)), message)
            size += len(message) + 16
            position = end
            left -= 1
        if position > len(data):
            raise IndexError(f"the last record passes the end of the batch by {position - len(data)} bytes")
        self.position, self.left, self.last_offset = position, left, offset
        return parts

    def _start(self, delta: int) -> bytes:
        """What a message begins with, behind its CRC; `delta` is that of the time, zigzag."""
        if self._magic == 0:
            return b"\x00\x00"
        timestamp = self._append_time
        if timestamp is None:
            timestamp = self._base_timestamp + ((delta >> 1) ^ -(delta & 1))
        self.max_timestamp = max(self.max_timestamp, timestamp)
        return MAGIC_TO_TIMESTAMP.pack(1, self.kind, timestamp)


class DownConversion:
    """A piece of a log, as it becomes a set."""

    __slots__ = ("_data", "_first_offset", "_is_full", "_magic", "_max_bytes", "next_offset", "out")

    def __init__(self, data: memoryview, magic: int, first_offset: int, max_bytes: int) -> None:
        self._data = data
        self._magic = magic
        self._first_offset = first_offset
        self._max_bytes = max_bytes
        self._is_full = False
        self.next_offset = first_offset
        self.out = bytearray()

    def steps(self) -> Steps[None]:
        """Convert until the set is full, or the piece is used up. Raises KafkaError; `out` has what came before."""
        position = 0
        while not self._is_full and position + MAGIC_POSITION < len(self._data):
            magic = self._data[position + MAGIC_POSITION]
            if magic <= self._magic:
                position = self._keep(position)
                if position < len(self._data):
                    yield
            elif magic < batch.MAGIC:
                stored = yield from up_convert_stored_steps(self._data[position:])
                self._data, position = memoryview(stored.data), 0
            else:
                position = yield from self._convert(position)

    def _add(self, part: Buffer, next_offset: int) -> bool:
        """Add what there is room for; the first always. If there is none, the set is full."""
        size = len(self.out) + len(part)
        if size > self._max_bytes and self.out:
            self._is_full = True
            return False
        self.out += part
        self.next_offset = next_offset
        self._is_full = self._is_full or size >= self._max_bytes
        return True

    def _keep(self, position: int) -> int:
        """Take a slice of messages as they are; the position after them."""
        data, end = self._data, position
        stop_at = min(position + STEP_BYTES, len(data) - MAGIC_POSITION)
        while position < stop_at and data[position + MAGIC_POSITION] <= self._magic:
            offset, size, _ = HEAD.unpack_from(data, position)
            if size < SMALLEST_MESSAGE_BYTES:
                raise corrupt(f"the message at byte {position} has a size of {size}; the smallest has 14")
            end = position + LOG_OVERHEAD + int(size)
            if end > len(data):
                return end
            if offset >= self._first_offset and not self._add(data[position:end], offset + 1):
                break
            position = end
        return position

    def _convert(self, position: int) -> Steps[int]:
        """Take a batch; the position after it, or after the piece if it is cut."""
        if len(self._data) - position < HEADER_SIZE:
            return len(self._data)
        header = read_header(self._data, position)
        end = position + header.size
        if end > len(self._data):
            return end
        if not header.is_control and header.records_count > 0 and header.last_offset >= self._first_offset:
            content = self._data[position + HEADER_SIZE : end]
            if header.compression != NONE:
                yield
            plain = bytes(compression.decompress(header.compression, content))
            records = MessageEncoder(header, plain, self._magic, self._first_offset)
            try:
                while not records.skip(STEP_BYTES):
                    yield
                yield from self._give(records) if header.compression == NONE else self._wrap(records, header)
            except (IndexError, struct.error) as error:
                raise invalid(f"a record of the batch at offset {header.base_offset} cannot be read: {error}") from None
        if not self._is_full:
            self.next_offset = max(self.next_offset, header.last_offset + 1)
        return end

    def _give(self, records: MessageEncoder) -> Steps[None]:
        """Add records one by one."""
        while records.left and not self._is_full:
            parts = records.give(STEP_BYTES)
            size, room = sum(map(len, parts)), self._max_bytes - len(self.out)
            while size > room and len(parts) > (0 if self.out else 2):
                self._is_full = True
                size -= len(parts.pop()) + len(parts.pop())
            if parts:
                self._add(b"".join(parts), OFFSET.unpack_from(parts[-2])[0] + 1)
            if records.left:
                yield

    def _wrap(self, records: MessageEncoder, header: BatchHeader) -> Steps[None]:
        """Add records in wrappers: one, or as many as the limits ask for."""
        codec = SNAPPY if header.compression == SNAPPY else GZIP
        limit = MAX_SET_BYTES
        while records.left and not self._is_full:
            position, left = records.begin(is_relative=self._magic > 0)
            inner = bytearray()
            last = 0  # where the last message begins
            while records.left and len(inner) < limit:
                parts = records.give(min(STEP_BYTES, limit - len(inner)))
                inner += b"".join(parts)
                last = len(inner) - len(parts[-1]) - len(parts[-2])
                if records.left:
                    yield
            content = yield from compression.compress_steps(codec, inner, FAST_LEVEL)
            attributes = codec | records.kind
            wrapper = encode(self._magic, attributes, records.last_offset, records.max_timestamp, None, content)
            if last and len(wrapper) > self._max_bytes and not self.out:
                limit = min(max(1, len(inner) * self._max_bytes // len(wrapper)), last)
                records.position, records.left = position, left
            else:
                self._add(wrapper, records.last_offset + 1)


def down_convert_steps(data: Buffer, magic: int, first_offset: int, max_bytes: int) -> Steps[ConvertedRecords]:
    """`down_convert` in slices."""
    conversion = DownConversion(memoryview(data), magic, first_offset, max_bytes)
    try:
        yield from conversion.steps()
    except KafkaError:
        if not conversion.out:
            raise
    return ConvertedRecords(conversion.out, conversion.next_offset)
