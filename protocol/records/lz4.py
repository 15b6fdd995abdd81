"""The head of an LZ4 frame: what Kafka did wrong in it once, and what Kafka's Java clients do not read.

    byte 0       4      5      6                 6 or 14      15
         magic   FLG    BD     content size      checksum     blocks, each an i32 of its size and its bytes,
         4       u8     u8     u64, if FLG says  u8           until a size of 0; then a checksum, if FLG says

The checksum is the second byte of the XXH32 of FLG to content size. Before message format 1, Kafka's clients took it
over the magic number too, and read nothing else: KIP-57. Java reads one frame, of independent blocks, without a
dictionary (`Lz4BlockInputStream`). Source: "LZ4 Frame Format Description" 1.6.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Generator

from headgate.protocol.errors import ErrorCode, KafkaError

_MAGIC = b"\x04\x22\x4d\x18"
_SHORTEST_HEAD_BYTES = 7
_VERSION_MASK, _VERSION = 0xC0, 0x40
_INDEPENDENT_BLOCKS, _BLOCK_CHECKSUMS, _CONTENT_SIZE, _CONTENT_CHECKSUM = 0x20, 0x10, 0x08, 0x04
_RESERVED_FLAGS = 0x03  # bit 0 is a dictionary's by now
_RESERVED_DESCRIPTOR = 0x8F
_SMALLEST_BLOCKS = 4  # 4 to 7 mean 64 KiB to 4 MiB
_PLAIN_BLOCK = 0x8000_0000
_BLOCKS_AT_ONCE = 500
_BLOCK_SIZE = struct.Struct("<I")
_PRIMES = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
_U32 = 0xFFFF_FFFF


def with_correct_checksum(frame: bytes | bytearray | memoryview) -> bytearray:
    """A copy of the frame with the checksum that every decoder expects, whatever it has: magic 0 is read so.

    Raises KafkaError(CORRUPT_MESSAGE) for what is too short to be a frame.
    """
    return _with_checksum(frame, len(_MAGIC))


def with_broken_checksum(frame: bytes | bytearray | memoryview) -> bytearray:
    """Return a copy of the frame with the checksum that clients of magic 0 expect (KIP-57).

    Raises KafkaError(CORRUPT_MESSAGE) for a frame that is too short.
    """
    return _with_checksum(frame, 0)


def without_block_checksums(frame: bytes | bytearray | memoryview) -> bytes:
    """The frame, which has to be whole, without checksums of its blocks.

    Decoders before LZ4 1.8 know none: librdkafka 0.11's is one of them.
    """
    if not frame[4] & _BLOCK_CHECKSUMS:
        return bytes(frame)
    view, position = memoryview(frame), _checksum_position(frame) + 1
    head = bytearray(view[:position])
    head[4] &= ~_BLOCK_CHECKSUMS
    parts: list[bytes | bytearray | memoryview] = [with_correct_checksum(head)]
    while size := _BLOCK_SIZE.unpack_from(frame, position)[0] & ~_PLAIN_BLOCK:
        parts.append(view[position : position + 4 + size])
        position += 4 + size + 4
    return b"".join((*parts, view[position:]))


def java_incompatibility_steps(frame: bytes | bytearray | memoryview) -> Generator[None, None, str | None]:
    """Why Kafka's Java clients would not read all of the frame, though it is sound; None if they do.

    In slices: a block may have a single byte.
    """
    if len(frame) < _SHORTEST_HEAD_BYTES or frame[:4] != _MAGIC:
        return "it does not begin with a frame"
    flags, descriptor = frame[4], frame[5]
    if flags & _VERSION_MASK != _VERSION or flags & _RESERVED_FLAGS or descriptor & _RESERVED_DESCRIPTOR:
        return "its frame has a dictionary, or is of another version"
    if descriptor >> 4 < _SMALLEST_BLOCKS:
        return "its blocks have a size that does not exist"
    if not flags & _INDEPENDENT_BLOCKS:
        return "its blocks depend on each other"
    return (yield from _walk(frame, flags, 1 << (8 + 2 * (descriptor >> 4))))


def _walk(frame: bytes | bytearray | memoryview, flags: int, max_block_bytes: int) -> Generator[None, None, str | None]:
    """A fault of the blocks behind the head."""
    position = _checksum_position(frame) + 1
    for number in itertools.count(1):
        if not number % _BLOCKS_AT_ONCE:
            yield
        if position + 4 > len(frame):
            return "its frame has no end"
        size = _BLOCK_SIZE.unpack_from(frame, position)[0] & ~_PLAIN_BLOCK
        position += 4
        if not size:
            break
        if size > max_block_bytes:
            return f"a block of {size} bytes is larger than the {max_block_bytes} that its frame allows"
        position += size + (4 if flags & _BLOCK_CHECKSUMS else 0)
    position += 4 if flags & _CONTENT_CHECKSUM else 0
    return None if position >= len(frame) else f"{len(frame) - position} bytes follow its first frame"


def _with_checksum(frame: bytes | bytearray | memoryview, start: int) -> bytearray:
    position = _checksum_position(frame)
    changed = bytearray(frame)
    changed[position] = _xxh32(bytes(changed[start:position])) >> 8 & 0xFF
    return changed


def _checksum_position(frame: bytes | bytearray | memoryview) -> int:
    if len(frame) >= _SHORTEST_HEAD_BYTES:
        position = 14 if frame[4] & _CONTENT_SIZE else 6
        if len(frame) > position:
            return position
    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{len(frame)} bytes are no lz4 frame")


def _xxh32(data: bytes) -> int:
    """XXH32 of less than 16 bytes, with seed 0: a frame's head has at most 14."""
    first, second, third, fourth, fifth = _PRIMES
    total = fifth + len(data)
    whole = len(data) & ~3
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        total = _rotate(total + word * third, 17) * fourth
    for byte in data[whole:]:
        total = _rotate(total + byte * fifth, 11) * first
    total &= _U32
    total = (total ^ total >> 15) * second & _U32
    total = (total ^ total >> 13) * third & _U32
    return total ^ total >> 16


def _rotate(value: int, bits: int) -> int:
    value &= _U32
    return (value << bits | value >> (32 - bits)) & _U32
