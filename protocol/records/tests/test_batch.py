"""Record batches: against kafka-python as an independent implementation, and against damage."""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records import batch
from headgate.protocol.records.batch import (
    Record,
    build,
    check_crc,
    clear_log_append_time,
    iterate,
    patch,
    read_header,
    recompress_steps,
    set_log_append_time,
    split,
)
from headgate.protocol.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from headgate.protocol.steps import finish

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of importlib.resources, in kafka-python
    from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

quick = settings(max_examples=25, deadline=None)
optional_bytes = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=10), optional_bytes), max_size=3)
record = st.builds(
    Record,
    offset=st.just(-1),
    timestamp=st.integers(0, 2**53),
    key=optional_bytes,
    value=optional_bytes,
    headers=headers,
)
records = st.lists(record, min_size=1, max_size=5)


def numbered(some: list[Record], base_offset: int = 0) -> list[Record]:
    return [one._replace(offset=base_offset + number) for number, one in enumerate(some)]


def theirs(data: bytes | bytearray) -> list[Record]:
    return [Record(r.offset, r.timestamp, r.key, r.value, r.headers) for r in DefaultRecordBatch(bytes(data))]


def refusal(call: Callable[[], object]) -> ErrorCode:
    """The code with which a call is refused; NONE if it is not."""
    try:
        call()
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def built_by_kafka_python(some: list[Record], codec: int, **producer: Any) -> bytes:
    settings = {"is_transactional": False, "producer_id": -1, "producer_epoch": -1, "base_sequence": -1, **producer}
    builder = DefaultRecordBatchBuilder(magic=2, compression_type=codec, batch_size=1 << 30, **settings)
    for offset, one in enumerate(some):
        assert builder.append(offset, one.timestamp, one.key, one.value, list(one.headers))
    return bytes(builder.build())


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
@quick
@given(some=records)
def test_a_built_batch_is_iterated(codec: int, some: list[Record]) -> None:
    data = build(some, base_offset=7, compression=codec)
    assert check_crc(data)
    assert list(iterate(data)) == numbered(some, 7)


@quick
@given(some=records, codec=st.sampled_from([NONE, GZIP]))
def test_kafka_python_reads_what_we_build(some: list[Record], codec: int) -> None:
    data = build(some, base_offset=9, compression=codec, producer_id=5, producer_epoch=1, base_sequence=3)
    other = DefaultRecordBatch(bytes(data))
    assert other.validate_crc()
    assert (other.base_offset, other.last_offset, other.max_timestamp) == (
        9,
        8 + len(some),
        max(r.timestamp for r in some),
    )
    assert (other.producer_id, other.producer_epoch, other.base_sequence) == (5, 1, 3)
    assert theirs(data) == numbered(some, 9)


@quick
@given(some=records)
def test_kafka_python_builds_the_same_bytes(some: list[Record]) -> None:
    ours = build(some, producer_id=11, producer_epoch=2, base_sequence=40, leader_epoch=0)
    assert bytes(ours) == built_by_kafka_python(some, NONE, producer_id=11, producer_epoch=2, base_sequence=40)


@quick
@given(some=records)
def test_we_read_what_kafka_python_compresses(some: list[Record]) -> None:
    assert list(iterate(built_by_kafka_python(some, GZIP))) == numbered(some)


def test_the_header_names_every_field() -> None:
    data = build(
        [Record(timestamp=1000), Record(timestamp=900)],
        base_offset=3,
        compression=LZ4,
        is_transactional=True,
        is_control=True,
    )
    header = read_header(data)
    assert (header.base_offset, header.last_offset, header.records_count, header.size) == (3, 4, 2, len(data))
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1000)
    assert (header.compression, header.is_transactional, header.is_control, header.is_log_append_time) == (
        LZ4,
        True,
        True,
        False,
    )


def test_gaps_between_offsets_are_kept() -> None:
    data = build([Record(offset=10), Record(offset=15)], base_offset=8)
    assert read_header(data).last_offset == 15
    assert [r.offset for r in iterate(data)] == [10, 15]


def test_patch_keeps_the_crc_right() -> None:
    data = build([Record(value=b"x")] * 3)
    patch(memoryview(data), 1 << 40, 77)
    header = read_header(data)
    assert (header.base_offset, header.partition_leader_epoch, header.size) == (1 << 40, 77, len(data))
    assert check_crc(data)


def test_log_append_time_is_the_time_of_every_record() -> None:
    data = build([Record(timestamp=5), Record(timestamp=9)])
    set_log_append_time(memoryview(data), 1234)
    assert check_crc(data)
    assert read_header(data).is_log_append_time
    assert [r.timestamp for r in iterate(data)] == [1234, 1234]
    assert data == build([Record(timestamp=5), Record(timestamp=9)], log_append_time_ms=1234)


def test_log_append_time_can_be_cleared() -> None:
    data = build([Record(timestamp=5), Record(timestamp=9)], log_append_time_ms=1234)
    clear_log_append_time(memoryview(data))
    assert check_crc(data)
    assert [r.timestamp for r in iterate(data)] == [5, 9]


@quick
@given(some=records, before=st.sampled_from([NONE, GZIP, ZSTD]), after=st.sampled_from([NONE, SNAPPY, LZ4]))
def test_recompression_keeps_the_records(some: list[Record], before: int, after: int) -> None:
    data = build(some, base_offset=2, compression=before, producer_id=1, producer_epoch=0, base_sequence=0)
    other = finish(recompress_steps(data, after))
    assert check_crc(other)
    assert read_header(other).compression == after
    assert list(iterate(other)) == list(iterate(data))


def test_split_cuts_batches_apart() -> None:
    first, second = build([Record(value=b"a")]), build([Record(value=b"b")] * 2)
    parts = split(memoryview(first + second))
    assert [bytes(view) for _, view in parts] == [first, second]
    assert [header.records_count for header, _ in parts] == [1, 2]
    assert split(b"") == []


def test_split_stops_after_the_allowed_batches() -> None:
    data = build([Record(value=b"a")])
    assert len(split(data * 3, 3)) == 3
    assert len(split(data, 1)) == 1
    for sound, most in ((2, 1), (5, 3)):
        with pytest.raises(KafkaError, match=f"{most} batch") as caught:
            split(data * sound + b"no batch", most)
        assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    "position,form,value,code",
    [
        (16, ">b", 1, ErrorCode.CORRUPT_MESSAGE),
        (8, ">i", 48, ErrorCode.CORRUPT_MESSAGE),
        (8, ">i", -1, ErrorCode.CORRUPT_MESSAGE),
        (8, ">i", 1 << 30, ErrorCode.CORRUPT_MESSAGE),
        (23, ">i", 1, ErrorCode.INVALID_RECORD),
        (57, ">i", 0, ErrorCode.INVALID_RECORD),
        (57, ">i", 1 << 30, ErrorCode.INVALID_RECORD),
    ],
)
def test_split_refuses_bad_headers(position: int, form: str, value: int, code: ErrorCode) -> None:
    data = build([Record(value=b"a")])
    struct.pack_into(form, data, position, value)
    with pytest.raises(KafkaError) as caught:
        split(data)
    assert caught.value.code is code


@quick
@given(cut=st.integers(1, 70))
def test_split_refuses_cut_batches(cut: int) -> None:
    data = build([Record(value=b"abc")])
    with pytest.raises(KafkaError) as caught:
        split(data[: max(1, len(data) - cut)])
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@quick
@given(some=records, position=st.integers(21, 10_000), bit=st.integers(0, 7))
def test_the_crc_finds_every_flipped_bit(some: list[Record], position: int, bit: int) -> None:
    data = build(some)
    data[21 + position % (len(data) - 21)] ^= 1 << bit
    assert not check_crc(data)


@quick
@given(body=st.binary(max_size=80), count=st.integers(1, 5))
def test_any_bytes_are_iterated_or_refused(body: bytes, count: int) -> None:
    header = read_header(build([Record()]))._replace(batch_length=49 + len(body), records_count=count)
    data = batch.HEADER.pack(*header) + body
    assert refusal(lambda: list(iterate(data))) in {ErrorCode.NONE, ErrorCode.INVALID_RECORD}


@quick
@given(some=records, cut=st.integers(0, 50), flip=st.integers(0, 255))
def test_damaged_records_are_iterated_or_refused(some: list[Record], cut: int, flip: int) -> None:
    data = build(some)
    position = 61 + cut % (len(data) - 61)
    data[position] ^= flip
    assert refusal(lambda: list(iterate(data))) in {ErrorCode.NONE, ErrorCode.INVALID_RECORD}


def test_bytes_after_the_records_are_refused() -> None:
    data = build([Record()])
    struct.pack_into(">i", data, 8, len(data) - 12 + 1)
    with pytest.raises(KafkaError) as caught:
        list(iterate(data + b"x"))
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_a_timestamp_beyond_64_bits_is_refused() -> None:
    made = build([Record(timestamp=0, value=b"a"), Record(timestamp=5, value=b"b")])
    struct.pack_into(">q", made, 27, (1 << 63) - 3)
    assert next(iterate(made)).timestamp == (1 << 63) - 3
    with pytest.raises(KafkaError) as error:
        list(iterate(made))
    assert error.value.code == ErrorCode.INVALID_RECORD


def test_an_offset_outside_of_its_batch_is_refused() -> None:
    """A client writes the deltas, and the header is all that is looked at when a batch is produced."""
    made = build([Record(0, value=b"a"), Record(5, value=b"b")])
    assert [record.offset for record in iterate(made)] == [0, 5]
    struct.pack_into(">i", made, 23, 4)
    assert refusal(lambda: list(iterate(made))) == ErrorCode.INVALID_RECORD
    before = build([Record(7)], base_offset=7)
    before[61 + 3] = 1  # -1 as a zigzag varint
    assert refusal(lambda: list(iterate(before))) == ErrorCode.INVALID_RECORD


@given(st.binary(max_size=200), st.none() | st.binary(max_size=200), st.booleans())
def test_a_batch_of_one_record_has_the_bytes_of_any_batch(
    key: bytes, value: bytes | None, is_transactional: bool
) -> None:
    expected = batch.build(
        [batch.Record(timestamp=5, key=key, value=value)],
        producer_id=7,
        producer_epoch=3,
        is_transactional=is_transactional,
    )
    made = batch.build_one(5, key, value, producer_id=7, producer_epoch=3, is_transactional=is_transactional)
    assert made == expected
