"""Varints of records: all readers and writers agree, and no reader passes the end of the data."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.protocol.records.varint import (
    decode_zigzag,
    encode_varint,
    read_rest,
    read_varint,
    read_zigzag,
    write_varint,
)


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_a_written_number_is_read_by_all_readers(number: int) -> None:
    out = bytearray(b"before")
    write_varint(out, number)
    data = bytes(out)
    assert data == b"before" + encode_varint(number)
    assert read_varint(data, 6) == (number, len(data))
    zigzag, end = read_zigzag(data, 6)
    assert (decode_zigzag(zigzag), end) == (number, len(data))


@pytest.mark.parametrize(
    "number,data", [(0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (64, "8001"), (-(1 << 63), "ff" * 9 + "01")]
)
def test_bytes_are_those_of_protocol_buffers(number: int, data: str) -> None:
    assert encode_varint(number).hex() == data


def test_the_rest_of_a_varint_follows_its_first_byte() -> None:
    assert read_rest(b"\x01", 0, 0x80) == (128, 1)
    assert read_rest(b"\xff\x7f", 0, 0xFF) == (2**21 - 1, 2)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 9, b"\xff" * 10, b"\x80" * 11 + b"\x01"])
def test_a_cut_or_endless_varint_is_an_index_error(data: bytes) -> None:
    with pytest.raises(IndexError):
        read_varint(data, 0)
    with pytest.raises(IndexError):
        read_zigzag(data, 0)
