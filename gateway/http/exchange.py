"""One HTTP/1.1 exchange without a socket: the bytes of a peer become a request or a refusal, an answer becomes bytes.

A peer sends one GET or HEAD with a head of at most `HEAD_BYTES`; the connection ends after the answer. Every sequence
of bytes is a request, a refusal with a status and a sentence, or the beginning of one; in which portions they come
makes no difference. `h11` knows the protocol (RFC 9112), the limits are those of this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final, NamedTuple

import h11

HEAD_BYTES: Final = 8_192
METHODS: Final = ("GET", "HEAD")
_TLS_HANDSHAKE: Final = 0x16
_PRODUCT: Final = ("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"), ("Connection", "close")

Headers = Sequence[tuple[bytes, bytes]]


class Request(NamedTuple):
    """A request. `path` has no query; names of `headers` are in lower case."""

    method: str
    path: str
    headers: Headers

    def header(self, name: bytes) -> bytes | None:
        """The value of the first header with this name, which is in lower case."""
        return next((value for each, value in self.headers if each == name), None)


class Refusal(NamedTuple):
    """The reason why a peer gets nothing else: a status, a sentence, and more headers of the answer."""

    status: int
    sentence: str
    headers: tuple[tuple[str, str], ...] = ()


LATE: Final = Refusal(
    HTTPStatus.REQUEST_TIMEOUT, "the head of a request did not end in time; send it at once, and ask again"
)
_TOO_LONG: Final = Refusal(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the head of a request has at most {HEAD_BYTES} bytes"
)
_NOTHING: Final = Refusal(HTTPStatus.BAD_REQUEST, "the connection ended without a request")
NEEDS_TLS: Final = Refusal(
    HTTPStatus.BAD_REQUEST, "this listener speaks HTTP over TLS; write https:// in place of http://"
)
_TLS: Final = Refusal(
    HTTPStatus.BAD_REQUEST, "this listener speaks HTTP without TLS; write http:// in place of https://"
)

FAULT: Final = Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "the answer cannot be made; the broker's log has the reason")
FOREIGN_HOST: Final = Refusal(
    HTTPStatus.MISDIRECTED_REQUEST,
    "the header Host has to be localhost or an address, as pages of other sites have names; ask 127.0.0.1",
)


def not_found(path: str) -> Refusal:
    """The refusal of a path without a resource."""
    return Refusal(HTTPStatus.NOT_FOUND, f"there is nothing at {path[:100]}; the list of what is served is at /")


class HttpExchange:
    """The exchange with one peer. `receive` until it returns something, then the answer: `head`, `data`, `end`."""

    def __init__(self) -> None:
        self._connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
        self._received_bytes = 0

    def receive(self, data: bytes | bytearray) -> Request | Refusal | None:
        """Take bytes of the peer, or b"" at their end. None: the head has not ended yet."""
        if not self._received_bytes and (not data or data[0] == _TLS_HANDSHAKE):
            return _TLS if data else _NOTHING
        taken = data[: HEAD_BYTES - self._received_bytes]
        self._received_bytes += len(taken)
        try:
            if taken or not data:
                self._connection.receive_data(bytes(taken))
            event = self._connection.next_event()
        except h11.RemoteProtocolError as error:
            return _refusal_of(error)
        if isinstance(event, h11.Request):
            return _request(event)
        return _TOO_LONG if self._received_bytes >= HEAD_BYTES else None

    def head(self, status: int, headers: Sequence[tuple[str, str]], length: int | None) -> bytes:
        """The head of the answer; without a length, the framing has the end of the body."""
        framing = [("Transfer-Encoding", "chunked")] if length is None else [("Content-Length", str(length))]
        reason = HTTPStatus(status).phrase.encode()
        return self._send(h11.Response(status_code=status, reason=reason, headers=[*headers, *framing, *_PRODUCT]))

    def data(self, data: bytes) -> bytes:
        """A part of the body. There is none in an answer to HEAD."""
        return self._send(h11.Data(data=data))

    def end(self) -> bytes:
        """The end of the answer."""
        return self._send(h11.EndOfMessage())

    def refusal(self, refusal: Refusal, content_type: str, body: bytes, *, is_head: bool = False) -> bytes:
        """The whole answer of a refusal."""
        head = self.head(refusal.status, [("Content-Type", content_type), *refusal.headers], len(body))
        return head if is_head else head + self.data(body) + self.end()

    def _send(self, event: h11.Event) -> bytes:
        return self._connection.send(event) or b""


def _request(event: h11.Request) -> Request | Refusal:
    if not event.http_version.startswith(b"1."):
        return Refusal(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "HTTP/1.1 is served here, and no other version")
    method = event.method.decode("ascii")
    if method not in METHODS:
        return Refusal(
            HTTPStatus.METHOD_NOT_ALLOWED,
            f"{method[:20]} is not served here, GET and HEAD are",
            (("Allow", ", ".join(METHODS)),),
        )
    path = _path(event.target.decode("ascii"))
    if path is None:
        return Refusal(HTTPStatus.BAD_REQUEST, "the target of a request is a path that begins with /")
    return Request(method, path, list(event.headers))


def _path(target: str) -> str | None:
    """The path of a target, in each form that a GET may have (RFC 9112, section 3.2); None for another one."""
    if not target.startswith("/"):
        scheme, _, rest = target.partition("://")
        if scheme.lower() not in {"http", "https"}:
            return None
        target = "/" + rest.partition("/")[2]
    return target.partition("?")[0].partition("#")[0]


def _refusal_of(error: h11.RemoteProtocolError) -> Refusal:
    """What a peer did wrong. The rest of h11's sentence has bytes of the peer, a password perhaps."""
    fault = str(error).partition(":")[0].lower()
    return Refusal(error.error_status_hint, f"this is no request of HTTP/1.1 that can be served: {fault}")
