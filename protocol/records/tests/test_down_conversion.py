"""Batches to message sets: what the conversion of single things is held to; `test_legacy` has the wide properties."""

from __future__ import annotations

import struct

import pytest

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records import batch, down_conversion
from headgate.protocol.records.batch import Record
from headgate.protocol.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress
from headgate.protocol.records.legacy import ConvertedRecords, down_convert_steps
from headgate.protocol.records.message_set import build
from headgate.protocol.records.tests.sets import down_convert, expected, theirs

ALL = 1 << 30
SOME = [Record(timestamp=1000 + number, key=b"k", value=b"v" * number) for number in range(5)]


def codec_of(message: bytearray) -> int:
    return message[17] & 7


def resealed(data: bytes | bytearray) -> bytearray:
    header = batch.read_header(data)
    body = data[batch.HEADER_SIZE :]
    return batch.assemble(header.base_offset, header.attributes, *header[6:9], header.records_count, body)


def hand_made(body: bytes, count: int = 1, codec: int = NONE) -> bytearray:
    """A batch that a look at its header finds no fault in."""
    return batch.assemble(0, codec, count - 1, 1000, 1000, count, compress(codec, body))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("before,after", [(NONE, NONE), (GZIP, GZIP), (SNAPPY, SNAPPY), (LZ4, GZIP), (ZSTD, GZIP)])
def test_a_codec_stays_or_becomes_gzip(magic: int, before: int, after: int) -> None:
    data = down_convert(batch.build(SOME, base_offset=40, compression=before), magic, 40, ALL).data
    assert codec_of(data) == after
    assert theirs(data) == expected(SOME, magic, 40)
    assert data == build(SOME, magic, base_offset=40, codec=after, level=1)


def test_headers_are_dropped() -> None:
    some = [one._replace(headers=[("name", b"content"), ("none", None)]) for one in SOME]
    assert theirs(down_convert(batch.build(some), 1, 0, ALL).data) == expected(SOME, 1)


def test_control_batches_are_skipped() -> None:
    marker = batch.build(
        [Record(timestamp=1, key=b"\x00\x00\x00\x01", value=b"\x00" * 6)], base_offset=5, is_control=True
    )
    before, after = batch.build(SOME, base_offset=0), batch.build(SOME, base_offset=6)
    data, next_offset = down_convert(before + marker + after, 1, 0, ALL)
    assert theirs(data) == expected(SOME, 1) + expected(SOME, 1, 6)
    assert next_offset == 11
    assert down_convert(marker, 1, 5, ALL) == ConvertedRecords(bytearray(), 6)


def test_batches_of_any_transaction_are_converted() -> None:
    some = batch.build(SOME, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    assert theirs(down_convert(some, 0, 0, ALL).data) == expected(SOME, 0)


def test_log_append_time_is_kept_from_magic_1_on() -> None:
    for codec in (NONE, GZIP):
        stored = batch.build(SOME, compression=codec, log_append_time_ms=70)
        data = down_convert(stored, 1, 0, ALL).data
        assert data == build(SOME, 1, codec=codec, level=1, log_append_time_ms=70)
        assert data[17] & 8
        assert down_convert(stored, 0, 0, ALL).data == build(SOME, 0, codec=codec, level=1)


def test_a_compacted_batch_keeps_its_offsets_and_its_end() -> None:
    some = [one._replace(offset=100 + 3 * number) for number, one in enumerate(SOME)]
    for codec in (NONE, GZIP):
        stored = batch.build(some, base_offset=98, compression=codec)
        struct.pack_into(">i", stored, 23, 30)  # records went from its end too
        stored = resealed(stored)
        for magic in (0, 1):
            data, next_offset = down_convert(stored, magic, 98, ALL)
            assert [one.offset for one in theirs(data)] == [100, 103, 106, 109, 112]
            assert next_offset == 129


def test_an_empty_batch_is_skipped() -> None:
    empty = batch.assemble(0, 0, 4, -1, 1000, 0, b"")
    assert down_convert(empty, 1, 2, ALL) == ConvertedRecords(bytearray(), 5)


def test_the_first_wrapper_is_split_to_fit_the_limit() -> None:
    some = [
        Record(timestamp=1, value=bytes([number]) * 200 + struct.pack(">Q", number * 0x9E3779B97F4A7C15 % 2**64))
        for number in range(200)
    ]
    stored = batch.build(some, compression=ZSTD)
    seen: list[Record] = []
    while len(seen) < len(some):
        data, next_offset = down_convert(stored, 1, len(seen), 500)
        assert len(data) <= 500
        assert next_offset == len(seen) + len(theirs(data))
        seen += theirs(data)
    assert seen == expected(some, 1)


def test_a_small_message_before_a_large_one_is_split_off() -> None:
    some = [Record(value=b"a"), Record(value=bytes(range(256)) * 4)]
    for codec in (NONE, SNAPPY):
        data, next_offset = down_convert(batch.build(some, compression=codec), 0, 0, 200)
        assert (theirs(data), next_offset) == (expected(some[:1], 0), 1)
        data, next_offset = down_convert(batch.build(some, compression=codec), 0, 1, 200)
        assert (theirs(data), next_offset) == (expected(some, 0)[1:], 2)


def test_a_large_batch_becomes_several_wrappers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(down_conversion, "MAX_SET_BYTES", 1000)
    some = [Record(timestamp=number, value=bytes(100)) for number in range(50)]
    data, next_offset = down_convert(batch.build(some, compression=GZIP), 1, 0, ALL)
    assert (theirs(data), next_offset) == (expected(some, 1), 50)
    assert data.count(b"\x1f\x8b\x08") > 5


def test_stored_messages_stay_unchanged() -> None:
    sets = [build(SOME, 0), build(SOME, 1, base_offset=5, codec=LZ4), build(SOME, 1, base_offset=10)]
    stored = b"".join(sets) + batch.build(SOME, base_offset=15)
    data, next_offset = down_convert(stored, 1, 2, ALL)
    assert data.startswith(b"".join(sets)[len(build(SOME[:2], 0)) :])
    assert theirs(data) == expected(SOME, 0)[2:] + expected(SOME * 3, 1, 5)
    assert next_offset == 20


def test_magic_1_becomes_magic_0() -> None:
    stored = build(SOME, 0) + build(SOME, 1, base_offset=5, codec=SNAPPY) + build(SOME, 1, base_offset=10)
    data, next_offset = down_convert(stored + batch.build(SOME, base_offset=15), 0, 0, ALL)
    assert theirs(data) == expected(SOME * 4, 0)
    assert next_offset == 20


def test_copied_messages_keep_to_the_limits() -> None:
    stored = build(SOME, 1)
    size = len(build(SOME[:1], 1))
    assert theirs(down_convert(stored, 1, 0, 1).data) == expected(SOME[:1], 1)
    assert down_convert(stored, 1, 0, 2 * size + 1) == (build(SOME[:2], 1), 2)


def test_a_cut_tail_is_left_out() -> None:
    for second in (
        batch.build(SOME, base_offset=5),
        build(SOME[:1], 0, base_offset=5),
        build(SOME[:1], 1, base_offset=5),
    ):
        whole = bytes(batch.build(SOME) + second)
        for magic in (0, 1):
            for end in range(len(whole) - len(second), len(whole), 7):
                assert down_convert(whole[:end], magic, 0, ALL) == (build(SOME, magic), 5)
            assert down_convert(second[:-1], magic, 5, ALL) == ConvertedRecords(bytearray(), 5)


@pytest.mark.parametrize(
    "body,count,sentence",
    [
        (b"", 1, "record"),
        (b"\x0c\x00\x00\x00\x01\x01\x00", 2, "record"),
        (b"\x0c\x00\x00\x02\x01\x01\x00", 1, "its offset is outside"),
        (b"\x0c\x00\x00\x01\x01\x01\x00", 1, "its offset is outside"),
        (b"\x0e\x00\x00\x00\x01\x01\x00", 1, "passes the end of the batch"),
        (b"\x0a\x00\x00\x00\x01\x01\x00", 1, "has fields after that"),
        (b"\x01\x00\x00\x00\x01\x01\x00", 1, "has fields after that"),
        (b"\x0e\x00\x00\x00\x80\x01\x01\x00", 1, "cannot be read"),
        (b"\x0c\x00\x00\x00\x01\x7e\x00", 1, "has fields after that"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 1, "more than ten bytes"),
        (b"\x1e\x00\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x01\x01\x00", 1, "cannot be read"),
        (b"\x16\x00\x00\x00\xfe\xff\xff\xff\xff\x01\x01\x00", 1, "cannot be read"),
    ],
)
@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_faulty_records_are_refused(body: bytes, count: int, sentence: str, codec: int) -> None:
    faulty = hand_made(body, count, codec)
    with pytest.raises(KafkaError, match=sentence) as caught:
        down_convert(faulty, 1, 0, ALL)
    assert caught.value.code is ErrorCode.INVALID_RECORD
    before = batch.build(SOME[:1])
    struct.pack_into(">q", faulty, 0, 1)
    assert down_convert(before + faulty, 1, 0, ALL) == (build(SOME[:1], 1), 1)


def test_a_damaged_stream_is_refused() -> None:
    no_gzip = batch.assemble(0, GZIP, 0, 0, 0, 1, b"no gzip")
    unknown = batch.assemble(0, 5, 0, 0, 0, 1, b"x")
    for faulty, code in ((no_gzip, ErrorCode.CORRUPT_MESSAGE), (unknown, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)):
        with pytest.raises(KafkaError) as caught:
            down_convert(faulty, 1, 0, ALL)
        assert caught.value.code is code


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_steps_are_small(codec: int) -> None:
    """The first slice of what is plain and short is all; a codec is never called in the first."""
    few = list(down_convert_steps(batch.build(SOME, compression=codec), 1, 0, ALL))
    assert len(few) == (0 if codec == NONE else 2)
    some = batch.build([Record(timestamp=1, value=bytes(100))] * 2000, compression=codec)
    assert len(list(down_convert_steps(some, 1, 0, ALL))) >= 2000 * 134 // (16 * 1024)
    assert len(list(down_convert_steps(some, 1, 1999, ALL))) >= 1


def test_messages_are_copied_in_steps() -> None:
    assert (
        len(list(down_convert_steps(build([Record(value=bytes(100))] * 2000, 0), 0, 0, ALL)))
        >= 2000 * 126 // (16 * 1024) - 1
    )
