"""Headers: every version against kio, and damage."""

from __future__ import annotations

import io
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as KioRequestHeader1
from kio.schema.request_header.v2.header import RequestHeader as KioRequestHeader2
from kio.schema.response_header.v0.header import ResponseHeader as KioResponseHeader0
from kio.schema.response_header.v1.header import ResponseHeader as KioResponseHeader1
from kio.serial import entity_writer
from kio.static.primitive import i16, i32

from headgate.protocol.errors import MalformedRequest
from headgate.protocol.header import (
    RequestHeader,
    read_request_header,
    read_response_header,
    write_request_header,
    write_response_header,
)

API_VERSIONS, FETCH, CONTROLLED_SHUTDOWN = 18, 1, 7


def of_kio(entity: Any) -> bytes:
    stream = io.BytesIO()
    entity_writer(type(entity))(stream, entity)
    return stream.getvalue()


@pytest.mark.parametrize("client_id", [None, "", "a client", "ü" * 40])
@pytest.mark.parametrize("kio, version", [(KioRequestHeader1, 11), (KioRequestHeader2, 12)])
def test_request_headers_equal_kios(kio: Any, version: int, client_id: str | None) -> None:
    out = bytearray()
    header = RequestHeader(FETCH, version, 7, client_id)
    write_request_header(out, header)
    assert out == of_kio(
        kio(
            request_api_key=i16(FETCH),
            request_api_version=i16(version),
            correlation_id=i32(7),
            client_id=client_id,
        )
    )
    assert read_request_header(memoryview(out + b"body")) == (*header, len(out))


@pytest.mark.parametrize(
    "kio, key, version",
    [
        (KioResponseHeader0, FETCH, 11),
        (KioResponseHeader1, FETCH, 12),
        (KioResponseHeader0, API_VERSIONS, 0),
        (KioResponseHeader0, API_VERSIONS, 4),
    ],
)
def test_response_headers_equal_kios(kio: Any, key: int, version: int) -> None:
    out = bytearray()
    write_response_header(out, -5, key, version)
    assert out == of_kio(kio(correlation_id=i32(-5)))
    assert read_response_header(memoryview(out + b"body"), key, version) == (-5, len(out))


def test_the_first_controlled_shutdown_has_no_client_id() -> None:
    out = bytearray()
    header = RequestHeader(CONTROLLED_SHUTDOWN, 0, 3, None)
    write_request_header(out, header)
    assert out == b"\0\x07\0\0\0\0\0\x03"
    assert read_request_header(memoryview(out + b"\0\0\0\x01")) == (*header, 8)


def test_an_unknown_api_still_has_a_header() -> None:
    header = RequestHeader(999, 3, 1, "who")
    out = bytearray()
    write_request_header(out, header)
    assert read_request_header(memoryview(out)) == (*header, len(out))


def test_tagged_fields_are_skipped() -> None:
    out = bytearray()
    write_request_header(out, RequestHeader(FETCH, 12, 7, "c"))
    tagged = bytes(out[:-1]) + b"\x02\x00\x03abc\x81\x01\x01z"
    assert read_request_header(memoryview(tagged + b"body"))[-1] == len(tagged)
    assert read_response_header(memoryview(b"\0\0\0\x05\x01\x00\x01zbody"), FETCH, 12) == (5, 8)


@pytest.mark.parametrize("version", [11, 12])
def test_every_truncation_is_refused(version: int) -> None:
    out = bytearray()
    write_request_header(out, RequestHeader(FETCH, version, 7, "client"))
    for size in range(len(out)):
        with pytest.raises(MalformedRequest):
            read_request_header(memoryview(out)[:size])
    for size in range(5 if version == 12 else 4):
        with pytest.raises(MalformedRequest):
            read_response_header(memoryview(bytes(5))[:size], FETCH, version)


@given(st.binary(max_size=30))
def test_garbage_is_refused_or_read(data: bytes) -> None:
    try:
        *_, position = read_request_header(memoryview(data))
    except MalformedRequest:
        return
    assert position <= len(data)


@pytest.mark.parametrize("version", [11, 12])
def test_invalid_utf_8_in_a_client_id_is_replaced(version: int) -> None:
    frame = struct.pack(">hhih", FETCH, version, 1, 4) + b"B\xfcro\0"
    assert read_request_header(memoryview(frame))[3:] == ("B\ufffdro", 14 if version == 11 else 15)


@pytest.mark.parametrize("bad", [b"\xff\xfe", b"\x00\x80" + b"\xc3" * 128])
def test_a_bad_client_id_is_refused(bad: bytes) -> None:
    """A long one may not become longer than it can be written."""
    with pytest.raises(MalformedRequest):
        read_request_header(memoryview(b"\0\x01\0\x0b\0\0\0\0" + bad))


def test_an_impossible_tagged_field_is_malformed() -> None:
    frame = struct.pack(">hhih", 18, 3, 1, -1) + b"\x01" + b"\xff" * 10
    with pytest.raises(MalformedRequest):
        read_request_header(memoryview(frame))
