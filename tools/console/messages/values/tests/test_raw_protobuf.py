"""Protobuf without a schema, as `protoc --decode_raw` shows it."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.protocol.tests.examples import share
from headgate.tools.console.messages.values import raw_protobuf
from headgate.tools.console.messages.values.raw_protobuf import NotProtobuf

# Of protoc 3.21, `protoc --decode_raw`
KNOWN = {
    b"\x08\x96\x01": "1: 150",
    b"\x12\x07testing": '2: "testing"',
    b"\x1a\x03\x08\x96\x01": "3 {\n  1: 150\n}",
    b"\x0d\x01\x00\x00\x00": "1: 0x00000001",
    b"\x09\x00\x00\x00\x00\x00\x00\xf0\x3f": "1: 0x3ff0000000000000",
    b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01": "1: 18446744073709551615",
    b"\x0a\x00": '1: ""',
    b'\x0a\x05a\n"\xff\x01': '1: "a\\n\\"\\377\\001"',
    b"\x0b\x10\x05\x0c": "1 {\n  2: 5\n}",
    b"": "",
}


@pytest.mark.parametrize("content", KNOWN)
def test_fields_are_shown_as_protoc_does(content: bytes) -> None:
    assert raw_protobuf.decode(content) == KNOWN[content]


@pytest.mark.parametrize(
    "content", [b"\x08", b"\x12\x7fabc", b"\x00\x00", b"\x0f\x01", b"\x0b\x10\x05", b"\x0c", b"\x0d\x01", b"\xff" * 20]
)
def test_other_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(NotProtobuf):
        raw_protobuf.decode(content)


def length(content: bytes) -> bytes:
    out, size = bytearray(b"\x0a"), len(content)
    while size > 0x7F:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    out.append(size)
    return bytes(out) + content


def test_bombs_are_bounded() -> None:
    nested = b"\x08\x01"
    for _ in range(3_000):
        nested = length(nested)
    groups = b"\x0b" * 500_000
    many = b"\x08\x01" * 2_000_000
    mixed = b""
    for _ in range(12):
        mixed = length(mixed + b"\x08\x01" * 2_000 + b"\xff")
    began = time.process_time()
    assert raw_protobuf.decode(nested).count("{") == 10
    for bomb in (groups, many):
        with pytest.raises(NotProtobuf):
            raw_protobuf.decode(bomb)
    raw_protobuf.decode(mixed)
    assert time.process_time() - began < 1.5


@given(st.binary(max_size=300))
@settings(max_examples=share(200))
def test_any_bytes_are_fields_or_refused(content: bytes) -> None:
    with suppress(NotProtobuf):
        assert isinstance(raw_protobuf.decode(content), str)
