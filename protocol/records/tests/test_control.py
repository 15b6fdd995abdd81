"""Transaction markers: their bytes, and what is none."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.protocol.errors import KafkaError
from headgate.protocol.records import control
from headgate.protocol.records.batch import HEADER_SIZE, Record, build, check_crc, iterate, read_header
from headgate.protocol.records.compression import GZIP
from headgate.protocol.records.control import ABORT, COMMIT, MAX_MARKER_BYTES, TYPE_NAMES, UNKNOWN, Marker

# What MemoryRecords.withEndTransactionMarker of Apache Kafka 3.9 gives, from the attributes on, for offset 5, the time
# 1_700_000_000_000, leader epoch 3, producer 4711, its epoch 7, COMMIT, coordinator epoch 9.
OF_KAFKA = bytes.fromhex(
    "0030000000000000018bcfe568000000018bcfe5680000000000000012670007ffffffff000000012000000008000000010c00000000000900"
)


def marker_batch(key: bytes | None, value: bytes | None) -> bytearray:
    return build([Record(key=key, value=value)], is_control=True, is_transactional=True, producer_id=1)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_built_marker_is_read(is_commit: bool) -> None:
    made = control.build(Marker(is_commit, 9), producer_id=4711, producer_epoch=7, timestamp=1_700_000_000_000)
    header = read_header(made)
    assert (header.is_control, header.is_transactional, header.base_sequence, header.records_count) == (
        True,
        True,
        -1,
        1,
    )
    assert check_crc(made)
    assert control.read(made) == Marker(is_commit, 9)
    assert len(made) == 78


def test_a_marker_has_kafkas_bytes() -> None:
    made = control.build(Marker(True, 9), producer_id=4711, producer_epoch=7, timestamp=1_700_000_000_000)
    assert bytes(made[21:]) == OF_KAFKA


@pytest.mark.parametrize("byte", [0, 1, 127, 128, 255])
def test_a_marker_with_another_byte_is_read_as_any_batch_is(byte: int) -> None:
    for position in range(78):
        made = control.build(Marker(True, 9), producer_id=4711, producer_epoch=7, timestamp=1)
        made[position] = byte
        try:
            record = next(iterate(made), None)
            kind, epoch = (UNKNOWN, None) if record is None else control.decode(record.key, record.value)
        except KafkaError:
            kind, epoch = UNKNOWN, None
        assert control.read(made) == (None if epoch is None else Marker(kind == COMMIT, epoch)), position


def test_the_first_bytes_of_a_batch_are_enough() -> None:
    made = control.build(Marker(False, 1), producer_id=1, producer_epoch=0, timestamp=1)
    struct.pack_into(">i", made, 8, 1 << 30)  # a length that is damaged
    assert control.read((made + bytes(MAX_MARKER_BYTES))[:MAX_MARKER_BYTES]) == Marker(False, 1)


@pytest.mark.parametrize(
    "key,value",
    [
        (b"\0\0\0\2", b"\0\0\0\0\0\1"),
        (b"\0\0\0", b"\0\0\0\0\0\1"),
        (b"\xff\xff\0\1", b"\0\0\0\0\0\1"),
        (b"\0\0\0\1", b"\xff\xff\0\0\0\1"),
        (b"\0\0\0\1", b"\0\0\0"),
        (None, b"\0\0\0\0\0\1"),
        (b"\0\0\0\1", None),
    ],
)
def test_other_records_are_no_markers(key: bytes | None, value: bytes | None) -> None:
    assert control.read(marker_batch(key, value)) is None


def test_later_versions_may_append_fields() -> None:
    assert control.read(marker_batch(b"\0\1\0\1more", b"\0\1\0\0\0\5more")) == Marker(True, 5)


def test_an_emptied_batch_has_no_marker() -> None:
    assert control.read(build([], is_control=True)) is None


def test_a_batch_that_cannot_be_decompressed_has_no_marker() -> None:
    data = marker_batch(b"\0\0\0\1", b"\0\0\0\0\0\1")
    struct.pack_into(">h", data, 21, 0x30 | GZIP)
    assert control.read(data) is None


@given(st.binary(max_size=100))
def test_any_bytes_are_a_marker_or_none(data: bytes) -> None:
    made = control.build(Marker(True, 1), producer_id=1, producer_epoch=0, timestamp=1)
    assert control.read(data) is None or len(data) > HEADER_SIZE
    found = control.read(made[:HEADER_SIZE] + data)
    assert found is None or isinstance(found, Marker)


@pytest.mark.parametrize("number,name", list(enumerate(TYPE_NAMES)))
def test_control_records_have_named_types(number: int, name: str) -> None:
    epoch = 5 if number in (ABORT, COMMIT) else None
    assert control.decode(struct.pack(">hh", 0, number), struct.pack(">hi", 0, 5)) == (number, epoch), name


@given(st.none() | st.binary(max_size=8), st.none() | st.binary(max_size=8))
def test_decoding_never_fails(key: bytes | None, value: bytes | None) -> None:
    kind, coordinator_epoch = control.decode(key, value)
    assert kind >= UNKNOWN
    assert coordinator_epoch is None or kind in (ABORT, COMMIT)
