"""The text of distinguished names; `principals_of_kafka.txt` has the answers of Java's X500Principal."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.security.tls.distinguished_name import MalformedName, subject_of, text_of
from headgate.gateway.security.tls.tests.principals_scenario import CN, UTF8, element, name, names, recorded

ANSWERS = recorded("dn")


def test_every_name_reads_as_in_java() -> None:
    assert [bytes.fromhex(encoded) for encoded, _ in ANSWERS] == names()
    assert [text_of(bytes.fromhex(encoded)) for encoded, _ in ANSWERS] == [answer[1:] for _, answer in ANSWERS]


def certificate(subject: bytes, *, has_version: bool = True) -> bytes:
    """The skeleton of a certificate, as far as its subject."""
    serial, empty = element(0x02, b"\x01"), element(0x30)
    version = element(0xA0, element(0x02, b"\x02")) if has_version else b""
    return element(0x30, element(0x30, version, serial, empty, name(), empty, subject), empty, element(0x03, b"\0"))


@pytest.mark.parametrize("has_version", [True, False])
def test_the_subject_is_found_in_a_certificate(has_version: bool) -> None:
    assert subject_of(certificate(name([(CN, UTF8, b"a")]), has_version=has_version)) == "CN=a"


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        b"\x30",
        b"\x30\x05",
        b"\x30\x84\xff\xff\xff\xff",
        b"\x30\x89" + b"\x01" * 9,
        b"\x31\x00",
        name() * 2,
        element(0x30, element(0x30)),
        element(0x30, element(0x31, element(0x30))),
        element(0x30, element(0x31, element(0x31))),
        element(0x30, element(0x31, element(0x30, element(0x06, b"\x80"), element(0x0C)))),
        element(0x30, element(0x31, element(0x30, element(0x06), element(0x0C)))),
        element(0x30, element(0x31, element(0x30, element(0x0C), element(0x0C)))),
        b"\x30\x02\x1f\x00",
    ],
)
def test_other_bytes_are_no_name(encoded: bytes) -> None:
    with pytest.raises(MalformedName):
        text_of(encoded)


@pytest.mark.parametrize("encoded", [b"", b"\x30\x00", element(0x30, element(0x30)), certificate(b"")])
def test_other_bytes_are_no_certificate(encoded: bytes) -> None:
    with pytest.raises(MalformedName):
        subject_of(encoded)


@given(st.binary(max_size=40), st.integers(0, 60), st.binary(max_size=3))
def test_any_bytes_give_a_text_or_the_one_error(value: bytes, position: int, inserted: bytes) -> None:
    encoded = bytearray(certificate(name([(CN, UTF8, value)])))
    encoded[position : position + len(inserted)] = inserted
    with contextlib.suppress(MalformedName):
        assert isinstance(subject_of(bytes(encoded)), str)
