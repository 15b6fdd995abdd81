"""Detection of clients that speak another protocol on a Kafka port, and answers in their own protocol.

A Kafka connection begins with the size of a frame. The first four bytes of a TLS hello, of an HTTP request or of one of
ZooKeeper's four-letter words are also sizes, of 369 megabytes and more. Detection runs only after such a size is
refused, so that no Kafka client can be mistaken, whatever the size limit.

Sources: RFC 8446 (alerts, section 6; records, 5.1), RFC 9112 (HTTP/1.1), RFC 9113 (HTTP/2: preface, section 3.4;
GOAWAY, 6.8), ZooKeeper's administrator's guide (four-letter words).
"""

import struct
from typing import NamedTuple

from headgate.gateway.network.admission.proxy_header import BEGINNINGS

_SENTENCE = "This is a Kafka listener (Headgate); it does not speak {}. Connect with a Kafka client.\n"

_HTTP_METHODS = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC")
_HTTP_2 = b"PRI "
_ZOOKEEPER_WORDS = frozenset(
    b"""conf cons crst dirs dump envi gtmk hash isro lead lsnp mntr obsr orst rest ruok snap srst srvr stat stmk
    sysp wchc wchp wchs""".split()
)

UNTRUSTED_PROXY = (
    "it sent a PROXY header, and its address is not in headgate.proxy.trusted: add the proxy's network, or have the"
    " proxy send none"
)

_TLS_HANDSHAKE, _TLS_ALERT, _TLS_MAJOR = 22, 21, 3
_FATAL, _HANDSHAKE_FAILURE = 2, 40
_HTTP_2_SETTINGS, _HTTP_2_GOAWAY, _HTTP_2_PROTOCOL_ERROR = 4, 7, 1


class ForeignProtocol(NamedTuple):
    """A detected protocol: the reason for the log, and an answer that the client understands."""

    reason: str
    answer: bytes


def detect(size: int) -> ForeignProtocol | None:
    """Detect a protocol by the first four bytes, given as a frame size; None if unknown."""
    beginning = struct.pack(">i", size)
    if beginning[0] == _TLS_HANDSHAKE and beginning[1] == _TLS_MAJOR:
        return ForeignProtocol(
            "the client speaks TLS, which this listener does not: "
            "set security.protocol=PLAINTEXT in the client (SASL_PLAINTEXT for a login)",
            _tls_alert(beginning[2]),
        )
    if beginning in _HTTP_METHODS:
        return ForeignProtocol("the client sent an HTTP request: this is a Kafka listener", _http_response(beginning))
    if beginning == _HTTP_2:
        return ForeignProtocol("the client sent the preface of HTTP/2: this is a Kafka listener", _http_2_goaway())
    if beginning in BEGINNINGS:
        return ForeignProtocol(UNTRUSTED_PROXY, b"")
    if beginning in _ZOOKEEPER_WORDS:
        word = beginning.decode()
        reason = f"the client sent ZooKeeper's command {word!r}: this is a Kafka listener, not a ZooKeeper server"
        return ForeignProtocol(reason, _SENTENCE.format("to ZooKeeper's clients").encode())
    return None


def _tls_alert(minor: int) -> bytes:
    """A fatal handshake_failure alert, in a record of the version of the client's hello."""
    return bytes((_TLS_ALERT, _TLS_MAJOR, minor, 0, 2, _FATAL, _HANDSHAKE_FAILURE))


def _http_response(method: bytes) -> bytes:
    body = _SENTENCE.format("HTTP").encode()
    head = (
        "HTTP/1.1 400 Bad Request\r\n"
        "Content-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    ).encode()
    return head if method == b"HEAD" else head + body


def _http_2_goaway() -> bytes:
    """The server's preface (its settings), then a GOAWAY with a sentence as debug data."""
    last_stream = 0
    payload = struct.pack(">II", last_stream, _HTTP_2_PROTOCOL_ERROR) + _SENTENCE.format("HTTP").encode()
    return _http_2_frame(_HTTP_2_SETTINGS, b"") + _http_2_frame(_HTTP_2_GOAWAY, payload)


def _http_2_frame(kind: int, payload: bytes) -> bytes:
    no_flags, connection = 0, 0
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, no_flags, connection) + payload
