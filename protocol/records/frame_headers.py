"""Frame headers: do the first bytes of compressed records begin a stream that Kafka's Java clients read?

A reader refuses a stream by these bytes, before it decompresses anything. So a leader checks them at every produce: a
consumer would stop at such a batch. Apache Kafka decompresses every batch, and refuses the same streams (tests compare
both). What comes after the header is not checked here.

The first eight bytes as one number suffice for nearly every stream. Source: RFC 1952 (gzip), snappy's "format
description" with the framing of xerial, RFC 8878 (zstd); `lz4` describes its own.
"""

from __future__ import annotations

import functools
import struct

from headgate.protocol.records import Buffer, lz4
from headgate.protocol.records.compression import (
    CODEC_NAMES,
    GZIP,
    LZ4,
    SNAPPY,
    XERIAL_HEADER_BYTES,
    XERIAL_MAGIC,
    ZSTD,
)

_read_word = struct.Struct("<Q").unpack_from
_WORD_BYTES = 8  # no stream with a record is shorter
_GZIP_MASK, _GZIP_HEAD = 0xFF_FFFF, 0x08_8B1F  # the magic, and the only method that exists
_LZ4_MASK = (1 << 56) - 1
# zstd: the magic and the descriptor. This has the size of a dictionary's id in bits 0 and 1. Bit 3 must be 0, bit 5
# means that no window follows.
_ZSTD_MASK, _ZSTD_WITH_WINDOW, _ZSTD_WITHOUT_WINDOW = 0x2B_FFFF_FFFF, 0x00_FD2F_B528, 0x20_FD2F_B528
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_HEAD_BYTES = 10
_DICTIONARY_SIZES, _RESERVED, _HAS_NO_WINDOW = (0, 1, 2, 4), 0x08, 0x20
_LARGEST_WINDOW = 0x88  # 128 MiB: readers refuse a larger one, as they would have to reserve the memory
_SKIPPABLE_FRAME = b"\x2a\x4d\x18"  # after a byte of 0x50 to 0x5F
# snappy: its plain size in one to three bytes, then an element that copies nothing from before it
_SNAPPY_MASKS = ((0x0380, 0), (0x03_8080, 0x80), (0x0380_8080, 0x8080))
_MAX_VARINT_BYTES = 5
_XERIAL_WORD = int.from_bytes(XERIAL_MAGIC, "little")


def fault(codec: int, data: Buffer, start: int = 0) -> str | None:
    """Return the reason why no Java client reads the records of `codec` at `start`; None for a sound header.

    Without a codec, or with one that does not exist, nothing is read.
    """
    if not GZIP <= codec <= ZSTD:
        return None
    if len(data) - start < _WORD_BYTES:
        return f"{len(data) - start} bytes are too few for {CODEC_NAMES[codec]}"
    word = _read_word(data, start)[0]
    if codec == ZSTD:
        head = word & _ZSTD_MASK
        if head == _ZSTD_WITHOUT_WINDOW or (head == _ZSTD_WITH_WINDOW and word >> 40 & 0xFF <= _LARGEST_WINDOW):
            return None
        return _zstd_fault(bytes(data[start : start + _ZSTD_HEAD_BYTES]))
    if codec == LZ4:
        return None if word & _LZ4_MASK in _sound_lz4_heads() else lz4.header_fault(data, start)
    if codec == SNAPPY:
        if word == _XERIAL_WORD:
            return None if len(data) - start >= XERIAL_HEADER_BYTES else "the header of snappy's xerial framing is cut"
        for mask, sound in _SNAPPY_MASKS:
            if word & mask == sound:
                return None
        return _raw_snappy_fault(bytes(data[start : start + _MAX_VARINT_BYTES + 1]))
    return None if word & _GZIP_MASK == _GZIP_HEAD else "the records are not gzip"


@functools.cache
def _sound_lz4_heads() -> frozenset[int]:
    """Return the sound headers of frames that do not have the size of their content, as numbers."""
    return frozenset(int.from_bytes(head, "little") for head in lz4.headers_without_size())


def _zstd_fault(head: bytes) -> str | None:
    if head[:4] != _ZSTD_MAGIC:
        is_skippable = head[0] >> 4 == 5 and head[1:4] == _SKIPPABLE_FRAME
        return None if is_skippable else "the records are not zstd"
    descriptor = head[4]
    has_window = not descriptor & _HAS_NO_WINDOW
    if descriptor & _RESERVED:
        return "the zstd frame is of a version that does not exist"
    if has_window and head[5] > _LARGEST_WINDOW:
        return "the zstd frame needs a window of more than 128 MiB"
    size = _DICTIONARY_SIZES[descriptor & 3]
    return "the zstd frame needs a dictionary" if any(head[5 + has_window : 5 + has_window + size]) else None


def _raw_snappy_fault(head: bytes) -> str | None:
    for number, byte in enumerate(head[:_MAX_VARINT_BYTES], 1):
        if byte < 0x80:
            return "the records are not snappy" if head[number] & 3 else None
    return "the records are not snappy"
