"""TLS for tests of the network: a listener's settings, and the context of a client that trusts it."""

from __future__ import annotations

import select
import socket
import ssl
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, cast

from headgate.gateway.security.tls.listener_tls import ListenerTls
from headgate.protocol.security.tls.tests.certificates import Authority

AUTHORITY = Authority()
HOST = "localhost"


class FakeListenerTls(NamedTuple):
    """What the network asks of a listener's TLS."""

    context: ssl.SSLContext
    is_optional: bool = False
    security_protocol: str = "SSL"

    def principal_of(self, certificate: bytes | None) -> str:
        return "User:ANONYMOUS" if certificate is None else f"User:{len(certificate)} bytes"


def new_context(purpose: ssl.Purpose, authority: Authority = AUTHORITY, name: str = "") -> ssl.SSLContext:
    """A context that trusts the authority of the tests, with a certificate of `authority` if there is a name."""
    context = ssl.create_default_context(purpose, cadata=AUTHORITY.pem())
    if name:
        with TemporaryDirectory() as directory:
            file = Path(directory) / "key-store.pem"
            file.write_text(authority.issue(name).pem())
            context.load_cert_chain(file)
    return context


def listener_tls_of(
    context: ssl.SSLContext, *, is_optional: bool = False, security_protocol: str = "SSL"
) -> ListenerTls:
    return cast("ListenerTls", FakeListenerTls(context, is_optional, security_protocol))


@cache
def listener_tls(*, is_optional: bool = False, security_protocol: str = "SSL") -> ListenerTls:
    """Without session tickets: a client that has not read them resets the connection when it closes."""
    context = new_context(ssl.Purpose.CLIENT_AUTH, name="broker")
    context.num_tickets = 0
    context.options |= ssl.OP_IGNORE_UNEXPECTED_EOF
    return listener_tls_of(context, is_optional=is_optional, security_protocol=security_protocol)


@cache
def client_context() -> ssl.SSLContext:
    return new_context(ssl.Purpose.SERVER_AUTH)


def wait_for_bytes(sock: socket.socket, count: int) -> None:
    """Wait until loopback has delivered so many bytes, as the kernel counts them."""
    held, end = 0, time.monotonic() + 5
    while held < count:
        assert time.monotonic() < end, f"{held} of {count} bytes have arrived"
        select.select([sock], (), (), 0.2)
        with suppress(BlockingIOError):
            held = len(socket.socket.recv(sock, 1 << 20, socket.MSG_PEEK))
