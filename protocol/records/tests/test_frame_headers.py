"""The first bytes of compressed records: sound streams of every library, and what Java clients refuse."""

from __future__ import annotations

import gzip
import struct
import zlib

import cramjam
import lz4.frame
import pytest

from headgate.protocol.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress
from headgate.protocol.records.frame_headers import fault
from headgate.protocol.records.lz4 import with_broken_checksum, with_correct_checksum

PLAIN = bytes(range(256)) * 3
FRAME = compress(LZ4, PLAIN)
RAW = bytes(cramjam.snappy.compress_raw(PLAIN))
ZSTD_MAGIC = bytes.fromhex("28b52ffd")


def lz4_head(flags: int, descriptor: int = FRAME[5], end: bytes = bytes(9)) -> bytes:
    return bytes(with_correct_checksum(FRAME[:4] + bytes((flags, descriptor)) + end))


def zstd_head(descriptor: int, *rest: int) -> bytes:
    return ZSTD_MAGIC + bytes((descriptor, *rest)) + bytes(8)


SOUND = {
    "lz4": (LZ4, lz4.frame.compress(PLAIN, block_linked=False)),
    "lz4 with sizes and checksums": (
        LZ4,
        lz4.frame.compress(PLAIN, block_linked=False, content_checksum=True, block_checksum=True, store_size=True),
    ),
    "gzip": (GZIP, gzip.compress(PLAIN)),
    "snappy": (SNAPPY, RAW),
    "snappy with a size in more bytes than needed": (SNAPPY, bytes((RAW[0], RAW[1] | 0x80, 0)) + RAW[2:]),
    "xerial": (SNAPPY, compress(SNAPPY, PLAIN)),
    "zstd": (ZSTD, bytes(cramjam.zstd.compress(PLAIN))),
    "zstd after a skippable frame": (ZSTD, struct.pack("<II", 0x184D2A5F, 0) + compress(ZSTD, PLAIN)),
    "zstd with dictionary 0": (ZSTD, zstd_head(0x01, 0x88, 0)),
    "no codec": (NONE, PLAIN),
    "a codec that does not exist": (7, PLAIN),
    **{f"codec {codec} as we write it": (codec, compress(codec, PLAIN)) for codec in range(5)},
}
FAULTY = {
    "linked blocks": (LZ4, lz4.frame.compress(PLAIN * 500, block_linked=True)),
    "a dictionary of lz4": (LZ4, lz4_head(FRAME[4] | 1)),
    "another version of lz4": (LZ4, lz4_head(FRAME[4] & ~0xC0)),
    "blocks of no size": (LZ4, lz4_head(FRAME[4], 0x30)),
    "a reserved bit of lz4": (LZ4, lz4_head(FRAME[4], FRAME[5] | 0x80)),
    "a checksum that is wrong": (LZ4, bytes(with_broken_checksum(FRAME))),
    "an lz4 frame that is cut": (LZ4, FRAME[:6]),
    "a size of lz4 that is cut": (LZ4, lz4.frame.compress(PLAIN, block_linked=False, store_size=True)[:14]),
    "another codec in place of lz4": (LZ4, compress(ZSTD, PLAIN)),
    "plain records as gzip": (GZIP, PLAIN),
    "zlib as gzip": (GZIP, zlib.compress(PLAIN)),
    "another method of gzip": (GZIP, b"\x1f\x8b\x07" + bytes(20)),
    "another codec in place of snappy": (SNAPPY, compress(ZSTD, PLAIN)),
    "a cut header of xerial": (SNAPPY, compress(SNAPPY, PLAIN)[:15]),
    "a size of snappy without an end": (SNAPPY, b"\xff\xff\xff\xff\xff\x01\x00"),
    "a size of snappy alone": (SNAPPY, RAW[:2]),
    "plain records as zstd": (ZSTD, PLAIN),
    "a dictionary of zstd": (ZSTD, zstd_head(0x01, 0x88, 7)),
    "a dictionary of a zstd frame without a window": (ZSTD, zstd_head(0x22, 0, 7)),
    "a window of more than 128 MiB": (ZSTD, zstd_head(0x00, 0x89)),
    "a reserved bit of zstd": (ZSTD, zstd_head(0x08, 0x88)),
    "a zstd frame that is cut": (ZSTD, ZSTD_MAGIC + b"\x00"),
    **{f"nothing in codec {codec}": (codec, b"") for codec in range(1, 5)},
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_headers_pass_at_any_position(name: str) -> None:
    codec, data = SOUND[name]
    assert fault(codec, data) is None
    assert fault(codec, memoryview(b"batch" + data), 5) is None


@pytest.mark.parametrize("name", FAULTY)
def test_headers_that_java_refuses_have_a_fault(name: str) -> None:
    codec, data = FAULTY[name]
    assert fault(codec, data)
    assert fault(codec, memoryview(b"batch" + data), 5)


@pytest.mark.parametrize("codec", range(1, 5))
def test_a_header_is_read_no_further_than_the_batch(codec: int) -> None:
    data = compress(codec, PLAIN)
    for end in range(len(data)):
        fault(codec, data[:end])
    assert fault(codec, data[:20]) is None
