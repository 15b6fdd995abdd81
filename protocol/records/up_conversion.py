"""Up-conversion: message sets of clients, and stored messages of old formats, to batches.

The time goes into `MessageReader.move_to`, about a microsecond a record. It converts sound plain messages in bulk. It
stops at any other message, faulty or of another kind, and `MessageReader.read_message` then examines that message.
"""

from __future__ import annotations

import functools
import struct
from typing import NamedTuple
from zlib import crc32

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records import Buffer, batch, compression, frame_headers, lz4
from headgate.protocol.records.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    NO_TIMESTAMP,
    corrupt,
    invalid,
    read_header,
)
from headgate.protocol.records.compression import FAST_LEVEL, LZ4, ZSTD
from headgate.protocol.records.message_set import (
    CRC_START,
    HEAD,
    LENGTH,
    LOG_APPEND_TIME,
    MAGIC_POSITION,
    MESSAGE_HEADS,
    OFFSET,
    SMALLEST_MESSAGE_BYTES,
    STEP_BYTES,
    ConvertedRecords,
    undersized,
)
from headgate.protocol.records.varint import encode_varint, write_varint
from headgate.protocol.steps import Steps

MAX_BATCH_BYTES = 1 << 20
# The most batches of a client's set. Each takes some microseconds to append; Kafka accepts only one wrapper.
MAX_BATCHES = 10_000
_TABLE_SIZE = 1 << 13  # the numbers of a varint of up to two bytes
_MAX_DELTA = 0x7FFF_FFFF


@functools.cache
def _varints() -> list[bytes]:
    """Return the varints of 0 to 8191, of one or two bytes.

    The first set makes the table, not the start of the broker.
    """
    short = [bytes((number << 1,)) for number in range(64)]
    return short + [bytes((number << 1 & 0x7E | 0x80, number >> 6)) for number in range(64, _TABLE_SIZE)]


class BatchBuilder:
    """A batch under construction, of messages from a set."""

    __slots__ = ("attributes", "base_offset", "base_timestamp", "body", "count", "last_delta", "max_timestamp")

    def __init__(self, attributes: int) -> None:
        self.attributes = attributes
        self.body = bytearray(HEADER_SIZE)  # `build` fills in the header
        self.count = 0
        self.base_offset = 0
        self.last_delta = -1
        self.base_timestamp: int | None = None
        self.max_timestamp = NO_TIMESTAMP

    def time(self, timestamp: int) -> bytes:
        """Return the first bytes of a record: attributes and timestamp delta.

        Raises OverflowError for a distant time.
        """
        if self.base_timestamp is None:
            self.base_timestamp = timestamp
        delta = timestamp - self.base_timestamp
        if not MIN_TIMESTAMP <= delta <= MAX_TIMESTAMP:
            raise OverflowError
        self.max_timestamp = max(self.max_timestamp, timestamp)
        start = bytearray(1)
        write_varint(start, delta)
        return bytes(start)

    def build(self) -> bytearray:
        """Turn `body` into the batch, in place. With a codec, the caller has compressed `body` before."""
        base_timestamp = NO_TIMESTAMP if self.base_timestamp is None else self.base_timestamp
        times = (base_timestamp, self.max_timestamp)
        batch.fill_header(self.body, self.base_offset, self.attributes, self.last_delta, *times, self.count)
        return self.body


def _distant_delta(delta: int, last_delta: int) -> bytes:
    """Return the varint of an offset delta outside of the table.

    Raises OverflowError for a delta that does not fit the batch: it goes back, or is too large.
    """
    if not last_delta < delta <= _MAX_DELTA:
        raise OverflowError
    return encode_varint(delta)


class LegacyMessage(NamedTuple):
    """One checked message. `value_start`: the position of its value, -1 for null. `end`: the position after it."""

    offset: int
    attributes: int
    timestamp: int
    value_start: int
    end: int


class MessageReader:
    """Reads messages of one magic."""

    __slots__ = ("_view", "data", "end", "magic", "mask", "position")

    def __init__(self, data: bytes | memoryview, position: int, magic: int, mask: int) -> None:
        """`mask`: the attributes that all messages of a batch share.

        Outside of wrappers they include the timestamp type.
        """
        self.data = data
        self._view = memoryview(data)
        self.position = position
        self.end = len(data)
        self.magic = magic
        self.mask = mask

    def move_to(
        self, builder: BatchBuilder, stop_at: int, room_at: int, batch_attributes: int, *, keeps_offsets: bool
    ) -> bool:
        """Move messages to a batch, as long as they begin before `stop_at` and end before `room_at`.

        The move ends at a message of other `batch_attributes`, at a faulty one, at one that does not fit the batch, and
        at another timestamp if the broker set the timestamps. Return False if no message was moved; `read_message` then
        shows the reason.
        """
        data, view, position, magic, mask = self.data, self._view, self.position, self.magic, self.mask
        unpack, unpack_int, key_at = MESSAGE_HEADS[magic].unpack_from, LENGTH.unpack_from, MESSAGE_HEADS[magic].size
        short, table_size = _varints(), _TABLE_SIZE
        parts: list[bytes | memoryview] = []
        previous, time = (builder.max_timestamp, b"\x00\x00") if batch_attributes and builder.count else (None, b"")
        count, base_offset, last_delta = builder.count, builder.base_offset, builder.last_delta
        try:
            if keeps_offsets and not count:
                (base_offset,) = OFFSET.unpack_from(data, position)
            while position < stop_at:
                offset, size, crc, its_magic, attributes, timestamp, key_size = unpack(data, position)
                end = position + 12 + size
                if its_magic != magic or attributes & mask != batch_attributes or end > room_at:
                    break
                if crc32(view[position + 16 : end]) != crc:
                    break
                delta = offset - base_offset if keeps_offsets else count
                place = short[delta] if last_delta < delta < table_size else _distant_delta(delta, last_delta)
                if timestamp != previous:
                    if previous is not None and batch_attributes:
                        break
                    previous, time = timestamp, builder.time(timestamp if magic else NO_TIMESTAMP)
                lead = time + place
                at = position + key_at
                if key_size < 0:
                    lead += b"\x01"
                else:
                    value_at = at + key_size
                    lead += (short[key_size] if key_size < table_size else encode_varint(key_size)) + data[at:value_at]
                    at = value_at
                (value_size,) = unpack_int(data, at)
                at += 4
                if value_size < 0:
                    value_size = 0
                    lead += b"\x01"
                else:
                    lead += short[value_size] if value_size < table_size else encode_varint(value_size)
                if at + value_size != end:
                    break
                size = len(lead) + value_size + 1
                parts += (short[size] if size < table_size else encode_varint(size), lead, data[at:end], b"\x00")
                position, last_delta = end, delta
                count += 1
        except (struct.error, OverflowError):
            pass
        if not parts:
            return False
        builder.body += b"".join(parts)
        builder.count, builder.base_offset, builder.last_delta = count, base_offset, last_delta
        self.position = position
        return True

    def read_message(self) -> LegacyMessage | None:
        """Check the next message and return it; None if it is cut.

        Raises KafkaError: CORRUPT_MESSAGE, INVALID_RECORD.
        """
        position, end = self.position, self.end
        if end - position < HEAD.size + 1:
            return None
        offset, size, crc = HEAD.unpack_from(self.data, position)
        if size < SMALLEST_MESSAGE_BYTES:
            raise undersized(position, size)
        if size > end - position - LOG_OVERHEAD:
            return None
        end = position + LOG_OVERHEAD + size
        magic = self.data[position + MAGIC_POSITION]
        if magic < batch.MAGIC and crc32(self._view[position + CRC_START : end]) != crc:
            raise corrupt(f"the CRC of the message at byte {position} is wrong")
        if magic != self.magic:
            raise invalid(f"the message at byte {position} has another magic than {self.magic}, that of those before")
        return self._read_fields(position, end, offset)

    def _read_fields(self, position: int, end: int, offset: int) -> LegacyMessage:
        head = MESSAGE_HEADS[self.magic]
        try:
            _, _, _, _, attributes, timestamp, key_size = head.unpack_from(self.data, position)
            at = position + head.size + max(0, key_size)
            (value_size,) = LENGTH.unpack_from(self.data, at)
        except struct.error:
            at, value_size = end, 0
        if at + LENGTH.size + max(0, value_size) != end:
            raise invalid(f"the key and the value of the message at byte {position} do not fit its size")
        time = timestamp if self.magic else NO_TIMESTAMP
        return LegacyMessage(offset, attributes, time, at + LENGTH.size if value_size >= 0 else -1, end)


class UpConversion:
    """The conversion of a set, or of a piece of a log, to batches."""

    __slots__ = ("_attributes", "_batch", "_count", "_data", "_is_stored", "_max_batch_bytes", "next_offset", "out")

    def __init__(self, data: bytes, max_batch_bytes: int, *, is_stored: bool) -> None:
        self._data = data
        self._max_batch_bytes = max_batch_bytes
        self._is_stored = is_stored
        self._attributes = 0
        self._batch = BatchBuilder(0)
        self._count = 0
        self.next_offset = -1
        self.out = bytearray()

    def steps(self) -> Steps[None]:
        """Convert everything.

        Raises KafkaError. `close_batch` then adds the messages before the fault to `out`.
        """
        position = 0
        while position < len(self._data):
            magic = self._magic_at(position)
            if magic is None:
                position = self._end_at_cut(position)
            elif magic < batch.MAGIC:
                mask = CODEC_MASK | LOG_APPEND_TIME if magic else CODEC_MASK
                position = yield from self._convert_messages(MessageReader(self._data, position, magic, mask))
            else:
                position = self._copy_batch(position)

    def close_batch(self) -> None:
        """Add the batch under construction to `out`, and begin another."""
        builder, self._batch = self._batch, BatchBuilder(self._attributes)
        if builder.count:
            self._add(builder)

    def _add(self, builder: BatchBuilder) -> None:
        self._count += 1
        if self._count > MAX_BATCHES and not self._is_stored:
            raise invalid(f"the set would become more than {MAX_BATCHES} batches")
        if self.out:
            self.out += builder.build()
        else:
            self.out = builder.build()
        self.next_offset = builder.base_offset + builder.last_delta + 1

    def _end_at_cut(self, position: int) -> int:
        """Return the end of the data: a piece of a log may be cut.

        Raises KafkaError for a client's set, which may not.
        """
        if not self._is_stored:
            raise corrupt(f"the message at byte {position} is cut")
        return len(self._data)

    def _magic_at(self, position: int) -> int | None:
        """Return the magic of the next message or batch; None if it is cut before.

        Raises KafkaError for an unknown magic.
        """
        if position + MAGIC_POSITION >= len(self._data):
            return None
        magic = self._data[position + MAGIC_POSITION]
        if magic > batch.MAGIC:
            raise corrupt(f"magic {magic} at byte {position} is neither a message nor a batch")
        return magic

    def _copy_batch(self, position: int) -> int:
        """Copy a batch unchanged; return the position after it."""
        if len(self._data) - position < HEADER_SIZE:
            return self._end_at_cut(position)
        header = read_header(self._data, position)
        end = position + header.size
        if end > len(self._data):
            return self._end_at_cut(position)
        self.out += memoryview(self._data)[position:end]
        self.next_offset = header.last_offset + 1
        return end

    def _convert_messages(self, messages: MessageReader) -> Steps[int]:
        """Convert messages of one magic; return the position after them."""
        self._attributes = 0
        while messages.position < messages.end:
            position, builder = messages.position, self._batch
            # A message is never shorter than its record.
            room_at = min(messages.end, position + self._max_batch_bytes - len(builder.body))
            if messages.move_to(
                builder, position + STEP_BYTES, room_at, self._attributes, keeps_offsets=self._is_stored
            ):
                if messages.position < messages.end:
                    yield
            elif builder.count:
                self.close_batch()
            elif self._is_stored and self._magic_at(position) not in {None, messages.magic}:
                break
            else:
                yield from self._convert_one(messages)
        self.close_batch()
        return messages.position

    def _convert_one(self, messages: MessageReader) -> Steps[None]:
        """Convert one message that differs from the messages before."""
        message = messages.read_message()
        if message is None:
            messages.position = self._end_at_cut(messages.position)
        elif not self._is_stored and message.end - messages.position > self._max_batch_bytes:
            size = message.end - messages.position
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE, f"a message of {size} bytes exceeds the limit of {self._max_batch_bytes}"
            )
        elif message.attributes & CODEC_MASK:
            yield from self._convert_wrapper(messages, message)
        elif message.attributes & messages.mask != self._attributes and self._is_stored:
            self._attributes = message.attributes & messages.mask
            self._batch = BatchBuilder(self._attributes)
        elif message.attributes & messages.mask:  # a producer that sets LogAppendTime: the log decides about it
            messages.mask = CODEC_MASK
            self._batch = BatchBuilder(LOG_APPEND_TIME)
        else:  # it may be too large as a batch: the log checks that
            messages.move_to(self._batch, message.end, message.end, self._attributes, keeps_offsets=self._is_stored)

    def _convert_wrapper(self, messages: MessageReader, message: LegacyMessage) -> Steps[None]:
        """Convert a wrapper to a batch."""
        codec = message.attributes & CODEC_MASK
        if message.value_start < 0:
            raise invalid(f"the wrapper at byte {messages.position} has no value")
        if codec == ZSTD:
            raise invalid(f"there is no zstd in sets of magic {messages.magic}")
        content: memoryview | bytearray = memoryview(messages.data)[message.value_start : message.end]
        if codec == LZ4 and messages.magic == 0:
            content = lz4.with_correct_checksum(content)
        if not self._is_stored and (fault := frame_headers.fault(codec, content)):
            raise invalid(f"Kafka's Java clients could not read the wrapper at byte {messages.position}: {fault}")
        yield
        inner = MessageReader(compression.decompress_records(codec, content), 0, messages.magic, CODEC_MASK)
        has_append_time = message.attributes & LOG_APPEND_TIME if messages.magic else 0
        builder = BatchBuilder(codec | has_append_time)
        while inner.position < inner.end:
            stop_at = inner.position + STEP_BYTES
            if not inner.move_to(builder, stop_at, inner.end, 0, keeps_offsets=self._is_stored):
                raise _fault_within(inner)
            if inner.position < inner.end:
                yield
        if not builder.count:
            raise invalid(f"the wrapper at byte {messages.position} has no message in it")
        if has_append_time:
            builder.max_timestamp = message.timestamp
        if self._is_stored and messages.magic:
            builder.base_offset = _base_of_wrapper(message.offset, builder)
        plain, builder.body = builder.body, bytearray(HEADER_SIZE)
        builder.body += yield from compression.compress_steps(codec, memoryview(plain)[HEADER_SIZE:], FAST_LEVEL)
        self._add(builder)
        messages.position = message.end


def _fault_within(inner: MessageReader) -> KafkaError:
    """Return the reason why a message within a wrapper was not moved."""
    try:
        message = inner.read_message()
    except KafkaError as error:
        return error
    if message is None:
        return corrupt(f"a message within a wrapper is cut at byte {inner.position}")
    if message.attributes & CODEC_MASK:
        return invalid("a wrapper has a wrapper in it")
    return invalid("the messages of a wrapper are too far apart")


def _base_of_wrapper(offset: int, builder: BatchBuilder) -> int:
    """Return the offset of the first message within a wrapper of magic 1. `offset`, the wrapper's, is that of the last.

    Some producers leave the wrapper's offset 0. Like Apache Kafka, this takes it for a wrapper at the start of a log.
    """
    first, last = builder.base_offset, builder.base_offset + builder.last_delta
    if offset and offset < last:
        raise invalid(f"a wrapper has the offset {offset}, and {last} messages before its last one")
    return offset - builder.last_delta if offset else first


def up_convert_steps(data: Buffer, max_batch_bytes: int = MAX_BATCH_BYTES) -> Steps[bytearray]:
    """Convert a client's set to batches: each wrapper becomes one in its codec, adjacent plain messages share one.

    The offsets of each batch begin at 0. Plain messages become several batches if one would exceed `max_batch_bytes`.
    Bytes that are batches already are copied.

    Raises KafkaError, as Kafka's brokers do: CORRUPT_MESSAGE for an invalid CRC, size or compressed stream;
    INVALID_RECORD for a set that contradicts itself, or becomes too many batches; UNSUPPORTED_COMPRESSION_TYPE;
    MESSAGE_TOO_LARGE for a wrapper of more than `compression.MAX_OUTPUT_BYTES` decompressed.
    """
    if len(data) > MAGIC_POSITION and data[MAGIC_POSITION] == batch.MAGIC:
        return bytearray(data)
    conversion = UpConversion(bytes(data), max_batch_bytes, is_stored=False)
    yield from conversion.steps()
    return conversion.out


def up_convert_stored_steps(data: Buffer) -> Steps[ConvertedRecords]:
    """Convert stored messages to batches, at their offsets; stored batches stay unchanged. Both may be mixed.

    The result ends before a cut message or batch, and before the first faulty one. A fault of the first one raises
    KafkaError as `up_convert_steps` does.
    """
    conversion = UpConversion(bytes(data), MAX_BATCH_BYTES, is_stored=True)
    try:
        yield from conversion.steps()
    except KafkaError:
        conversion.close_batch()
        if not conversion.out:
            raise
    return ConvertedRecords(conversion.out, conversion.next_offset)
