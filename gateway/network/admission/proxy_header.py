"""The PROXY protocol, versions 1 and 2: the header that a proxy sends before a client's bytes. Sans-IO.

A reader asks for `wanted` bytes at a time, and never for a byte behind the header: what follows may be TLS, which
another layer reads from the same socket.

Source: "The PROXY protocol", https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt.
"""

from __future__ import annotations

import re
import struct
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple

SIGNATURE: Final = b"\r\n\r\n\x00\r\nQUIT\n"
"""The beginning of version 2."""
BEGINNING: Final = b"PROXY "
"""The beginning of version 1."""
BEGINNINGS: Final = (BEGINNING[:4], SIGNATURE[:4])
"""The first four bytes of either version. As the size of a Kafka frame they are 218 megabytes and more."""

MAX_LINE_BYTES: Final = 107
MAX_BLOCK_BYTES: Final = 4_096
"""The limit on what follows the first 16 bytes of version 2. A header with a TLS certificate in it is smaller."""

_SIGNATURE_BYTES: Final = len(SIGNATURE)
_FIXED_BYTES: Final = 16
_LOCAL, _PROXIED = 0, 1
_TCP_OVER_IPV4, _TCP_OVER_IPV6 = 0x11, 0x21
_ADDRESSES: Final = {_TCP_OVER_IPV4: struct.Struct(">4s4sHH"), _TCP_OVER_IPV6: struct.Struct(">16s16sHH")}
_VERSIONS: Final[dict[bytes, type[IPv4Address | IPv6Address]]] = {b"TCP4": IPv4Address, b"TCP6": IPv6Address}
PORT: Final = re.compile(rb"0|[1-9][0-9]{0,4}")
_MAX_PORT: Final = 0xFFFF


class MalformedProxyHeader(ValueError):
    """Bytes that are no header of the PROXY protocol. The text is a reason for the log."""


class ProxiedConnection(NamedTuple):
    """A client's connection to the proxy: addresses as text, and ports."""

    remote_host: str
    remote_port: int
    local_host: str
    local_port: int


class ProxyHeaderReader:
    """Reads one header. `feed` gets at most `wanted` bytes, until `is_done`."""

    __slots__ = ("_data", "connection", "is_done", "wanted")

    def __init__(self) -> None:
        self.is_done = False
        self.wanted = _SIGNATURE_BYTES
        self.connection: ProxiedConnection | None = None
        """The connection in the header; None: the proxy speaks for itself, or for no TCP connection."""
        self._data = b""

    @property
    def has_begun(self) -> bool:
        """Whether a byte has arrived."""
        return bool(self._data)

    def feed(self, data: bytes) -> None:
        """Take the next bytes. Raises MalformedProxyHeader."""
        self._data += data
        self.wanted -= len(data)
        beginning = self._data[:_SIGNATURE_BYTES]
        if beginning == SIGNATURE[: len(beginning)]:
            self._feed_block()
        elif beginning[: len(BEGINNING)] == BEGINNING[: len(beginning)]:
            self._feed_line()
        else:
            raise MalformedProxyHeader("the connection does not begin with a PROXY header")

    def _feed_line(self) -> None:
        if self._data.endswith(b"\r\n"):
            self.connection = _parse_line(self._data[:-2])
            self.is_done = True
        elif len(self._data) >= MAX_LINE_BYTES:
            raise MalformedProxyHeader(f"the PROXY header has more than {MAX_LINE_BYTES} bytes")
        elif not self.wanted:
            self.wanted = 1
        if b"\n" in self._data[:-1] or (self._data.endswith(b"\n") and not self.is_done):
            raise MalformedProxyHeader("the PROXY header has a line feed within its line")

    def _feed_block(self) -> None:
        if self.wanted:
            return
        if len(self._data) < _FIXED_BYTES:
            self.wanted = _FIXED_BYTES - len(self._data)
        elif len(self._data) == _FIXED_BYTES:
            self._begin_block()
        else:
            self._end_block()

    def _begin_block(self) -> None:
        version, (length,) = self._data[12] >> 4, struct.unpack_from(">H", self._data, 14)
        if version != 2 or self._data[12] & 0x0F not in (_LOCAL, _PROXIED):
            raise MalformedProxyHeader(f"the PROXY header has the version and command 0x{self._data[12]:02x}")
        if length > MAX_BLOCK_BYTES:
            raise MalformedProxyHeader(f"the PROXY header announces {length} bytes; the limit is {MAX_BLOCK_BYTES}")
        self.wanted = length
        if not length:
            self._end_block()

    def _end_block(self) -> None:
        command, family = self._data[12] & 0x0F, self._data[13]
        addresses = _ADDRESSES.get(family)
        if command == _PROXIED and addresses is not None:
            if len(self._data) < _FIXED_BYTES + addresses.size:
                raise MalformedProxyHeader("the PROXY header is shorter than the addresses that it announces")
            remote, local, remote_port, local_port = addresses.unpack_from(self._data, _FIXED_BYTES)
            self.connection = ProxiedConnection(_text(remote), remote_port, _text(local), local_port)
        self.is_done = True


def _parse_line(line: bytes) -> ProxiedConnection | None:
    parts = line.split(b" ")
    if parts[1] == b"UNKNOWN":
        return None
    version = _VERSIONS.get(parts[1])
    if version is None or len(parts) != 6 or not all(map(PORT.fullmatch, parts[4:])):
        raise MalformedProxyHeader("the PROXY header has another form than PROXY TCP4|TCP6 address address port port")
    try:
        remote, local = (version(part.decode("ascii")).packed for part in parts[2:4])
    except ValueError:
        raise MalformedProxyHeader("the PROXY header has an address that is none of its protocol") from None
    ports = [int(part) for part in parts[4:]]
    if max(ports) > _MAX_PORT:
        raise MalformedProxyHeader("the PROXY header has a port above 65535")
    return ProxiedConnection(_text(remote), ports[0], _text(local), ports[1])


def _text(packed: bytes) -> str:
    """An address as text; one of IPv4 in IPv6 as IPv4, as clients of a dual-stack socket have it."""
    address: IPv4Address | IPv6Address = ip_address(packed)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address)
