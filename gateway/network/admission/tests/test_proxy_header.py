"""Headers of the PROXY protocol: every form, byte by byte, and what is refused."""

import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.network.admission.proxy_header import (
    MAX_BLOCK_BYTES,
    MAX_LINE_BYTES,
    SIGNATURE,
    MalformedProxyHeader,
    ProxiedConnection,
    ProxyHeaderReader,
)

CLIENT = ProxiedConnection("192.0.2.7", 40_000, "198.51.100.1", 9093)
LINE = b"PROXY TCP4 192.0.2.7 198.51.100.1 40000 9093\r\n"
IPV4_BLOCK = socket.inet_aton("192.0.2.7") + socket.inet_aton("198.51.100.1") + struct.pack(">HH", 40_000, 9093)


def block(body: bytes, command: int = 0x21, family: int = 0x11, length: int | None = None) -> bytes:
    return SIGNATURE + struct.pack(">BBH", command, family, len(body) if length is None else length) + body


def read(data: bytes, step: int = 1 << 16) -> tuple[ProxiedConnection | None, bytes] | None:
    """The connection of a header and the bytes behind it; None for a header that is not complete."""
    reader = ProxyHeaderReader()
    while not reader.is_done:
        assert reader.wanted > 0, "a header that is not done needs more bytes"
        part = data[: min(reader.wanted, step)]
        if not part:
            return None
        reader.feed(part)
        data = data[len(part) :]
    return reader.connection, data


HEADERS = {
    "a line of IPv4": (LINE, CLIENT),
    "a line of IPv6": (
        b"PROXY TCP6 2001:db8::7 2001:DB8:0:0:0:0:0:1 1 65535\r\n",
        ProxiedConnection("2001:db8::7", 1, "2001:db8::1", 65_535),
    ),
    "a line of IPv4 in IPv6": (
        b"PROXY TCP6 ::ffff:192.0.2.7 ::ffff:198.51.100.1 40000 9093\r\n",
        CLIENT,
    ),
    "an unknown line": (b"PROXY UNKNOWN\r\n", None),
    "an unknown line with more": (b"PROXY UNKNOWN ffff:f...f:ffff 65535 anything\r\n", None),
    "a block of IPv4": (block(IPV4_BLOCK), CLIENT),
    "a block with more fields": (block(IPV4_BLOCK + b"\x20\x00\x03abc" * 20), CLIENT),
    "a block of IPv6": (
        block(socket.inet_pton(socket.AF_INET6, "2001:db8::7") * 2 + struct.pack(">HH", 5, 6), family=0x21),
        ProxiedConnection("2001:db8::7", 5, "2001:db8::7", 6),
    ),
    "a local block": (block(b"", command=0x20, family=0), None),
    "a local block with addresses": (block(IPV4_BLOCK, command=0x20), None),
    "a block without a family": (block(b"", family=0), None),
    "a block of a Unix socket": (block(bytes(216), family=0x31), None),
    "a block of an unknown family": (block(b"abc", family=0xFE), None),
    "a block of datagrams": (block(IPV4_BLOCK, family=0x12), None),
}


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("step", [1, 7, 1 << 16])
def test_a_header_ends_at_its_last_byte(name: str, step: int) -> None:
    header, connection = HEADERS[name]
    assert read(header + b"\x16\x03\x01", step) == (connection, b"\x16\x03\x01")


@pytest.mark.parametrize("name", HEADERS)
def test_a_truncated_header_is_never_done(name: str) -> None:
    header, _ = HEADERS[name]
    assert all(read(header[:length]) is None for length in range(len(header)))


@pytest.mark.parametrize(
    "header, reason",
    [
        (b"\x00\x00\x00\x10\x00\x12", "does not begin with a PROXY header"),
        (b"\x16\x03\x01\x02\x00\x01", "does not begin with a PROXY header"),
        (b"GET / HTTP/1.1\r\n\r\n", "does not begin with a PROXY header"),
        (SIGNATURE[:11] + b"\x00", "does not begin with a PROXY header"),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 40000\r\n", "another form"),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 40000 9093 1\r\n", "another form"),
        (b"PROXY UDP4 192.0.2.7 198.51.100.1 40000 9093\r\n", "another form"),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 040000 9093\r\n", "another form"),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 +4000 9093\r\n", "another form"),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 70000 9093\r\n", "above 65535"),
        (b"PROXY TCP4 192.0.2.7 ::1 40000 9093\r\n", "none of its protocol"),
        (b"PROXY TCP4 192.0.2.777 198.51.100.1 40000 9093\r\n", "none of its protocol"),
        (b"PROXY TCP4 192.0.2.\xff 198.51.100.1 40000 9093\r\n", "none of its protocol"),
        (b"PROXY UNKNOWN" + b" " * MAX_LINE_BYTES + b"\r\n", "more than 107 bytes"),
        (b"PROXY UNKNOWN\nGET / HTTP/1.1\r\n", "line feed"),
        (block(IPV4_BLOCK, command=0x11), "version and command 0x11"),
        (block(IPV4_BLOCK, command=0x22), "version and command 0x22"),
        (block(IPV4_BLOCK[:-1]), "shorter than the addresses"),
        (block(IPV4_BLOCK, length=MAX_BLOCK_BYTES + 1), "announces 4097 bytes"),
        (block(IPV4_BLOCK, length=65_535), "announces 65535 bytes"),
    ],
)
@pytest.mark.parametrize("step", [1, 1 << 16])
def test_other_bytes_are_refused_with_their_reason(header: bytes, reason: str, step: int) -> None:
    with pytest.raises(MalformedProxyHeader, match=reason):
        read(header, step)


@given(st.one_of(st.binary(max_size=200), st.binary(max_size=120).map(lambda rest: b"PROXY TCP4" + rest)))
def test_any_bytes_are_read_or_refused_alike_in_every_portion(data: bytes) -> None:
    def outcome(step: int) -> object:
        try:
            return read(data, step)
        except MalformedProxyHeader:
            return MalformedProxyHeader

    assert outcome(1) == outcome(1 << 16)


@given(st.integers(0, 255), st.integers(0, 255), st.integers(0, 400), st.binary(max_size=400))
def test_any_block_is_read_refused_or_incomplete(command: int, family: int, length: int, body: bytes) -> None:
    data = block(body, command, family, length)
    try:
        outcome = read(data)
    except MalformedProxyHeader:
        return
    assert outcome is None or outcome[1] == body[length:]
