"""The codecs of record batches: gzip, snappy (raw and xerial), lz4 frames, zstd; both directions.

Output is bounded: a few bytes of a client must not become gigabytes. The first compressed batch imports the native
library, not the start of the broker. Source: Apache Kafka's `CompressionType`; KIP-57 (lz4 framing), KIP-110
(zstd).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterator
from typing import Any

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records import Buffer
from headgate.protocol.records.lz4 import without_block_checksums
from headgate.protocol.steps import Steps

CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

# The most bytes of a decompressed batch. Kafka limits the compressed bytes: message.max.bytes is 1 MB by default. Real
# records never reach a ratio of 100.
MAX_OUTPUT_BYTES = 128 * 1024 * 1024
# The first buffer: a batch that passes it is decompressed again. A full batch of a producer (batch.size, often 64 KiB)
# has a few bytes more than a power of two, and text has a ratio of 5 to 8
_FIRST_GUESS_BYTES = 128 * 1024
_FIRST_GUESS_RATIO = 8
_MAPPED_BYTES = 16 * 1024 * 1024

_SNAPPY_RATIO = 22  # the longest copy turns three bytes into 64
XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_HEADER_BYTES = len(_XERIAL_HEADER)
_XERIAL_BLOCK_BYTES = 32 * 1024
_LENGTH = struct.Struct(">i")
_XERIAL_MAGIC_LENGTH = _LENGTH.unpack_from(XERIAL_MAGIC)[0]  # the magic number, read as the length of a block
_STEP_BYTES = 64 * 1024
# The level of conversions: gzip at its default level takes four times as long for 2 to 10 percent less.
FAST_LEVEL = 1


def decompress(codec: int, data: Buffer, limit_bytes: int = MAX_OUTPUT_BYTES) -> Buffer:
    """Return the plain bytes of `data`.

    Raises KafkaError: UNSUPPORTED_COMPRESSION_TYPE for an unknown codec, CORRUPT_MESSAGE for an invalid stream,
    MESSAGE_TOO_LARGE for more than `limit_bytes` of output.
    """
    if codec == NONE:
        return data
    unpack = _DECOMPRESSORS.get(codec)
    if unpack is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no compression codec {codec}")
    return unpack(data, limit_bytes)


def decompress_records(codec: int, data: Buffer) -> bytes | memoryview:
    """`decompress` for a reader of single bytes: `bytes`, the fastest to index. A large output is not copied.

    Raises KafkaError as `decompress`.
    """
    plain = decompress(codec, data)
    return bytes(plain) if len(plain) <= _MAPPED_BYTES else memoryview(plain)


def decompress_into(codec: int, data: Buffer, output: memoryview) -> int | None:
    """Write the plain bytes of `data` to the beginning of `output`; return their number, None if there is no room.

    Otherwise `output` may hold a part of them. Raises KafkaError: UNSUPPORTED_COMPRESSION_TYPE,
    CORRUPT_MESSAGE.
    """
    if codec == NONE:
        if len(data) > len(output):
            return None
        output[: len(data)] = data
        return len(data)
    unpack = _INTO.get(codec)
    if unpack is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no compression codec {codec}")
    return unpack(data, output)


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Return `data` as a stream of this codec, in the form that every Kafka client reads.

    `level` is the codec's own (gzip 1-9, lz4 1-17, zstd 1-22; snappy has none); None is the default of the codec.
    Raises KafkaError(UNSUPPORTED_COMPRESSION_TYPE) for an unknown codec.
    """
    if codec == NONE:
        return bytes(data)
    pack = _COMPRESSORS.get(codec)
    if pack is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no compression codec {codec}")
    return pack(data, level)


def compress_steps(codec: int, data: Buffer, level: int | None = None) -> Steps[bytes]:
    """`compress` in steps: yields before the first call of the codec, and after each."""
    yield
    if codec not in {GZIP, LZ4, ZSTD} or len(data) <= _STEP_BYTES:
        return compress(codec, data, level)  # snappy takes less than two milliseconds a megabyte
    compressor = _STREAM_COMPRESSORS[codec](level)
    view = memoryview(data)
    for position in range(0, len(view), _STEP_BYTES):
        compressor.compress(bytes(view[position : position + _STEP_BYTES]))
        yield
    return bytes(compressor.finish())


def _native() -> Any:
    """Return the native codecs. The first compressed batch imports them."""
    import cramjam

    return cramjam


def _corrupt(name: str, error: object) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch is not valid {name}: {error}")


def _too_large(limit_bytes: int) -> KafkaError:
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"the batch decompresses to more than {limit_bytes} bytes")


def _zeros(size: int) -> memoryview:
    """Return a zeroed output buffer.

    Python fills a bytearray while it holds the GIL, for a tenth of a second at the size of a decompression bomb. The
    kernel fills mapped memory at its first use, inside the codec, which has released the GIL. In all this takes longer,
    so small buffers are not mapped.
    """
    return memoryview(bytearray(size) if size <= _MAPPED_BYTES else mmap.mmap(-1, size))


def _into(name: str) -> Callable[[Buffer, memoryview], int | None]:
    """Return a decompressor into a buffer. These formats do not carry the output's size."""

    def unpack(data: Buffer, output: memoryview) -> int | None:
        cramjam = _native()
        try:
            return int(getattr(cramjam, name).decompress_into(data, output))
        except cramjam.DecompressionError as error:
            # Only a full buffer has this message (std::io::ErrorKind::WriteZero). Any other means a damaged stream.
            if "write whole buffer" not in str(error):
                raise _corrupt(name, error) from None
            return None

    return unpack


def _decompressor(codec: int) -> Callable[[Buffer, int], memoryview]:
    """Return a decompressor into a buffer that grows up to the limit."""
    unpack_into = _INTO[codec]

    def unpack(data: Buffer, limit_bytes: int) -> memoryview:
        size = min(limit_bytes, max(_FIRST_GUESS_BYTES, _FIRST_GUESS_RATIO * len(data)))
        while True:
            output = _zeros(size)
            found = unpack_into(data, output)
            if found is not None:
                return output[:found]
            if size >= limit_bytes:
                raise _too_large(limit_bytes)
            size = min(limit_bytes, 4 * size)

    return unpack


def _decompress_snappy(data: Buffer, limit_bytes: int) -> bytearray:
    size = 0
    for block in _snappy_blocks(data):
        size += _snappy_size(block)
        if size > limit_bytes:
            raise _too_large(limit_bytes)
    output = bytearray(size)
    _snappy_into(data, memoryview(output))
    return output


def _snappy_into(data: Buffer, output: memoryview) -> int | None:
    cramjam, position = _native(), 0
    for block in _snappy_blocks(data):
        end = position + _snappy_size(block)
        if end > len(output):
            return None
        try:
            cramjam.snappy.decompress_raw_into(block, output[position:end])
        except cramjam.DecompressionError as error:
            raise _corrupt("snappy", error) from None
        position = end
    return position


def _snappy_blocks(data: Buffer) -> Iterator[memoryview]:
    """The raw blocks of a batch: those within xerial framing, or all of it."""
    view = memoryview(data)
    if view[:8] != XERIAL_MAGIC:
        yield view
        return
    position = XERIAL_HEADER_BYTES
    if len(view) < position:
        raise _corrupt("snappy", "the xerial header is cut")
    while position < len(view):
        if position + 4 > len(view):
            raise _corrupt("snappy", "a xerial block's length is cut")
        (length,) = _LENGTH.unpack_from(view, position)
        if length == _XERIAL_MAGIC_LENGTH and view[position : position + 8] == XERIAL_MAGIC:
            position += XERIAL_HEADER_BYTES  # concatenated streams, which snappy-java reads too
            continue
        position += 4
        if length < 0 or position + length > len(view):
            raise _corrupt("snappy", f"a xerial block of {length} bytes passes the end of the batch")
        yield view[position : position + length]
        position += length


def _snappy_size(block: memoryview) -> int:
    """The count of plain bytes, which precedes them. An impossible count allocates nothing."""
    cramjam = _native()
    try:
        size = int(cramjam.snappy.decompress_raw_len(block))
    except cramjam.DecompressionError as error:
        raise _corrupt("snappy", error) from None
    if size > _SNAPPY_RATIO * len(block):
        raise _corrupt("snappy", f"a block of {len(block)} bytes claims to become {size}")
    return size


def _compress_snappy(data: Buffer, level: int | None) -> bytes:
    """Compress in xerial framing, as Kafka's Java producer does.

    Kafka's Java consumer reads raw snappy too, but some other consumers do not.
    """
    snappy = _native().snappy
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for position in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(snappy.compress_raw(view[position : position + _XERIAL_BLOCK_BYTES]))
        parts += (_LENGTH.pack(len(block)), block)
    return b"".join(parts)


class _Lz4Compressor:
    """Writes a frame as Kafka's Java clients do. Their reader refuses linked blocks."""

    def __init__(self, level: int | None) -> None:
        self._compressor = _native().lz4.Compressor(level=level, content_checksum=False, block_linked=False)

    def compress(self, data: bytes) -> None:
        self._compressor.compress(data)

    def finish(self) -> bytes:
        return without_block_checksums(bytes(self._compressor.finish()))


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    stream = _Lz4Compressor(level)
    stream.compress(bytes(data))
    return stream.finish()


class _GzipCompressor:
    """Writes a stream with the standard library: at the usual levels it is up to a third faster than cramjam."""

    def __init__(self, level: int | None) -> None:
        import zlib

        self._stream = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
        self._parts: list[bytes] = []

    def compress(self, data: Buffer) -> None:
        self._parts.append(self._stream.compress(data))

    def finish(self) -> bytes:
        return b"".join((*self._parts, self._stream.flush()))


def _compress_gzip(data: Buffer, level: int | None) -> bytes:
    stream = _GzipCompressor(level)
    stream.compress(data)
    return stream.finish()


def _zstd_compressor(level: int | None) -> Any:
    return _native().zstd.Compressor(level)


def _compress_zstd(data: Buffer, level: int | None) -> bytes:
    return bytes(_native().zstd.compress(data, level=level))


_INTO: dict[int, Callable[[Buffer, memoryview], int | None]] = {
    GZIP: _into("gzip"),
    SNAPPY: _snappy_into,
    LZ4: _into("lz4"),
    ZSTD: _into("zstd"),
}
_DECOMPRESSORS: dict[int, Callable[[Buffer, int], Buffer]] = {
    GZIP: _decompressor(GZIP),
    SNAPPY: _decompress_snappy,
    LZ4: _decompressor(LZ4),
    ZSTD: _decompressor(ZSTD),
}
_STREAM_COMPRESSORS: dict[int, Callable[[int | None], Any]] = {
    GZIP: _GzipCompressor,
    LZ4: _Lz4Compressor,
    ZSTD: _zstd_compressor,
}
_COMPRESSORS: dict[int, Callable[[Buffer, int | None], bytes]] = {
    GZIP: _compress_gzip,
    SNAPPY: _compress_snappy,
    LZ4: _compress_lz4,
    ZSTD: _compress_zstd,
}
