"""Codecs: round trips, streams of independent implementations, damage and bombs."""

from __future__ import annotations

import base64
import gzip
import random
import struct
import tracemalloc

import lz4.frame
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records import compression
from headgate.protocol.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress, compress_steps, decompress
from headgate.protocol.steps import finish

quick = settings(max_examples=25, deadline=None)
PLAIN = b"Headgate " * 40
# Written by python-lz4 4, zstandard 0.2x and python-snappy 0.7 from PLAIN.
FOREIGN = {
    "lz4 with a content size": (LZ4, "BCJNGGhAaAEAAAAAAAA2FAAAAJ9IZWFkZ2F0ZSAJAP9IUGdhdGUgAAAAAA=="),
    "lz4 with a content checksum": (LZ4, "BCJNGGxAaAEAAAAAAAD+FAAAAJ9IZWFkZ2F0ZSAJAP9IUGdhdGUgAAAAAM86Ink="),
    "zstd without a content size": (ZSTD, "KLUv/QAAhQAASEhlYWRnYXRlIAEAXFTLEQ=="),
    "raw snappy": (SNAPPY, "6AIgSGVhZGdhdGUg/gkA/gkA/gkA/gkA/gkAegkA"),
}
CODECS = [GZIP, SNAPPY, LZ4, ZSTD]


def refusal(codec: int, stream: bytes) -> ErrorCode:
    try:
        decompress(codec, stream, limit_bytes=1_000_000)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


@pytest.mark.parametrize("codec", [NONE, *CODECS])
@quick
@given(data=st.binary(max_size=300), repeat=st.integers(1, 500))
def test_compressed_bytes_are_decompressed(codec: int, data: bytes, repeat: int) -> None:
    assert bytes(decompress(codec, compress(codec, data * repeat))) == data * repeat


@pytest.mark.parametrize("name", FOREIGN)
def test_streams_of_other_implementations_are_read(name: str) -> None:
    codec, stream = FOREIGN[name]
    assert bytes(decompress(codec, memoryview(base64.b64decode(stream)))) == PLAIN


def test_the_standard_library_reads_our_gzip() -> None:
    assert gzip.decompress(compress(GZIP, PLAIN, level=9)) == PLAIN


def test_snappy_has_xerial_framing() -> None:
    stream = compress(SNAPPY, b"x" * 40_000)
    assert stream[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    (first_length,) = struct.unpack_from(">i", stream, 16)
    assert len(decompress(SNAPPY, stream[20 : 20 + first_length])) == 32 * 1024


def test_concatenated_xerial_streams_are_one() -> None:
    """As snappy-java reads them."""
    assert decompress(SNAPPY, compress(SNAPPY, PLAIN) + compress(SNAPPY, b"x" * 40_000)) == PLAIN + b"x" * 40_000


@pytest.mark.parametrize("codec", [NONE, *CODECS])
@pytest.mark.parametrize("size", [0, 1, 64 * 1024, 64 * 1024 + 1, 500_000])
def test_compression_in_steps_can_be_decompressed(codec: int, size: int) -> None:
    data = (PLAIN * (size // len(PLAIN) + 1))[:size]
    assert bytes(decompress(codec, finish(compress_steps(codec, data, 1)))) == data
    slices = len(list(compress_steps(codec, data, 1)))
    assert slices >= (size // (64 * 1024) if codec in {GZIP, LZ4, ZSTD} else 1)


@pytest.mark.parametrize("data", [b"", PLAIN, bytes(1_000_000), random.Random(1).randbytes(200_000)], ids=len)
def test_lz4_frames_are_like_those_of_java(data: bytes) -> None:
    """Of independent blocks, without any checksum but that of the head; what is not smaller is stored as it is."""
    frame = compress(LZ4, data)
    assert frame[:7] == bytes.fromhex("04224d18604082")
    assert frame[-4:] == bytes(4)
    assert bytes(decompress(LZ4, frame)) == data
    assert bytes(lz4.frame.decompress(frame)) == data


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_is_refused_at_the_limit(codec: int) -> None:
    stream = compress(codec, bytes(1_000_000))
    with pytest.raises(KafkaError) as caught:
        decompress(codec, stream, limit_bytes=999_999)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert len(decompress(codec, stream, limit_bytes=1_000_000)) == 1_000_000


@pytest.mark.parametrize("codec", CODECS)
def test_a_very_large_output_is_decompressed(codec: int) -> None:
    """It is unpacked into memory of another kind."""
    size = 20 << 20
    plain = decompress(codec, compress(codec, bytes(size) + b"end"))
    assert (len(plain), bytes(plain[-5:])) == (size + 3, b"\0\0end")


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
@pytest.mark.parametrize("size", [65_583, 1_000_000])
def test_a_full_batch_of_text_is_decompressed_once(codec: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    words = random.Random(1)
    text = b"".join(b'{"id":%d,"user":"someone","note":"nothing"}' % words.getrandbits(48) for _ in range(size // 40))
    stream = compress(codec, text[:size])
    assert 3 < size / len(stream) < 8, "the ratio of text"
    buffers: list[int] = []

    def zeros(room: int) -> bytearray:
        buffers.append(room)
        return bytearray(room)

    monkeypatch.setattr(compression, "_zeros", zeros)
    assert decompress(codec, stream) == text[:size]
    assert len(buffers) == 1


@pytest.mark.parametrize("claim", [b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x20"])
def test_an_impossible_snappy_size_is_refused_without_memory(claim: bytes) -> None:
    """4 GiB, and 64 MiB, which would be allowed."""
    for stream in (claim + b"abc", b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(claim) + 3) + claim + b"abc"):
        tracemalloc.start()
        assert refusal(SNAPPY, stream) is ErrorCode.CORRUPT_MESSAGE
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak_bytes < 100_000


@pytest.mark.parametrize("codec", CODECS)
@quick
@given(data=st.binary(max_size=100))
def test_any_bytes_are_decompressed_or_refused(codec: int, data: bytes) -> None:
    for stream in (data, compress(codec, PLAIN)[: len(data)] + data):
        assert refusal(codec, stream) in {ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE}


@pytest.mark.parametrize("tail", [b"", b"\x00\x00", b"\x00\x00\x00\x09abc", b"\xff\xff\xff\xff"])
def test_cut_xerial_frames_are_refused(tail: bytes) -> None:
    stream = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)[: 8 if tail else 4] + tail
    with pytest.raises(KafkaError) as caught:
        decompress(SNAPPY, stream)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_refused(codec: int) -> None:
    for call in (compress, decompress):
        with pytest.raises(KafkaError) as caught:
            call(codec, b"")
        assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_names_are_those_of_the_topic_config() -> None:
    assert compression.CODEC_NAMES[ZSTD] == "zstd"
    assert compression.CODEC_NAMES.index("snappy") == SNAPPY
