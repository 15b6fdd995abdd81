"""The codecs of record batches: gzip, snappy (raw and xerial), lz4 frames, zstd; both directions.

Output is bounded: a few bytes of a client must not become gigabytes here. The native library is imported when the first
compressed batch is met, not at start-up. Source: Apache Kafka's `CompressionType`; KIP-57 (lz4 framing), KIP-110
(zstd).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from typing import Any, TypeAlias

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.lz4 import without_block_checksums
from headgate.protocol.steps import Steps

CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

# What one batch may become. Kafka's own limit on the compressed side, message.max.bytes, is 1 MB by default; a ratio
# of 100 is far beyond what real records reach.
MAX_OUTPUT_BYTES = 128 * 1024 * 1024
_FIRST_GUESS_BYTES = 64 * 1024
_MAPPED_BYTES = 16 * 1024 * 1024

_SNAPPY_RATIO = 22  # the dearest copy makes 64 bytes of three
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_LENGTH = struct.Struct(">i")
_XERIAL_MAGIC_LENGTH = _LENGTH.unpack_from(_XERIAL_MAGIC)[0]  # the magic number where a block's length would be
_PIECE_BYTES = 64 * 1024
# What a conversion is worth: gzip at its default level takes four times as long for 2 to 10 percent less.
FAST_LEVEL = 1

Packed: TypeAlias = bytes | bytearray | memoryview


def decompress(codec: int, data: Packed, limit_bytes: int = MAX_OUTPUT_BYTES) -> Packed:
    """The plain bytes of `data`.

    Raises KafkaError: UNSUPPORTED_COMPRESSION_TYPE for a codec that does not exist, CORRUPT_MESSAGE for what is not a
    stream of this codec, MESSAGE_TOO_LARGE for more than `limit_bytes` of output.
    """
    if codec == NONE:
        return data
    unpack = _DECOMPRESSORS.get(codec)
    if unpack is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no compression codec {codec}")
    return unpack(data, limit_bytes)


def compress(codec: int, data: bytes | bytearray | memoryview, level: int | None = None) -> bytes:
    """`data` as a stream of this codec, in the form that every Kafka client reads.

    `level` is the codec's own (gzip 1-9, lz4 1-17, zstd 1-22; snappy has none); None means the codec's default.
    Raises KafkaError(UNSUPPORTED_COMPRESSION_TYPE) for a codec that does not exist.
    """
    if codec == NONE:
        return bytes(data)
    pack = _COMPRESSORS.get(codec)
    if pack is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no compression codec {codec}")
    return pack(data, level)


def compress_steps(codec: int, data: bytes | bytearray | memoryview, level: int | None = None) -> Steps[bytes]:
    """`compress` in slices, and one before the first."""
    yield
    if codec not in {GZIP, LZ4, ZSTD} or len(data) <= _PIECE_BYTES:
        return compress(codec, data, level)  # snappy takes less than two milliseconds a megabyte
    compressor = _STREAMS[codec](level)
    view = memoryview(data)
    for position in range(0, len(view), _PIECE_BYTES):
        compressor.compress(bytes(view[position : position + _PIECE_BYTES]))
        yield
    return bytes(compressor.finish())


def _native() -> Any:
    """The codecs, loaded when the first compressed batch needs them."""
    import cramjam

    return cramjam


def _corrupt(name: str, error: object) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch is not valid {name}: {error}")


def _too_large(limit_bytes: int) -> KafkaError:
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"the batch decompresses to more than {limit_bytes} bytes")


def _room(size: int) -> bytearray | mmap.mmap:
    """Zeros to write into.

    Python fills a bytearray while it holds its lock: for what a bomb becomes that is a tenth of a second. Mapped memory
    is filled when it is touched, which is by the codec, and that holds no lock; but it takes longer in all.
    """
    return bytearray(size) if size <= _MAPPED_BYTES else mmap.mmap(-1, size)


def _growing(name: str) -> Callable[[Packed, int], memoryview]:
    """Decompress into a buffer that grows up to the limit: these formats do not say their output's size beforehand."""

    def unpack(data: Packed, limit_bytes: int) -> memoryview:
        cramjam = _native()
        codec = getattr(cramjam, name)
        size = min(limit_bytes, max(_FIRST_GUESS_BYTES, 4 * len(data)))
        while True:
            output = _room(size)
            try:
                return memoryview(output)[: codec.decompress_into(data, output)]
            except cramjam.DecompressionError as error:
                # The one message of a full buffer (std::io::ErrorKind::WriteZero); all others mean a damaged stream.
                if "write whole buffer" not in str(error):
                    raise _corrupt(name, error) from None
            if size >= limit_bytes:
                raise _too_large(limit_bytes)
            size = min(limit_bytes, 4 * size)

    return unpack


def _unpack_snappy(data: Packed, limit_bytes: int) -> bytearray:
    view = memoryview(data)
    if view[:8] != _XERIAL_MAGIC:
        return _unpack_snappy_block(view, limit_bytes)
    output = bytearray()
    position = len(_XERIAL_HEADER)
    if len(view) < position:
        raise _corrupt("snappy", "the xerial header is cut")
    while position < len(view):
        if position + 4 > len(view):
            raise _corrupt("snappy", "a xerial block's length is cut")
        (length,) = _LENGTH.unpack_from(view, position)
        if length == _XERIAL_MAGIC_LENGTH and view[position : position + 8] == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)  # streams one after another, as snappy-java reads them
            continue
        position += 4
        if length < 0 or position + length > len(view):
            raise _corrupt("snappy", f"a xerial block of {length} bytes passes the end of the batch")
        output += _unpack_snappy_block(view[position : position + length], limit_bytes - len(output))
        position += length
    return output


def _unpack_snappy_block(block: memoryview, limit_bytes: int) -> bytearray:
    """The plain bytes of one block, which begins with their number; nothing is allocated for one that cannot be."""
    cramjam = _native()
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > _SNAPPY_RATIO * len(block):
            raise _corrupt("snappy", f"a block of {len(block)} bytes claims to become {size}")
        if size > limit_bytes:
            raise _too_large(limit_bytes)
        output = bytearray(size)
        cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError as error:
        raise _corrupt("snappy", error) from None
    return output


def _pack_snappy(data: bytes | bytearray | memoryview, level: int | None) -> bytes:
    """Xerial framing, as Kafka's Java producer writes it.

    Its consumer reads raw snappy too, but not every other one does.
    """
    snappy = _native().snappy
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for position in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(snappy.compress_raw(view[position : position + _XERIAL_BLOCK_BYTES]))
        parts += (_LENGTH.pack(len(block)), block)
    return b"".join(parts)


class _Lz4:
    """A frame as Kafka's Java writes it. Its reader refuses blocks that depend on each other."""

    def __init__(self, level: int | None) -> None:
        self._compressor = _native().lz4.Compressor(level=level, content_checksum=False, block_linked=False)

    def compress(self, data: bytes) -> None:
        self._compressor.compress(data)

    def finish(self) -> bytes:
        return without_block_checksums(bytes(self._compressor.finish()))


def _pack_lz4(data: bytes | bytearray | memoryview, level: int | None) -> bytes:
    stream = _Lz4(level)
    stream.compress(bytes(data))
    return stream.finish()


class _Gzip:
    """A stream of the standard library: at the usual levels it takes up to a third less time than cramjam's."""

    def __init__(self, level: int | None) -> None:
        import zlib

        self._stream = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
        self._parts: list[bytes] = []

    def compress(self, data: bytes | bytearray | memoryview) -> None:
        self._parts.append(self._stream.compress(data))

    def finish(self) -> bytes:
        return b"".join((*self._parts, self._stream.flush()))


def _pack_gzip(data: bytes | bytearray | memoryview, level: int | None) -> bytes:
    stream = _Gzip(level)
    stream.compress(data)
    return stream.finish()


def _zstd_compressor(level: int | None) -> Any:
    return _native().zstd.Compressor(level)


def _pack_zstd(data: bytes | bytearray | memoryview, level: int | None) -> bytes:
    return bytes(_native().zstd.compress(data, level=level))


_DECOMPRESSORS: dict[int, Callable[[Packed, int], Packed]] = {
    GZIP: _growing("gzip"),
    SNAPPY: _unpack_snappy,
    LZ4: _growing("lz4"),
    ZSTD: _growing("zstd"),
}
_STREAMS: dict[int, Callable[[int | None], Any]] = {GZIP: _Gzip, LZ4: _Lz4, ZSTD: _zstd_compressor}
_COMPRESSORS: dict[int, Callable[[bytes | bytearray | memoryview, int | None], bytes]] = {
    GZIP: _pack_gzip,
    SNAPPY: _pack_snappy,
    LZ4: _pack_lz4,
    ZSTD: _pack_zstd,
}
