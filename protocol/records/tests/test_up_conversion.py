"""Message sets to batches: what the conversion of single things is held to; `test_legacy` has the wide properties."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from zlib import crc32

import pytest

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records import batch, up_conversion
from headgate.protocol.records.batch import Record, iterate, read_header, split
from headgate.protocol.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress
from headgate.protocol.records.legacy import ConvertedRecords, up_convert_steps
from headgate.protocol.records.message_set import build, encode
from headgate.protocol.records.tests.sets import expected, up_convert, up_convert_stored

SOME = [Record(timestamp=1000 + number, key=b"k", value=bytes(number)) for number in range(5)]


def refusal(data: bytes | bytearray) -> tuple[ErrorCode, str]:
    """How a client's set is refused; a stored one has to be refused in the same way, unless it is only cut."""
    with pytest.raises(KafkaError) as caught:
        up_convert(data)
    return caught.value.code, caught.value.message


def resealed(message: bytearray) -> bytearray:
    struct.pack_into(">I", message, 12, crc32(message[16:]))
    return message


def within(
    messages: bytes | bytearray, magic: int, codec: int = GZIP, offset: int = 0, attributes: int = 0
) -> bytearray:
    """A wrapper around these bytes."""
    return encode(magic, codec | attributes, offset, 50, None, compress(codec, messages))


def test_varints_of_every_length_are_written() -> None:
    sizes = [0, 1, 63, 64, 8191, 8192, 70_000, 1 << 21]
    some = [Record(timestamp=delta, key=bytes(size), value=bytes(size)) for delta, size in enumerate(sizes)]
    times = [Record(timestamp=5 + (1 << bits), value=b"") for bits in range(0, 60, 5)] + [
        Record(timestamp=0, value=b"")
    ]
    for set_of in (some, times):
        data = up_convert(build(set_of, 1), max_batch_bytes=1 << 30)
        assert list(iterate(data)) == expected(set_of, 1)


def test_many_messages_are_numbered_in_one_batch() -> None:
    some = [Record(timestamp=1)] * 20_000
    data = up_convert(build(some, 0))
    assert [(header.records_count, header.last_offset_delta) for header, _ in split(data)] == [(20_000, 19_999)]
    assert [record.offset for record in iterate(data)] == list(range(20_000))


def test_offsets_of_a_client_are_ignored() -> None:
    some = [one._replace(offset=offset) for one, offset in zip(SOME, [9, 9, 0, 1 << 50, 3], strict=True)]
    for codec in (NONE, GZIP):
        assert list(iterate(up_convert(build(some, 1, codec=codec)))) == expected(SOME, 1)


def test_many_plain_messages_become_several_batches() -> None:
    some = [Record(timestamp=number, value=bytes(100)) for number in range(1000)]
    parts = split(up_convert(build(some, 1), max_batch_bytes=10_000))
    assert len(parts) > 10
    assert max(header.size for header, _ in parts) <= 10_000
    assert min(header.size for header, _ in parts[:-1]) > 7_000
    found = [one._replace(offset=0) for _, view in parts for one in iterate(view)]
    assert found == [one._replace(offset=0) for one in expected(some, 1)]


def test_a_too_large_message_is_a_batch_for_the_log_to_refuse() -> None:
    some = [Record(timestamp=1, value=bytes(size)) for size in (10, 160, 10)]
    parts = split(up_convert(build(some, 1), max_batch_bytes=200))
    assert [header.records_count for header, _ in parts] == [1, 1, 1]
    assert [header.size > 200 for header, _ in parts] == [False, True, False]


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_a_too_large_message_is_refused_before_decompression(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.protocol.records.compression.decompress", None)
    data = build([Record(timestamp=1, value=bytes(range(200)))], 1, codec=codec)
    with pytest.raises(KafkaError, match="exceeds the limit of 200") as caught:
        up_convert(build(SOME[:1], 1) + data, max_batch_bytes=200)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_wrappers_and_plain_messages_may_be_mixed() -> None:
    data = build(SOME[:2], 1) + build(SOME[2:4], 1, codec=SNAPPY) + build(SOME[:1], 1, codec=GZIP) + build(SOME[4:], 1)
    parts = split(up_convert(data))
    assert [header.compression for header, _ in parts] == [NONE, SNAPPY, GZIP, NONE]
    assert [[one.value for one in iterate(view)] for _, view in parts] == [
        [bytes(0), bytes(1)],
        [bytes(2), bytes(3)],
        [bytes(0)],
        [bytes(4)],
    ]


def test_the_number_of_a_clients_batches_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(up_conversion, "MAX_BATCHES", 3)
    wrapper, plain = build(SOME[:1], 1, codec=GZIP), build(SOME, 1)
    assert len(split(up_convert(wrapper * 3))) == 3
    assert len(split(up_convert(wrapper + plain + wrapper))) == 3
    for data in (wrapper * 4, plain + wrapper + plain + wrapper):
        with pytest.raises(KafkaError, match="more than 3 batches") as caught:
            up_convert(data)
        assert caught.value.code is ErrorCode.INVALID_RECORD
    assert len(split_stored(up_convert_stored(wrapper * 4).data)) == 4


def test_magic_0_has_no_timestamps() -> None:
    header = read_header(up_convert(build(SOME, 0)))
    assert (header.base_timestamp, header.max_timestamp, header.is_log_append_time) == (-1, -1, False)


def test_the_batch_has_no_producer() -> None:
    header = read_header(up_convert(build(SOME, 1)))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1004)


def test_stored_log_append_time_is_kept() -> None:
    first = build(SOME[:2], 1, log_append_time_ms=70) + build(SOME[2:3], 1, base_offset=2, log_append_time_ms=71)
    parts = split_stored(up_convert_stored(first + build(SOME[3:], 1, base_offset=3)).data)
    assert [(header.is_log_append_time, header.records_count) for header, _ in parts] == [
        (True, 2),
        (True, 1),
        (False, 2),
    ]
    assert [one.timestamp for _, view in parts for one in iterate(view)] == [70, 70, 71, 1003, 1004]
    ((header, view),) = split_stored(up_convert_stored(build(SOME, 1, codec=GZIP, log_append_time_ms=70)).data)
    assert header.is_log_append_time
    assert {one.timestamp for one in iterate(view)} == {70}


def test_a_wrappers_log_append_time_is_that_of_all_messages() -> None:
    data = within(build(SOME, 1), 1, offset=4, attributes=8)
    assert {one.timestamp for one in iterate(up_convert_stored(data).data)} == {50}


def test_a_producers_log_append_time_shows_in_the_header() -> None:
    """The log refuses it or takes it for CreateTime; alternating ones must not become a batch each."""
    one, other = build(SOME[:1], 1), build(SOME[1:2], 1, log_append_time_ms=70)
    parts = split(up_convert(one + (other + one) * 50))
    assert [(header.is_log_append_time, header.records_count) for header, _ in parts] == [(False, 1), (True, 100)]
    batch.clear_log_append_time(parts[1][1])
    assert [record.timestamp for record in iterate(parts[1][1])] == [70, 1000] * 50
    ((header, _),) = split(up_convert(build(SOME, 1, codec=GZIP, log_append_time_ms=70)))
    assert header.is_log_append_time


def test_batches_of_a_client_stay_unchanged() -> None:
    data = batch.build(SOME)
    assert up_convert(data) == data


def test_an_empty_set_becomes_nothing() -> None:
    assert up_convert(b"") == b""
    assert up_convert_stored(b"") == ConvertedRecords(bytearray(), -1)


@pytest.mark.parametrize("magic", [0, 1])
def test_the_crc_finds_a_changed_byte(magic: int) -> None:
    for codec in (NONE, GZIP):
        data = build(SOME, magic, codec=codec)
        for position in range(12, len(data) if codec else len(build(SOME[:1], magic))):
            changed = bytearray(data)
            changed[position] ^= 1
            assert refusal(changed)[0] is ErrorCode.CORRUPT_MESSAGE


def test_the_crc_within_a_wrapper_is_checked() -> None:
    inner = build(SOME, 1)
    inner[-1] ^= 1
    assert refusal(within(inner, 1))[0] is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_a_cut_set_is_refused(codec: int) -> None:
    data = build(SOME[:1], 1, codec=codec)
    for start in (b"", data):
        for end in range(1, len(data)):
            assert refusal(start + data[:end])[0] is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    "data,code,sentence",
    [
        (encode(3, 0, 0, 5, None, b""), ErrorCode.CORRUPT_MESSAGE, "magic 3 at byte 0"),
        (build(SOME, 0) + build(SOME, 1), ErrorCode.INVALID_RECORD, "another magic than 0"),
        (build(SOME, 1) + batch.build(SOME), ErrorCode.INVALID_RECORD, "magic"),
        (encode(1, GZIP, 0, 5, None, None), ErrorCode.INVALID_RECORD, "has no value"),
        (within(b"", 1), ErrorCode.INVALID_RECORD, "no message in it"),
        (within(build(SOME, 0), 1), ErrorCode.INVALID_RECORD, "another magic than 1"),
        (within(build(SOME, 1, codec=GZIP), 1), ErrorCode.INVALID_RECORD, "a wrapper has a wrapper in it"),
        (within(build(SOME, 1)[:-1], 1), ErrorCode.CORRUPT_MESSAGE, "is cut at byte"),
        (within(b"abc", 1), ErrorCode.CORRUPT_MESSAGE, "is cut at byte 0"),
        (encode(1, GZIP, 0, 5, None, b"this is not gzip"), ErrorCode.INVALID_RECORD, "the records are not gzip"),
        (encode(1, GZIP, 0, 5, None, b"\x1f\x8b\x08 damaged"), ErrorCode.CORRUPT_MESSAGE, "not valid gzip"),
        (encode(0, LZ4, 0, 5, None, b""), ErrorCode.CORRUPT_MESSAGE, "too few for an lz4 frame"),
        (within(build(SOME, 1), 1, ZSTD), ErrorCode.INVALID_RECORD, "there is no zstd in sets of magic 1"),
        (encode(1, 5, 0, 5, None, b"x"), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "no compression codec 5"),
        (struct.pack(">qi", 0, 13) + bytes(13), ErrorCode.CORRUPT_MESSAGE, "a size of 13"),
        (struct.pack(">qi", 0, -1) + bytes(13), ErrorCode.CORRUPT_MESSAGE, "a size of -1"),
    ],
)
def test_faulty_sets_are_refused(data: bytes | bytearray, code: ErrorCode, sentence: str) -> None:
    found, message = refusal(data)
    assert found is code
    assert sentence in message


@pytest.mark.parametrize("position,value", [(26, 100), (26, 1 << 30), (31, 3), (31, -1), (26, -2)])
def test_lengths_must_fit_the_size(position: int, value: int) -> None:
    data = encode(1, 0, 0, 5, b"k", b"value")
    struct.pack_into(">i", data, position, value)
    assert refusal(resealed(data)) == (
        ErrorCode.INVALID_RECORD,
        "the key and the value of the message at byte 0 do not fit its size",
    )


def test_a_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.protocol.records.compression.decompress.__defaults__", (10_000,))
    assert refusal(build([Record(value=bytes(20_000))], 1, codec=GZIP))[0] is ErrorCode.MESSAGE_TOO_LARGE


def offsets(data: bytes | bytearray) -> list[int]:
    return [one.offset for _, view in split_stored(data) for one in iterate(view)]


def split_stored(data: bytes | bytearray) -> Sequence[tuple[batch.BatchHeader, memoryview]]:
    """The batches; those of a compacted log have less records than offsets, which `split` refuses."""
    view, found = memoryview(data), []
    while view:
        header = read_header(view)
        found.append((header, view[: header.size]))
        view = view[header.size :]
    return found


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_stored_messages_keep_their_offsets(magic: int, codec: int) -> None:
    some = [one._replace(offset=100 + 3 * number) for number, one in enumerate(SOME)]
    data, next_offset = up_convert_stored(build(some, magic, codec=codec))
    assert offsets(data) == [100, 103, 106, 109, 112]
    assert next_offset == 113


def test_a_stored_wrapper_of_offset_0_begins_at_0() -> None:
    assert offsets(up_convert_stored(within(build(SOME, 1), 1, offset=0)).data) == [0, 1, 2, 3, 4]
    assert offsets(up_convert_stored(within(build(SOME, 1), 1, offset=4)).data) == [0, 1, 2, 3, 4]
    with pytest.raises(KafkaError, match="offset 3, and 4 messages"):
        up_convert_stored(within(build(SOME, 1), 1, offset=3))


def test_a_log_may_hold_all_formats() -> None:
    parts = [
        build(SOME, 0, base_offset=0),
        build(SOME, 1, base_offset=5),
        build(SOME, 0, codec=LZ4, base_offset=10),
        build(SOME, 1, codec=LZ4, base_offset=15),
        batch.build(SOME, base_offset=20, compression=ZSTD),
        build(SOME, 0, base_offset=25),
    ]
    data, next_offset = up_convert_stored(b"".join(parts))
    assert [header.base_offset for header, _ in split_stored(data)] == [0, 5, 10, 15, 20, 25]
    assert offsets(data) == list(range(30))
    assert next_offset == 30
    assert bytes(parts[4]) in bytes(data)


def test_offsets_that_go_back_or_leap_begin_a_batch() -> None:
    for places in ([7, 3, 1 << 40, 1 << 41, 5], [1, 7, 3, 3, 4]):
        some = [one._replace(offset=offset) for one, offset in zip(SOME, places, strict=True)]
        data = up_convert_stored(build(some, 1)).data
        assert offsets(data) == places
        for header, view in split_stored(data):
            assert header.last_offset == max(one.offset for one in iterate(view))
            assert header.max_timestamp == max(one.timestamp for one in iterate(view))


def test_a_cut_tail_is_left_out() -> None:
    first, second = build(SOME[:2], 1), batch.build(SOME[2:], base_offset=2)
    whole = bytes(first + second)
    for end in range(len(first), len(whole)):
        data, next_offset = up_convert_stored(whole[:end])
        assert (offsets(data), next_offset) == ([0, 1], 2)
    for end in range(34):
        assert up_convert_stored(whole[:end]) == ConvertedRecords(bytearray(), -1)


@pytest.mark.parametrize("where", [12, 16])
def test_messages_before_a_fault_are_converted(where: int) -> None:
    data = build(SOME, 1)
    start = len(build(SOME[:3], 1))
    data[start + where] ^= 0x40
    given, next_offset = up_convert_stored(data)
    assert (offsets(given), next_offset) == ([0, 1, 2], 3)
    with pytest.raises(KafkaError):
        up_convert_stored(data[start:])


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_steps_are_small(codec: int) -> None:
    """The first slice of what is plain and short is all; a codec is never called in the first."""
    few = list(up_convert_steps(build(SOME, 1, codec=codec)))
    assert len(few) == (0 if codec == NONE else 2)
    many = [Record(timestamp=1, value=bytes(100))] * 2000
    assert len(list(up_convert_steps(build(many, 1, codec=codec)))) >= 2000 * 134 // (16 * 1024)
