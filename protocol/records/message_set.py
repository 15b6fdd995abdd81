"""Message sets, magic 0 and 1, the formats of clients before Kafka 0.11: their layout and building.

    byte   0        8        12      16      17           18          26           30
           offset   size     crc     magic   attributes   timestamp   key length   key   value length   value
           i64      i32      u32     i8      i8           i64         i32                i32
                             (32)    (0, 1)               (magic 1)

A set is a sequence of messages. A broker may cut the last one. `size` counts the bytes from byte 12 on; the CRC
(zlib's) covers the bytes from byte 16 on. A length of -1 is null. Attributes: bits 0-2 codec; bit 3 (magic 1): the
broker set the timestamp. A message with a codec is a wrapper: its value is a compressed set without wrappers. The
offset of a wrapper is that of its last inner message. Offsets of inner messages are absolute in magic 0. In magic 1
they count from the first inner message, so that a broker need not change them. If the broker set the timestamp of a
magic 1 wrapper, all inner messages have that timestamp.

Source: Apache Kafka, "Message format", the section on old formats; KIP-31, KIP-32, KIP-57.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple
from zlib import crc32

from headgate.protocol.errors import KafkaError
from headgate.protocol.records import Buffer, compression, lz4
from headgate.protocol.records.batch import LOG_OVERHEAD, NO_TIMESTAMP, Record, corrupt
from headgate.protocol.records.compression import LZ4, NONE

LOG_APPEND_TIME = 0x08
SMALLEST_MESSAGE_BYTES = 14  # magic 0, without key and value
STEP_BYTES = 16 * 1024
"""A conversion in steps yields after so many bytes, some hundred microseconds of work."""

CRC_START = 16
MAGIC_POSITION = 16
# The fields up to the key's length, by magic. Magic 0 has an empty field in place of the timestamp.
MESSAGE_HEADS = (struct.Struct(">qiIbb0si"), struct.Struct(">qiIbbqi"))
HEAD = struct.Struct(">qiI")
MAGIC_TO_TIMESTAMP = struct.Struct(">bbq")
LENGTH = struct.Struct(">i")
OFFSET = struct.Struct(">q")
NULL = b"\xff\xff\xff\xff"


class ConvertedRecords(NamedTuple):
    """The converted records, and the offset of the next read.

    `next_offset` follows the last batch, converted or dropped. If no batch was whole, it is the requested offset, or
    -1.
    """

    data: bytearray
    next_offset: int


def build(
    records: Iterable[Record],
    magic: int,
    *,
    base_offset: int = 0,
    codec: int = NONE,
    level: int | None = None,
    log_append_time_ms: int = NO_TIMESTAMP,
) -> bytearray:
    """Build a set of these records, with a codec in a wrapper. Magic 1 also carries a `log_append_time_ms` >= 0."""
    is_relative = codec != NONE and magic > 0
    kind = LOG_APPEND_TIME if magic and log_append_time_ms >= 0 else 0
    data, first, offset, latest = bytearray(), -1, base_offset - 1, NO_TIMESTAMP
    for record in records:
        offset = record.offset if record.offset >= 0 else offset + 1
        first = offset if first < 0 else first
        timestamp = log_append_time_ms if kind else record.timestamp
        latest = max(latest, timestamp)
        number = offset - first if is_relative else offset
        data += encode(magic, kind, number, timestamp, record.key, record.value)
    if codec == NONE:
        return data
    content: Buffer = compression.compress(codec, data, level)
    if codec == LZ4 and magic == 0:
        content = lz4.with_broken_checksum(content)
    return encode(magic, codec | kind, offset, latest, None, content)


def encode(
    magic: int, attributes: int, offset: int, timestamp: int, key: bytes | None, value: Buffer | None
) -> bytearray:
    """Encode one message. Loops over many messages have faster code of their own."""
    data = bytearray(HEAD.size)
    data += MAGIC_TO_TIMESTAMP.pack(magic, attributes, timestamp) if magic else bytes((magic, attributes))
    for part in (key, value):
        data += NULL if part is None else LENGTH.pack(len(part)) + part
    HEAD.pack_into(data, 0, offset, len(data) - LOG_OVERHEAD, crc32(memoryview(data)[CRC_START:]))
    return data


def undersized(position: int, size: int) -> KafkaError:
    """Return the error for a message at `position` with too small a size."""
    return corrupt(f"the message at byte {position} has a size of {size}; the smallest has {SMALLEST_MESSAGE_BYTES}")
