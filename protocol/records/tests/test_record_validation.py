"""The walk through records: it agrees with `iterate`, and tells each record that a leader refuses."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records import batch
from headgate.protocol.records.batch import HEADER_SIZE, MAX_TIMESTAMP, MIN_TIMESTAMP, Record, iterate, read_header
from headgate.protocol.records.record_validation import MAX_ERRORS, RecordValidator
from headgate.protocol.records.tests.test_batch import numbered, records

quick = settings(max_examples=25, deadline=None)
INVALID_RECORD, INVALID_TIMESTAMP = ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP


def inspected(
    data: bytes | bytearray,
    *,
    needs_keys: bool = False,
    earliest: int = MIN_TIMESTAMP,
    latest: int = MAX_TIMESTAMP,
    slice_bytes: int = 1 << 20,
) -> list[tuple[int, ErrorCode, str]]:
    validator = RecordValidator(
        read_header(data), bytes(data[HEADER_SIZE:]), needs_keys=needs_keys, earliest=earliest, latest=latest
    )
    while validator.left:
        validator.validate_next(slice_bytes)
    return validator.errors


def is_iterated(data: bytes | bytearray) -> bool:
    """Whether the records can be read, and are numbered one by one."""
    with suppress(KafkaError):
        return [one.offset for one in iterate(data)] == list(range(read_header(data).records_count))
    return False


@quick
@given(some=records, slice_bytes=st.integers(1, 400))
def test_sound_records_pass(some: list[Record], slice_bytes: int) -> None:
    assert inspected(batch.build(some), slice_bytes=slice_bytes) == []


@settings(max_examples=50, deadline=None)
@given(some=records, position=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_validation_agrees_with_iteration(some: list[Record], position: int, flip: int) -> None:
    """And nothing else, but for names of headers that are no UTF-8, at which Java does not look."""
    data = batch.build(numbered(some))
    data[HEADER_SIZE + position % (len(data) - HEADER_SIZE)] ^= flip
    is_sound = False
    with suppress(KafkaError):
        is_sound = inspected(data) == []
    if is_sound is not is_iterated(data):
        assert is_sound
        with pytest.raises(KafkaError, match="utf-8"):
            list(iterate(data))


def test_records_without_keys_are_reported() -> None:
    data = batch.build([Record(key=b"k"), Record(), Record(key=b""), Record()])
    sentence = "it has no key; every record of a compacted topic needs one"
    assert inspected(data) == []
    assert inspected(data, needs_keys=True) == [(1, INVALID_RECORD, sentence), (3, INVALID_RECORD, sentence)]


def test_records_out_of_time_are_reported() -> None:
    data = batch.build([Record(timestamp=time) for time in (10, 20, 21, 21, -1, 9, 10)])
    errors = inspected(data, earliest=10, latest=20)
    assert [number for number, _, _ in errors] == [2, 3, 5]
    assert errors[0] == (2, INVALID_TIMESTAMP, "its timestamp 21 is not between 10 and 20")
    assert [number for number, _, _ in inspected(data, earliest=10, latest=20, slice_bytes=1)] == [2, 3, 5]


def test_offsets_that_do_not_count_up_are_reported() -> None:
    data = batch.build([Record(offset=offset) for offset in (0, 2, 2, 5)])
    assert inspected(data) == [
        (1, INVALID_RECORD, "its offset delta is 2, not 1"),
        (3, INVALID_RECORD, "its offset delta is 5, not 3"),
    ]


def test_the_number_of_reported_records_is_limited() -> None:
    data = batch.build([Record()] * (MAX_ERRORS + 50))
    assert len(inspected(data, needs_keys=True)) == MAX_ERRORS


def made(body: bytes, count: int = 1) -> bytearray:
    return batch.assemble(0, 0, count - 1, 0, 0, count, body)


@pytest.mark.parametrize(
    "body,sentence",
    [
        (b"", "record 0 of 1 cannot be read"),
        (b"\x0c\x00\x00\x00\x01\x01\x00\x00", "does not end where the batch does"),
        (b"\x0e\x00\x00\x00\x01\x01\x00", "its fields end -1 bytes after it"),
        (b"\x0a\x00\x00\x00\x01\x01\x00", "its fields end 1 bytes after it"),
        (b"\x0c\x00\x00\x00\x7e\x01\x00", "cannot be read"),
        (b"\x0c\x00\x00\x00\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01\x00", "cannot be read"),
        (b"\x0c\x00\x00\x00\x01\x01\x01", "it has -1 headers"),
        (b"\x0c\x00\x00\x00\x01\x01\x7e", "it has 63 headers"),
        (b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", "a header has no name"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "more than ten bytes"),
    ],
)
def test_faulty_records_are_refused(body: bytes, sentence: str) -> None:
    with pytest.raises(KafkaError, match=sentence) as caught:
        inspected(made(body))
    assert caught.value.code is INVALID_RECORD


def test_a_timestamp_beyond_64_bits_is_refused() -> None:
    data = batch.build([Record(timestamp=0), Record(timestamp=5)])
    struct.pack_into(">q", data, 27, MAX_TIMESTAMP - 3)
    with pytest.raises(KafkaError, match="record 1 of 2 cannot be read: its timestamp is"):
        inspected(data)


def test_a_record_of_many_headers_is_validated_in_steps() -> None:
    """It may have as many as there are bytes for; the loop shall not stop for all of them."""
    many = [("", None)] * 10_000
    made = batch.build([Record(headers=many), Record(headers=many[:3])])
    for slice_bytes in (100, 4_001, 19_999, 30_000):
        validator = RecordValidator(
            read_header(made),
            bytes(made[HEADER_SIZE:]),
            needs_keys=False,
            earliest=MIN_TIMESTAMP,
            latest=MAX_TIMESTAMP,
        )
        slices = 0
        while validator.left:
            validator.validate_next(slice_bytes)
            slices += 1
        assert slices >= 20_000 // slice_bytes
        assert not validator.errors
    first = made.index(b"\0\1\0\1")  # a name and its value, and the next
    for number in (0, 1_000, 9_999):
        damaged = bytearray(made)
        damaged[first + 2 * number] = 1  # no name
        for slice_bytes in (7, 100_000):
            with pytest.raises(KafkaError):
                inspected(damaged, slice_bytes=slice_bytes)
