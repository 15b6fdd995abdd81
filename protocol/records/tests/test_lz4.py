"""LZ4 frames: both checksums, and what Java does not read."""

from __future__ import annotations

import base64
import random

import lz4.frame
import pytest

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.compression import LZ4, compress, decompress
from headgate.protocol.records.lz4 import (
    java_incompatibility_steps,
    with_broken_checksum,
    with_correct_checksum,
    without_block_checksums,
)
from headgate.protocol.records.tests.test_compression import FOREIGN, PLAIN
from headgate.protocol.steps import finish

FRAME = compress(LZ4, PLAIN)
WITH_SIZE = bytes.fromhex("04224d186840050000000000000000") + bytes.fromhex("05000080") + b"abcde" + bytes(4)


def java_fault(frame: bytes | bytearray | memoryview) -> str | None:
    return finish(java_incompatibility_steps(frame))


def test_the_correct_checksum_is_that_of_the_library() -> None:
    assert with_correct_checksum(FRAME) == FRAME
    assert with_correct_checksum(with_broken_checksum(FRAME)) == FRAME


def test_the_broken_checksum_covers_the_magic_number() -> None:
    """KIP-57: the second byte of the XXH32 of 04 22 4D 18 60 40."""
    assert with_broken_checksum(bytes.fromhex("04224d18604082") + bytes(4))[6] == 0x1A


def test_the_checksum_follows_the_content_size() -> None:
    frame = with_correct_checksum(WITH_SIZE)
    assert frame != WITH_SIZE
    assert bytes(decompress(LZ4, frame)) == b"abcde"
    assert java_fault(frame) is None


@pytest.mark.parametrize("frame", [b"", FRAME[:6], WITH_SIZE[:14]])
def test_a_short_frame_is_corrupt(frame: bytes) -> None:
    with pytest.raises(KafkaError) as caught:
        with_correct_checksum(frame)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("is_linked", [True, False])
@pytest.mark.parametrize("has_content_checksum", [True, False])
@pytest.mark.parametrize("data", [PLAIN, bytes(300_000), random.Random(1).randbytes(300_000)], ids=len)
def test_block_checksums_are_removed(data: bytes, has_content_checksum: bool, is_linked: bool) -> None:
    options = {"content_checksum": has_content_checksum, "block_linked": is_linked}
    frame = lz4.frame.compress(data, block_checksum=True, **options)
    assert without_block_checksums(frame) == lz4.frame.compress(data, **options)
    assert without_block_checksums(without_block_checksums(frame)) == without_block_checksums(frame)


def test_many_blocks_are_checked_in_steps() -> None:
    head = FRAME[:7]
    for blocks, slices in ((400, 0), (10_000, 20)):
        frame = head + b"\x01\x00\x00\x80x" * blocks + bytes(4)
        assert len(list(java_incompatibility_steps(frame))) == slices
        assert java_fault(frame) is None
        assert java_fault(frame + b"x") == "1 bytes follow its first frame"


def test_java_reads_our_frames() -> None:
    assert java_fault(FRAME) is None
    assert java_fault(compress(LZ4, bytes(1_000_000))) is None


@pytest.mark.parametrize("name", ["lz4 with a content size", "lz4 with a content checksum"])
def test_java_reads_frames_of_other_writers(name: str) -> None:
    assert java_fault(base64.b64decode(FOREIGN[name][1])) is None


@pytest.mark.parametrize(
    "frame,sentence",
    [
        (FRAME[:4] + bytes((FRAME[4] & ~0x20,)) + FRAME[5:], "its blocks depend on each other"),
        (b"no frame", "it does not begin with a frame"),
        (FRAME[:4] + b"\xa0" + FRAME[5:], "its frame has a dictionary or another version"),
        (FRAME[:4] + bytes((FRAME[4] | 1,)) + FRAME[5:], "its frame has a dictionary or another version"),
        (FRAME[:5] + b"\x30" + FRAME[6:], "its maximum block size does not exist"),
        (FRAME[:-4], "its frame has no end"),
        (FRAME + FRAME, f"{len(FRAME)} bytes follow its first frame"),
        (
            FRAME[:7] + b"\x01\x00\x01\x00" + FRAME[11:],
            "a block of 65537 bytes is larger than the 65536 that its frame allows",
        ),
    ],
)
def test_java_refuses_other_frames(frame: bytes, sentence: str) -> None:
    assert java_fault(frame) == sentence
