"""The reference: Kafka's primitives, byte by byte, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
from construct import ConstructError

from headgate.protocol.wire import Array, Blob, Int32sb, Length, Records, Text, UnsignedVarint

SHORT, NULLABLE_SHORT = Length.short(nullable=False), Length.short(nullable=True)
LONG, NULLABLE_LONG = Length.long(nullable=False), Length.long(nullable=True)
COMPACT, NULLABLE_COMPACT = Length.compact(nullable=False), Length.compact(nullable=True)


@pytest.mark.parametrize(
    "value, encoded",
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (16384, "808001"), (2**32 - 1, "ffffffff0f")],
)
def test_unsigned_varints_have_up_to_five_bytes(value: int, encoded: str) -> None:
    assert UnsignedVarint.build(value).hex() == encoded
    assert UnsignedVarint.parse(bytes.fromhex(encoded)) == value


@pytest.mark.parametrize(
    "node, value, encoded",
    [
        (Text(SHORT), "é", "0002c3a9"),
        (Text(SHORT), "", "0000"),
        (Text(NULLABLE_SHORT), None, "ffff"),
        (Text(COMPACT), "é", "03c3a9"),
        (Text(COMPACT), "", "01"),
        (Text(NULLABLE_COMPACT), None, "00"),
        (Blob(LONG), b"ab", "000000026162"),
        (Blob(NULLABLE_LONG), None, "ffffffff"),
        (Blob(COMPACT), b"a" * 127, "8001" + "61" * 127),
        (Records(NULLABLE_COMPACT), b"ab", "036162"),
        (Array(LONG, Int32sb), [1, -1], "0000000200000001ffffffff"),
        (Array(LONG, Int32sb), [], "00000000"),
        (Array(NULLABLE_LONG, Int32sb), None, "ffffffff"),
        (Array(COMPACT, Text(COMPACT)), ["a", ""], "03026101"),
        (Array(NULLABLE_COMPACT, Int32sb), None, "00"),
    ],
)
def test_values_have_their_bytes(node: Any, value: Any, encoded: str) -> None:
    assert node.build(value).hex() == encoded
    assert node.parse(bytes.fromhex(encoded)) == value


@pytest.mark.parametrize(
    "node, encoded",
    [
        (UnsignedVarint, "808080808001"),  # six bytes
        (UnsignedVarint, "80"),
        (Text(SHORT), "ffff"),  # null
        (Text(NULLABLE_SHORT), "fffe"),  # -2
        (Text(SHORT), "000261"),  # cut short
        (Text(SHORT), "0002c328"),  # not UTF-8
        (Text(COMPACT), "00"),
        (Text(COMPACT), "818002" + "61" * 0x8000),  # a byte longer than any text
        (Blob(LONG), "80000000"),
        (Array(LONG, Int32sb), "ffffffff"),
        (Array(LONG, Int32sb), "7fffffff00000000"),
        (Array(COMPACT, Int32sb), "00"),
    ],
)
def test_invalid_bytes_are_refused(node: Any, encoded: str) -> None:
    with pytest.raises(ConstructError):
        node.parse(bytes.fromhex(encoded))


@pytest.mark.parametrize("node", [Text(SHORT), Text(COMPACT), Blob(LONG), Array(COMPACT, Int32sb)])
def test_null_is_not_written_to_a_field_that_is_not_nullable(node: Any) -> None:
    with pytest.raises(ConstructError):
        node.build(None)
