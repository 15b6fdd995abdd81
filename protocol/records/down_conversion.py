"""Down-conversion: stored batches to message sets, for readers of old formats.

The time goes into `MessageEncoder.encode_next`, about a microsecond a record. The append of a batch may have checked
only its header, so the code expects any fault in the records.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from zlib import crc32

from headgate.protocol.errors import KafkaError
from headgate.protocol.records import Buffer, batch, compression
from headgate.protocol.records.aborted_batches import AbortedBatches
from headgate.protocol.records.batch import HEADER_SIZE, LOG_OVERHEAD, NO_TIMESTAMP, BatchHeader, invalid, read_header
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
    encode,
    undersized,
)
from headgate.protocol.records.up_conversion import up_convert_stored_steps
from headgate.protocol.records.varint import read_rest, read_zigzag
from headgate.protocol.steps import Steps

MAX_SET_BYTES = 16 << 20
"""The most bytes within one wrapper; a larger batch becomes several wrappers."""


class MessageEncoder:
    """Reads the records of one batch, and encodes them as messages."""

    __slots__ = (
        "_append_time",
        "_base",
        "_base_offset",
        "_base_timestamp",
        "_data",
        "_first_delta",
        "_magic",
        "_max_delta",
        "last_offset",
        "left",
        "max_timestamp",
        "position",
        "timestamp_type",
    )

    def __init__(self, header: BatchHeader, data: bytes | memoryview, magic: int, first_offset: int) -> None:
        self._data = data
        self._magic = magic
        self._base_offset = header.base_offset
        self._first_delta = max(0, first_offset - header.base_offset) << 1  # zigzag
        self._base_timestamp = header.base_timestamp
        self._max_delta = header.last_offset_delta << 1  # zigzag
        self._append_time = header.max_timestamp if header.is_log_append_time else None
        self._base = 0
        self.timestamp_type = LOG_APPEND_TIME if magic and header.is_log_append_time else 0
        self.position = 0
        self.left = header.records_count
        self.last_offset = -1  # of the encoded records
        self.max_timestamp = NO_TIMESTAMP

    def begin_wrapper(self, *, is_relative: bool) -> tuple[int, int]:
        """Begin a wrapper. `is_relative`: offsets count from its first message. Return `position` and `left`.

        Raises IndexError for a faulty record.
        """
        self._base = self._base_offset + (self._offset_delta()[0] >> 1) if is_relative else 0
        self.max_timestamp = NO_TIMESTAMP
        return self.position, self.left

    def _offset_delta(self) -> tuple[int, int]:
        """Return the offset delta of the next record in zigzag form, and the position after that record."""
        size, position = read_zigzag(self._data, self.position)
        _, position_of_delta = read_zigzag(self._data, position + 1)
        return read_zigzag(self._data, position_of_delta)[0], position + (size >> 1)

    def skip_unwanted(self, limit_bytes: int) -> bool:
        """Skip about `limit_bytes` of records before the first wanted offset. Return True if none of them is left.

        Raises IndexError for a faulty record.
        """
        stop_at = self.position + limit_bytes
        while self.left and self.position < stop_at:
            delta, end = self._offset_delta()
            if delta >= self._first_delta:
                return True
            self.position, self.left = end, self.left - 1
        return not self.left

    def encode_next(self, limit_bytes: int) -> list[bytes]:
        """Encode the next records, at least one, to about `limit_bytes` of messages. Return two parts a message.

        An empty list means that no record is left. Raises IndexError or struct.error for a faulty record.
        """
        data, position, left, base, max_delta = self._data, self.position, self.left, self._base, self._max_delta
        base_offset, pack_head, pack_int, size, offset = self._base_offset, HEAD.pack, LENGTH.pack, 0, self.last_offset
        parts: list[bytes] = []
        previous, start = None, b""
        while left and size < limit_bytes:
            byte = data[position]
            position += 1
            if byte > 127:  # two bytes are common for sizes and offsets, so they are read without a call
                high = data[position]
                if high < 128:
                    byte, position = byte + high * 128 - 128, position + 1
                else:
                    byte, position = read_rest(data, position, byte)
            end = position + (byte >> 1)
            byte = data[position + 1]  # after the attributes, an unused byte
            position += 2
            if byte > 127:
                byte, position = read_rest(data, position, byte)
            if byte != previous:
                previous, start = byte, self._message_start(byte)
            byte = data[position]
            position += 1
            if byte > 127:
                high = data[position]
                if high < 128:
                    byte, position = byte + high * 128 - 128, position + 1
                else:
                    byte, position = read_rest(data, position, byte)
            if byte & 1 or byte > max_delta:
                raise IndexError("its offset is outside of the batch")
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
                message = message + pack_int(byte >> 1) + data[position:at]  # the value is copied once
                position = at
            if position >= end:  # a record has at least a count of headers after its value
                raise IndexError(f"the record that ends at byte {end} has fields after that")
            parts += (pack_head(offset - base, len(message) + 4, crc32(message)), message)
            size += len(message) + 16
            position = end
            left -= 1
        if position > len(data):
            raise IndexError(f"the last record passes the end of the batch by {position - len(data)} bytes")
        self.position, self.left, self.last_offset = position, left, offset
        return parts

    def _message_start(self, delta: int) -> bytes:
        """Return the first bytes of a message after its CRC. `delta`: the timestamp delta in zigzag form."""
        if self._magic == 0:
            return b"\x00\x00"
        timestamp = self._append_time
        if timestamp is None:
            timestamp = self._base_timestamp + ((delta >> 1) ^ -(delta & 1))
        self.max_timestamp = max(self.max_timestamp, timestamp)
        return MAGIC_TO_TIMESTAMP.pack(1, self.timestamp_type, timestamp)


class DownConversion:
    """The conversion of a piece of a log to a set."""

    __slots__ = ("_aborted", "_data", "_first_offset", "_is_full", "_magic", "_max_bytes", "next_offset", "out")

    def __init__(
        self, data: memoryview, magic: int, first_offset: int, max_bytes: int, aborted: Collection[tuple[int, int]]
    ) -> None:
        """`aborted`: producer id and first offset of the transactions to leave out; markers are always left out."""
        self._data = data
        self._aborted = AbortedBatches(aborted) if aborted else None
        self._magic = magic
        self._first_offset = first_offset
        self._max_bytes = max_bytes
        self._is_full = False
        self.next_offset = first_offset
        self.out = bytearray()

    def steps(self) -> Steps[None]:
        """Convert until the set is full, or the piece ends.

        Raises KafkaError; `out` has the messages before the fault.
        """
        position = pause_at = 0
        while not self._is_full and position + MAGIC_POSITION < len(self._data):
            if position >= pause_at:  # markers, and batches of aborted transactions, are skipped without a step
                pause_at = position + STEP_BYTES
                if position:
                    yield
            magic = self._data[position + MAGIC_POSITION]
            if magic <= self._magic:
                position = self._copy_messages(position)
            elif magic < batch.MAGIC:
                stored = yield from up_convert_stored_steps(self._data[position:])
                self._data, position, pause_at = memoryview(stored.data), 0, STEP_BYTES
            else:
                position = yield from self._convert_batch(position)

    def _add(self, part: Buffer, next_offset: int) -> bool:
        """Add a part if there is room, and the first part always.

        Return False, with the set full, if there is no room.
        """
        size = len(self.out) + len(part)
        if size > self._max_bytes and self.out:
            self._is_full = True
            return False
        self.out += part
        self.next_offset = next_offset
        self._is_full = self._is_full or size >= self._max_bytes
        return True

    def _copy_messages(self, position: int) -> int:
        """Copy the messages of one step unchanged; return the position after them."""
        data, end = self._data, position
        stop_at = min(position + STEP_BYTES, len(data) - MAGIC_POSITION)
        while position < stop_at and data[position + MAGIC_POSITION] <= self._magic:
            offset, size, _ = HEAD.unpack_from(data, position)
            if size < SMALLEST_MESSAGE_BYTES:
                raise undersized(position, size)
            end = position + LOG_OVERHEAD + int(size)
            if end > len(data):
                return end
            if offset >= self._first_offset and not self._add(data[position:end], offset + 1):
                break
            position = end
        return position

    def _convert_batch(self, position: int) -> Steps[int]:
        """Convert a batch; return the position after it, or after the piece if the batch is cut."""
        if len(self._data) - position < HEADER_SIZE:
            return len(self._data)
        header = read_header(self._data, position)
        end = position + header.size
        if end > len(self._data):
            return end
        is_aborted = self._aborted is not None and self._aborted.includes(header, self._data[position:end])
        is_data = header.records_count > 0 and not header.is_control and not is_aborted
        if is_data and header.last_offset >= self._first_offset:
            content = self._data[position + HEADER_SIZE : end]
            if header.compression != NONE:
                yield
            plain = compression.decompress_records(header.compression, content)
            encoder = MessageEncoder(header, plain, self._magic, self._first_offset)
            try:
                while not encoder.skip_unwanted(STEP_BYTES):
                    yield
                yield from (
                    self._add_plain(encoder) if header.compression == NONE else self._add_wrappers(encoder, header)
                )
            except (IndexError, struct.error) as error:
                raise invalid(f"a record of the batch at offset {header.base_offset} cannot be read: {error}") from None
        if not self._is_full:
            self.next_offset = max(self.next_offset, header.last_offset + 1)
        return end

    def _add_plain(self, encoder: MessageEncoder) -> Steps[None]:
        """Add the records as plain messages."""
        while encoder.left and not self._is_full:
            parts = encoder.encode_next(STEP_BYTES)
            size, room = sum(map(len, parts)), self._max_bytes - len(self.out)
            while size > room and len(parts) > (0 if self.out else 2):
                self._is_full = True
                size -= len(parts.pop()) + len(parts.pop())
            if parts:
                self._add(b"".join(parts), OFFSET.unpack_from(parts[-2])[0] + 1)
            if encoder.left:
                yield

    def _add_wrappers(self, encoder: MessageEncoder, header: BatchHeader) -> Steps[None]:
        """Add the records in one wrapper, or in as many as the limits need."""
        codec = SNAPPY if header.compression == SNAPPY else GZIP
        limit = MAX_SET_BYTES
        while encoder.left and not self._is_full:
            position, left = encoder.begin_wrapper(is_relative=self._magic > 0)
            inner = bytearray()
            last = 0  # the position of the last message
            while encoder.left and len(inner) < limit:
                parts = encoder.encode_next(min(STEP_BYTES, limit - len(inner)))
                size = _move(parts, inner)
                last = len(inner) - size
                if encoder.left:
                    yield
            content = yield from compression.compress_steps(codec, inner, FAST_LEVEL)
            attributes = codec | encoder.timestamp_type
            wrapper = encode(self._magic, attributes, encoder.last_offset, encoder.max_timestamp, None, content)
            if last and len(wrapper) > self._max_bytes and not self.out:
                limit = min(max(1, len(inner) * self._max_bytes // len(wrapper)), last)
                encoder.position, encoder.left = position, left
            else:
                self._add(wrapper, encoder.last_offset + 1)


def _move(parts: list[bytes], out: bytearray) -> int:
    """Move messages of two parts each to the end of `out`. Return the size of the last message.

    A large message comes alone: a join would be one more copy of it.
    """
    size = len(parts[-1]) + len(parts[-2])
    if len(parts) == 2:
        out += parts[0]
        out += parts[1]
    else:
        out += b"".join(parts)
    parts.clear()
    return size


def down_convert_steps(
    data: Buffer, magic: int, first_offset: int, max_bytes: int, aborted: Collection[tuple[int, int]] = ()
) -> Steps[ConvertedRecords]:
    """Convert stored records from `first_offset` on to a set of this magic.

    The set has as many whole messages as `max_bytes` allow, and the first one whatever its size. A compressed batch
    becomes one wrapper in its codec, with gzip in place of lz4 and zstd: some readers of such sets do not know those.
    The batch becomes several wrappers if one would exceed `max_bytes`. Messages of this magic or an older one stay
    unchanged.

    The result ends before a cut message or batch, and before the first faulty one. A fault of the first one raises
    KafkaError: CORRUPT_MESSAGE, INVALID_RECORD, UNSUPPORTED_COMPRESSION_TYPE, or MESSAGE_TOO_LARGE for a batch of more
    than `compression.MAX_OUTPUT_BYTES` decompressed.
    """
    conversion = DownConversion(memoryview(data), magic, first_offset, max_bytes, aborted)
    try:
        yield from conversion.steps()
    except KafkaError:
        if not conversion.out:
            raise
    return ConvertedRecords(conversion.out, conversion.next_offset)
