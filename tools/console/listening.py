"""The addresses of the console: `http://host:port` on the loopback interface, `https://host:port` anywhere."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import urlsplit

DEFAULT_ADDRESS: Final = "http://127.0.0.1:9080"
DEFAULT_PORT: Final = 9080
BACKLOG: Final = 64


class BadAddress(ValueError):
    """An address cannot be listened on; the text says what to write."""


class ConsoleAddress(NamedTuple):
    """One address of the console; port 0 means a free port."""

    host: str
    port: int
    has_tls: bool

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.has_tls else 'http'}://{host}:{self.port}"


def parse(text: str) -> ConsoleAddress:
    """Raises BadAddress."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    if parts.scheme not in {"http", "https"} or not host or parts.path not in {"", "/"} or parts.username is not None:
        raise BadAddress(f"{text!r} is not http://host:port or https://host:port, as in {DEFAULT_ADDRESS}")
    address = ConsoleAddress(host, DEFAULT_PORT if port is None else port, parts.scheme == "https")
    if not (address.has_tls or is_loopback(host)):
        raise BadAddress(
            f"{text!r} is reached from other machines, so it needs TLS: write https:// with --listen-config, or"
            " http://127.0.0.1"
        )
    return address


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(address: ConsoleAddress) -> socket.socket:
    """A socket that listens. Raises BadAddress."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadAddress(f"cannot listen at {address} ({reason}); name another address: --listen") from None


def inherited(descriptor: int) -> socket.socket:
    """A socket that listens already, by its descriptor. Raises BadAddress."""
    try:
        return socket.socket(fileno=descriptor)
    except OSError as error:
        raise BadAddress(f"the descriptor {descriptor} is no socket: {error.strerror}") from None
