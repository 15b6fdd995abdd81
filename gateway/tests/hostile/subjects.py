"""What reads bytes of clients that are not known yet, as subjects of `fuzz.py`.

A subject takes any bytes. What it raises is a finding: the one exception of each for wrong bytes is caught here.
`protocol/tests/hostile` has the readers of messages.
"""

from __future__ import annotations

import base64
import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from headgate.gateway.http.access import read_password
from headgate.gateway.http.exchange import HttpExchange, Refusal, Request
from headgate.gateway.network.admission.proxy_header import SIGNATURE, MalformedProxyHeader, ProxyHeaderReader
from headgate.gateway.network.tests.test_connection import feed
from headgate.gateway.network.tests.test_logins import Broker, choose, name_alice, name_wrongly, recorded
from headgate.gateway.security.sasl import jwks
from headgate.gateway.security.sasl.bearer_tokens import SignedTokens, TokenRules
from headgate.gateway.security.sasl.oauthbearer import InvalidToken
from headgate.gateway.security.sasl.tests.exchanges import NOW_S
from headgate.gateway.security.sasl.tests.sasl_scenario import SASL, SHORT, bearer
from headgate.gateway.security.sasl.tests.test_bearer_tokens import Keys, jwk, signed, unsigned
from headgate.gateway.security.tls import distinguished_name
from headgate.protocol.security.host_header import is_of_this_machine
from headgate.protocol.security.tls.tests.certificates import Authority

LISTENERS: Final = (SASL, SHORT)
KNOWN: Final = {"User:ANONYMOUS", "User:alice", "User:bob", "User:a", "User:ann"}
MOST_BYTES: Final = 600


class Subject(NamedTuple):
    """`read` raises for a finding alone; `good` are inputs to begin with."""

    read: Callable[[bytes], None]
    good: Sequence[bytes]


def read_header(data: bytes) -> None:
    """A PROXY header in portions of the size that the first byte says: as in one."""
    step, rest = 1 + data[0] % 16 if data else 1, data[1:]
    assert _header(rest, step) == _header(rest, 1 << 16)


def _header(data: bytes, step: int) -> object:
    reader = ProxyHeaderReader()
    try:
        while data and not reader.is_done:
            part = data[: min(step, reader.wanted)]
            reader.feed(part)
            data = data[len(part) :]
    except MalformedProxyHeader:
        return MalformedProxyHeader
    return reader.is_done, reader.connection, data


def serve(data: bytes) -> None:
    """A connection whose client has to log in; two bytes say the listener, the portions, and the wait between them."""
    options, step, rest = (*data[:1], 0)[0], 1 + (*data[1:2], 255)[0], data[2:]
    broker = Broker()
    peer = broker.connect(LISTENERS[options % 2])
    for start in range(0, len(rest), step):
        feed(peer.connection, rest[start : start + step])
        peer.wait(1_500 if options & 2 else 0)
        peer.connection.outgoing.clear()
        peer.connection.proceed()
        if peer.connection.closing:
            break
    peer.wait(60_000)
    assert peer.principal in KNOWN, peer.principal
    peer.connection.finish()


def validate(data: bytes) -> None:
    """A bearer token: nobody but the owner of the key makes a valid one."""
    text = data.decode("latin-1")
    with suppress(InvalidToken):
        SignedTokens(_KEYS, TokenRules(), lambda: NOW_S * 1000).validate(text)
        assert text in _SIGNED, "a token that nobody has signed is valid"


def read_keys(data: bytes) -> None:
    with suppress(jwks.InvalidKeySet):
        jwks.parse(data)


def read_name(data: bytes) -> None:
    with suppress(distinguished_name.MalformedName):
        distinguished_name.subject_of(data)


def exchange(data: bytes) -> None:
    """An HTTP request in portions of the size that the first byte says: as in one."""
    step, rest = 1 + (*data[:1], 0)[0], data[1:]
    result = _receive(rest, step)
    whole = _receive(rest, 1 << 16)
    assert result == whole or (isinstance(result, Refusal) and isinstance(whole, Refusal)), (result, whole)
    assert result is not None
    if isinstance(result, Request):
        read_password(result.header(b"authorization") or b"")
        is_of_this_machine(result.header(b"host"))


def _receive(data: bytes, step: int) -> Request | Refusal | None:
    http = HttpExchange()
    for start in range(0, len(data), step):
        result = http.receive(data[start : start + step])
        if result is not None:
            return result
    return http.receive(b"")


_KEYS: Final = Keys(jwk("RS256", kid="one"), jwk("ES256", kid="two"))
_SIGNED: Final = (signed(), signed(kid="one"))
_BLOCK: Final = SIGNATURE + struct.pack(">BBH", 0x21, 0x11, 12) + socket.inet_aton("192.0.2.1") * 2 + bytes(4)

SUBJECTS: Final[dict[str, Subject]] = {
    "PROXY header": Subject(read_header, [b"\0PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", b"\7" + _BLOCK + b"rest"]),
    "connection": Subject(
        serve,
        [
            b"\0\xff" + recorded(choose, name_alice),
            b"\1\x05" + recorded(choose, name_alice, choose, name_wrongly),
            b"\2\xff"
            + recorded(
                lambda client: client.handshake("SCRAM-SHA-256"), lambda client: client.token(b"n,,n=alice,r=x")
            ),
            b"\0\xff"
            + recorded(
                lambda client: client.handshake("OAUTHBEARER"), lambda client: client.token(bearer({"sub": "a"}))
            ),
            b"\3\xff" + recorded(lambda client: client.handshake("PLAIN", 0)) + b"\0\0\0\4\0a\0b",
        ],
    ),
    "bearer token": Subject(validate, [*(text.encode() for text in _SIGNED), unsigned({"sub": "a"}).encode()]),
    "key set": Subject(read_keys, [b'{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB","kid":"one"}]}']),
    "certificate": Subject(read_name, [Authority().issue("client").der]),
    "HTTP request": Subject(
        exchange,
        [b"\7GET / HTTP/1.1\r\nHost: [::1]:1\r\nAuthorization: Basic " + base64.b64encode(b"a:b") + b"\r\n\r\n"],
    ),
}
