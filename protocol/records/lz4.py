"""The header of LZ4 frames: Kafka's broken checksum of magic 0, and the frames that Kafka's Java clients refuse.

    byte 0       4      5      6                 6 or 14      15
         magic   FLG    BD     content size      checksum     blocks, each an i32 of its size and its bytes,
         4       u8     u8     u64, if in FLG    u8           until a size of 0; then a checksum, if in FLG

The checksum is the second byte of the XXH32 of the bytes from FLG to content size. Before message format 1, Kafka's
clients included the magic number, and read no other checksum: KIP-57. Java reads one frame, with independent blocks
and without a dictionary (`Lz4BlockInputStream`). Source: "LZ4 Frame Format Description" 1.6.
"""

from __future__ import annotations

import itertools
import struct

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records import Buffer
from headgate.protocol.steps import Steps

_MAGIC = b"\x04\x22\x4d\x18"
_SHORTEST_HEAD_BYTES, _LONGEST_HEAD_BYTES = 7, 15
_VERSION_MASK, _VERSION = 0xC0, 0x40
_INDEPENDENT_BLOCKS, _BLOCK_CHECKSUMS, _CONTENT_SIZE, _CONTENT_CHECKSUM = 0x20, 0x10, 0x08, 0x04
_RESERVED_FLAGS = 0x03  # newer versions use bit 0 for a dictionary
_RESERVED_DESCRIPTOR = 0x8F
_SMALLEST_BLOCKS, _LARGEST_BLOCKS = 4, 7  # 64 KiB to 4 MiB
_PLAIN_BLOCK = 0x8000_0000
_BLOCKS_AT_ONCE = 500
_BLOCK_SIZE = struct.Struct("<I")
_PRIMES = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
_U32 = 0xFFFF_FFFF


def with_correct_checksum(frame: Buffer) -> bytearray:
    """Return a copy of the frame with the standard checksum. Frames of magic 0 need it before they are decompressed.

    Raises KafkaError(CORRUPT_MESSAGE) for a frame that is too short.
    """
    return _with_checksum(frame, len(_MAGIC))


def with_broken_checksum(frame: Buffer) -> bytearray:
    """Return a copy of the frame with the checksum that clients of magic 0 expect (KIP-57).

    Raises KafkaError(CORRUPT_MESSAGE) for a frame that is too short.
    """
    return _with_checksum(frame, 0)


def without_block_checksums(frame: Buffer) -> bytes:
    """Return a whole frame without the checksums of its blocks.

    Decoders before LZ4 1.8, such as librdkafka 0.11's, do not read block checksums.
    """
    if not frame[4] & _BLOCK_CHECKSUMS:
        return bytes(frame)
    view, position = memoryview(frame), _checksum_position(frame) + 1
    head = bytearray(view[:position])
    head[4] &= ~_BLOCK_CHECKSUMS
    parts: list[Buffer] = [with_correct_checksum(head)]
    while size := _BLOCK_SIZE.unpack_from(frame, position)[0] & ~_PLAIN_BLOCK:
        parts.append(view[position : position + 4 + size])
        position += 4 + size + 4
    return b"".join((*parts, view[position:]))


def headers_without_size() -> list[bytes]:
    """Return every header that Kafka's Java clients accept, but those with the size of the content."""
    checksums = (0, _BLOCK_CHECKSUMS, _CONTENT_CHECKSUM, _BLOCK_CHECKSUMS | _CONTENT_CHECKSUM)
    sizes = range(_SMALLEST_BLOCKS, _LARGEST_BLOCKS + 1)
    fields = [(_VERSION | _INDEPENDENT_BLOCKS | flags, size << 4, 0) for flags in checksums for size in sizes]
    return [bytes(with_correct_checksum(_MAGIC + bytes(values))) for values in fields]


def header_fault(data: Buffer, start: int = 0) -> str | None:
    """Return the reason why Kafka's Java clients refuse the header of a frame at `start`; None for a sound one."""
    head = bytes(data[start : start + _LONGEST_HEAD_BYTES])
    if head[:4] != _MAGIC or len(head) < _SHORTEST_HEAD_BYTES:
        return "it does not begin with a frame"
    flags, descriptor = head[4], head[5]
    if flags & _VERSION_MASK != _VERSION or flags & _RESERVED_FLAGS or descriptor & _RESERVED_DESCRIPTOR:
        return "its frame has a dictionary or another version"
    if descriptor >> 4 < _SMALLEST_BLOCKS:
        return "its maximum block size does not exist"
    if not flags & _INDEPENDENT_BLOCKS:
        return "its blocks depend on each other"
    if flags & _CONTENT_SIZE and len(head) < _LONGEST_HEAD_BYTES:
        return "its frame is cut"
    return None if with_correct_checksum(head) == head else "the checksum of its frame's header is wrong"


def java_incompatibility_steps(frame: Buffer) -> Steps[str | None]:
    """Return the reason why Kafka's Java clients refuse a frame; None if they read all of it.

    It works in steps, as each block may have a single byte.
    """
    if fault := header_fault(frame):
        return fault
    return (yield from _walk(frame, frame[4], 1 << (8 + 2 * (frame[5] >> 4))))


def _walk(frame: Buffer, flags: int, max_block_bytes: int) -> Steps[str | None]:
    """Return the reason why Java refuses the blocks; None if it reads them."""
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


def _with_checksum(frame: Buffer, start: int) -> bytearray:
    position = _checksum_position(frame)
    changed = bytearray(frame)
    changed[position] = _xxh32(bytes(changed[start:position])) >> 8 & 0xFF
    return changed


def _checksum_position(frame: Buffer) -> int:
    if len(frame) >= _SHORTEST_HEAD_BYTES:
        position = 14 if frame[4] & _CONTENT_SIZE else 6
        if len(frame) > position:
            return position
    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{len(frame)} bytes are too few for an lz4 frame")


def _xxh32(data: bytes) -> int:
    """Return the XXH32 of less than 16 bytes, with seed 0. A frame has at most 14 bytes before the checksum."""
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
