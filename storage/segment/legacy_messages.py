"""Messages of magic 0 and 1 in a segment: Apache Kafka's format before 0.11, and by configuration until 3.0.

A `.log` may have messages first, then batches. Both begin with an offset and a size, and have their magic in the same
byte. The offset of a message, or of a wrapper around compressed messages, is the last one within; the first is known
only after decompression (see `protocol.records.message_set`).

`Segment.has_legacy_format` marks a segment that may hold messages: its readers use this module, and other segments cost
nothing more.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias
from zlib import crc32

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records import Buffer, batch
from headgate.protocol.records.batch import (
    CODEC_MASK,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
)

if TYPE_CHECKING:
    from headgate.protocol.steps import Steps
    from headgate.storage.segment.file_slice import FileSlice

# Offset, size, crc, magic, attributes and, of magic 1, the timestamp.
_unpack_zero = struct.Struct(">qiIbb").unpack_from
_unpack_one = struct.Struct(">qiIbbq").unpack_from
_new_tuple = tuple.__new__  # a NamedTuple without its constructor in Python
_SMALLEST_SIZES = (14, 22)  # without key and value
_HEAD = struct.Struct(">qi4xB")
_LAST_DELTA = struct.Struct(">i")
MAGIC_POSITION, _CRC_START, _DELTA_POSITION = 16, 16, 23
_LARGEST_HEAD = _DELTA_POSITION + _LAST_DELTA.size
_SMALLEST_LENGTH = batch.HEADER_SIZE - LOG_OVERHEAD
_NO_EPOCH = -1
_BatchBounds: TypeAlias = tuple[int, int, int, int]  # as `batch_seek.BatchBounds`
PIECE_BYTES = 1 << 18
"""The size of one conversion, unless a single wrapper or batch is larger."""


def read_head(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header of a batch, or a header made from a message, with the message's offset as base and last offset.

    Raises KafkaError(CORRUPT_MESSAGE) at an invalid place.
    """
    magic = buffer[position + MAGIC_POSITION] if len(buffer) - position > MAGIC_POSITION else batch.MAGIC
    if magic >= batch.MAGIC:
        return batch.read_header(buffer, position)
    time = NO_TIMESTAMP
    try:
        if magic:
            offset, size, crc, _, attributes, time = _unpack_one(buffer, position)
        else:
            offset, size, crc, _, attributes = _unpack_zero(buffer, position)
    except struct.error:
        raise _corrupt(f"{len(buffer) - position} bytes are less than a message of magic {magic}") from None
    if size < _SMALLEST_SIZES[magic]:
        raise _corrupt(f"a size of {size} bytes is less than the smallest message of magic {magic}")
    kept = attributes & (CODEC_MASK | LOG_APPEND_TIME if magic else CODEC_MASK)
    fields = (offset, size, _NO_EPOCH, magic, crc, kept, 0, time, time, NO_PRODUCER_ID, -1, NO_SEQUENCE, 1)
    return _new_tuple(BatchHeader, fields)


def check_crc(view: memoryview) -> bool:
    if view[MAGIC_POSITION] >= batch.MAGIC:
        return batch.check_crc(view)
    return crc32(view[_CRC_START:]) == int.from_bytes(view[12:16], "big")


def valid_bytes(data: Buffer, position: int = 0) -> int:
    """The size of the message or batch there, if it is complete and its CRC is right; else 0."""
    try:
        size = size_at(data, position)
    except KafkaError:
        return 0
    if size is None or position + size > len(data):
        return 0
    return size if check_crc(memoryview(data)[position : position + size]) else 0


def size_at(buffer: Buffer, position: int = 0) -> int | None:
    """The size of the message or batch there; None if too few bytes are given.

    Raises KafkaError(CORRUPT_MESSAGE) for an impossible size.
    """
    if len(buffer) - position < _HEAD.size:
        return None
    _, size, magic = _HEAD.unpack_from(buffer, position)
    if size < _smallest(magic):
        raise _corrupt(f"a size of {size} bytes is less than anything of magic {magic} has")
    return int(size) + LOG_OVERHEAD


def whole_bytes(data: Buffer) -> int:
    """The size of complete messages and batches from the beginning on, up to the first fault or a cut end."""
    position = 0
    try:
        while (size := size_at(data, position)) is not None and position + size <= len(data):
            position += size
    except KafkaError:
        pass
    return position


def seek(read: Callable[[int], Buffer], size: int, position: int, limit: int, offset: int) -> _BatchBounds | None:
    """`batch_seek.seek` for messages: the message before gives the first offset of a wrapper.

    `read` returns some kilobytes from a position on. Raises KafkaError(CORRUPT_MESSAGE) at an invalid place.
    """
    window: Buffer = b""
    start, follows = position, None
    while position < size:
        at = position - start
        if at + _LARGEST_HEAD > len(window):
            window, start, at = read(position), position, 0
        if len(window) - at < _HEAD.size:
            raise _corrupt(f"there is no message at byte {position}")
        first, length, magic = _HEAD.unpack_from(window, at)
        end = position + length + LOG_OVERHEAD
        if length < _smallest(magic) or end > size:
            raise _corrupt(f"there is no message at byte {position}")
        if magic < batch.MAGIC:
            last, first = first, first if follows is None else follows
        else:
            last = first + _LAST_DELTA.unpack_from(window, at + _DELTA_POSITION)[0]
        if end > limit or last >= offset:
            return position, end, first, last
        position, follows = end, last + 1
    return None


def batches_steps(piece: FileSlice, position: int = 0, most_bytes: int = PIECE_BYTES) -> Steps[tuple[bytearray, int]]:
    """Convert the bytes from a position of a slice on, in time slices: batches, and the position after them.

    Takes at most `most_bytes`, unless the first wrapper or batch is larger. Returns no bytes at the end. Raises
    KafkaError for unreadable bytes, OSError.
    """
    from headgate.protocol.records import legacy  # only needed for adopted messages

    data = yield from piece.read_steps(position, most_bytes)
    size = size_at(data)
    if size is not None and size > len(data):
        data = yield from piece.read_steps(position, size)
    whole = whole_bytes(data)
    if not whole:
        return bytearray(), len(piece)
    made = yield from legacy.up_convert_stored_steps(memoryview(data)[:whole])
    return made.data, position + whole


def _smallest(magic: int) -> int:
    return _SMALLEST_SIZES[magic] if magic < batch.MAGIC else _SMALLEST_LENGTH


def _corrupt(message: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, message)
