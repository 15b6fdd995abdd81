"""Message sets that are built: against kafka-python, byte by byte and read by it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from headgate.protocol.records.batch import Record
from headgate.protocol.records.compression import GZIP, LZ4, NONE, SNAPPY, decompress
from headgate.protocol.records.lz4 import with_correct_checksum
from headgate.protocol.records.message_set import build, encode
from headgate.protocol.records.tests.sets import built_by_kafka_python, expected, magics, records, theirs

quick = settings(max_examples=25, deadline=None)


@quick
@given(some=records, magic=magics)
def test_kafka_python_builds_the_same_bytes(some: list[Record], magic: int) -> None:
    assert build(some, magic) == built_by_kafka_python(some, magic)


@pytest.mark.parametrize("magic,codec", [(0, GZIP), (0, SNAPPY), (1, GZIP), (1, SNAPPY), (1, LZ4)])
@quick
@given(some=records)
def test_kafka_python_reads_wrappers(magic: int, codec: int, some: list[Record]) -> None:
    assert theirs(build(some, magic, codec=codec, base_offset=70)) == expected(some, magic, 70)


def test_an_lz4_wrapper_of_magic_0_has_the_broken_checksum() -> None:
    """KIP-57. kafka-python needs another package for it; Java reads it in compat_tests."""
    some = [Record(value=b"a" * 100)]
    made = build(some, 0, codec=LZ4)
    frame = made[26:]
    assert frame[6] != with_correct_checksum(frame)[6]
    assert bytes(decompress(LZ4, with_correct_checksum(frame))) == build(some, 0)


def test_only_magic_1_has_log_append_time() -> None:
    some = [Record(timestamp=5, value=b"a"), Record(timestamp=9, value=b"b")]
    plain = build(some, 1, log_append_time_ms=77)
    assert [one.timestamp for one in theirs(plain)] == [77, 77]
    assert plain[17] == 8
    wrapped = build(some, 1, codec=GZIP, log_append_time_ms=77)
    assert [one.timestamp for one in theirs(wrapped)] == [77, 77]
    assert wrapped[17] == 8 | GZIP
    assert build(some, 0, log_append_time_ms=77) == build(some, 0)


def test_gaps_between_offsets_are_kept() -> None:
    some = [Record(offset=3, timestamp=1, value=b"a"), Record(offset=10, timestamp=1, value=b"b")]
    for codec in (NONE, GZIP):
        for magic in (0, 1):
            assert [one.offset for one in theirs(build(some, magic, codec=codec))] == [3, 10]


def test_nulls_have_a_length_of_minus_one() -> None:
    assert encode(0, 0, 0, -1, None, None)[18:] == b"\xff" * 8
