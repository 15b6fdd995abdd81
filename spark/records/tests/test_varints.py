"""Varints of many positions, beside those that `protocol` reads one by one."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.protocol.records.varint import decode_zigzag, encode_varint, read_zigzag
from headgate.spark.records.varints import PADDING, decode_zigzags, read_zigzags, skip

NUMBERS = st.lists(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-200, 9000), min_size=1, max_size=30)


def buffer(data: bytes) -> Any:
    return np.frombuffer(data + PADDING, np.uint8)


def positions(parts: list[bytes]) -> tuple[bytes, Any, Any]:
    ends = np.cumsum([len(part) for part in parts])
    return b"".join(parts), ends - [len(part) for part in parts], ends


@given(NUMBERS)
def test_numbers_of_any_size_are_read_and_skipped(numbers: list[int]) -> None:
    data, starts, ends = positions([encode_varint(one) for one in numbers])
    found, after = read_zigzags(buffer(data), starts)
    assert decode_zigzags(found).tolist() == numbers
    assert after.tolist() == ends.tolist()
    assert skip(buffer(data), starts).tolist() == ends.tolist()


def test_longer_forms_than_needed_are_read() -> None:
    data, starts, ends = positions([b"\x82\x80\x00", b"\x04", b"\x80\x00"])
    found, after = read_zigzags(buffer(data), starts)
    assert (decode_zigzags(found).tolist(), after.tolist()) == ([1, 2, 0], ends.tolist())


def test_random_bytes_are_read_as_protocol_reads_them() -> None:
    random = Random(3)
    data = random.randbytes(400)
    for start in range(300):
        try:
            wanted = read_zigzag(data + PADDING, start)
        except IndexError:
            continue
        if wanted[0] < 1 << 64:
            found, after = read_zigzags(buffer(data), np.array([start]))
            assert (int(found[0]), int(after[0])) == wanted
            assert decode_zigzags(found)[0] == decode_zigzag(wanted[0])


@pytest.mark.parametrize("data", [b"\x80" * 9 + b"\x02", b"\xff" * 16])
def test_more_than_64_bits_are_refused(data: bytes) -> None:
    with pytest.raises(IndexError, match="64 bits"):
        read_zigzags(buffer(data), np.array([0]))
