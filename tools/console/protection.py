"""Protection of the console from other sites, and of the visitor from what the console shows.

Every request passes here first:

- `Host` on the loopback interface is an address or `localhost`; otherwise 421, as the broker's HTTP listener answers.
- A request of another site's page (`Sec-Fetch-Site`, `Origin`) gets nothing below `/api/`: 403.
- A request that is no GET or HEAD has the visitor's cookie, and the visitor's token in `X-Headgate-CSRF`: else 403.
- A body has at most `BODY_BYTES`, that of a change `CHANGE_BYTES`: 413. It is read after the token was checked, and
  comes within `BODY_S`: 408. That of a change is read after the login, and of at most `MOST_CHANGES` at once: 503.

Every answer forbids scripts, styles and connections of other places, frames, and guessing of types; answers below
`/api/` are not stored.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from headgate.protocol.security.host_header import is_of_this_machine

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from headgate.tools.console.visitors import Visitor, Visitors

BODY_BYTES: Final = 1 << 16
CHANGE_BYTES: Final = 1 << 21
"""Of a change: a message has a mebibyte by default, and its bytes have two digits each."""
MOST_CHANGES: Final = 64
"""Whose bodies are in memory: 128 MiB."""
BODY_S: Final = 30.0
_LENGTH_DIGITS: Final = 18
API: Final = "/api/"
CHANGES: Final = "/api/changes/"
CSRF_HEADER: Final = b"x-headgate-csrf"
COOKIE: Final = "headgate_console"
VISITOR: Final = "headgate.visitor"
"""The key of the visitor in the scope of a request; None without a session."""
_READING: Final = frozenset(("GET", "HEAD"))
_OWN_SITES: Final = frozenset((b"same-origin", b"none"))
_IMPORT_MAP: Final = re.compile(rb'<script type="importmap">(.*?)</script>', re.DOTALL)


class RefusedRequest(NamedTuple):
    """The answer to a request that is not let in."""

    status: int
    sentence: str


FOREIGN_HOST: Final = RefusedRequest(421, "the header Host has to be an address or localhost")
FOREIGN_SITE: Final = RefusedRequest(403, "a page of another site asks; the console answers its own pages")
NO_TOKEN: Final = RefusedRequest(403, "the token of the session is missing in X-Headgate-CSRF; load the page again")
TOO_LARGE: Final = RefusedRequest(413, f"a request has at most {BODY_BYTES} bytes")
LARGE_CHANGE: Final = RefusedRequest(413, f"a change has at most {CHANGE_BYTES >> 20} MiB; larger ones need a program")

NO_LOGIN: Final = RefusedRequest(401, "log in to see the cluster")
BUSY: Final = RefusedRequest(
    503, "too many changes are asked for at once; nothing is changed by this one: try it again"
)
CUT: Final = RefusedRequest(400, "the request ended before its body did")
TOO_SLOW: Final = RefusedRequest(408, f"a request is sent within {BODY_S:.0f} s")


def content_policy(page: bytes) -> str:
    """The Content-Security-Policy for a page: its import map is the only inline script."""
    hashes = [base64.b64encode(hashlib.sha256(text).digest()).decode() for text in _IMPORT_MAP.findall(page)]
    scripts = " ".join(["'self'", *(f"'sha256-{text}'" for text in hashes)])
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'self'; connect-src 'self'; img-src 'self' data:;"
        " font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )


def refusal_of(method: str, path: str, headers: Mapping[bytes, bytes], *, is_secure: bool) -> RefusedRequest | None:
    """The refusal of a request by its head alone. `is_secure`: it came over TLS."""
    if not is_secure and not is_of_this_machine(headers.get(b"host")):
        return FOREIGN_HOST
    is_reading = method in _READING
    if is_reading and not path.startswith(API):
        return None  # a page's address may stand on another site; the page itself asks for what it shows
    if headers.get(b"sec-fetch-site", b"none") not in _OWN_SITES or not _is_own_origin(headers):
        return FOREIGN_SITE
    length = headers.get(b"content-length", b"0")
    limit = body_limit(path)
    if not length.isdigit() or len(length) > _LENGTH_DIGITS or int(length) > limit.size_bytes:
        return limit.refusal
    return None


class BodyLimit(NamedTuple):
    """The largest body of a request, and the answer to a larger one."""

    size_bytes: int
    refusal: RefusedRequest


def body_limit(path: str) -> BodyLimit:
    """The limit of a path."""
    return BodyLimit(CHANGE_BYTES, LARGE_CHANGE) if path.startswith(CHANGES) else BodyLimit(BODY_BYTES, TOO_LARGE)


def _is_own_origin(headers: Mapping[bytes, bytes]) -> bool:
    origin = headers.get(b"origin")
    return origin is None or origin.partition(b"://")[2] == headers.get(b"host")


def has_token(visitor: Visitor | None, headers: Mapping[bytes, bytes]) -> bool:
    """Whether a request carries its visitor's token."""
    given = headers.get(CSRF_HEADER, b"")
    return visitor is not None and secrets.compare_digest(visitor.csrf_token.encode(), given)


def cookie_name(port: int, *, is_secure: bool) -> str:
    """The cookie's name; cookies know no port, so that each console of a host needs its own."""
    return f"{'__Host-' if is_secure else ''}{COOKIE}_{port}"


def cookie_header(name: str, session_id: str, *, is_secure: bool) -> str:
    """The value of `Set-Cookie`; an empty id removes the cookie."""
    attributes = "; Path=/; HttpOnly; SameSite=Strict" + ("; Secure" if is_secure else "")
    return f"{name}={session_id}{attributes}" + ("" if session_id else "; Max-Age=0")


def session_id_of(headers: Mapping[bytes, bytes], name: str) -> str | None:
    """The session in the header `Cookie`."""
    for pair in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        key, _, value = pair.strip().partition("=")
        if key == name:
            return value
    return None


class Protection:
    """The outermost part of the application."""

    def __init__(self, app: ASGIApp, visitors: Visitors, page: bytes) -> None:
        self._app = app
        self._visitors = visitors
        self._policy = content_policy(page)
        self._changes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or let the application answer with safe headers."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        is_secure = scope["scheme"] == "https"
        answer = _Answer(send, self._policy, is_stored=not scope["path"].startswith(API))
        refusal = refusal_of(scope["method"], scope["path"], headers, is_secure=is_secure)
        if refusal is None:
            name = cookie_name(scope["server"][1], is_secure=is_secure)
            visitor = scope[VISITOR] = self._visitors.find(session_id_of(headers, name))
            if scope["method"] not in _READING and not has_token(visitor, headers):
                refusal = NO_TOKEN
        if refusal is not None:
            await answer.refuse(refusal)
            return
        if scope["method"] in _READING:
            await self._app(scope, receive, answer)
        elif not scope["path"].startswith(CHANGES):
            await self._answer_with_body(scope, receive, answer)
        elif scope[VISITOR].security is None:
            await answer.refuse(NO_LOGIN)
        elif self._changes >= MOST_CHANGES:
            await answer.refuse(BUSY)
        else:
            self._changes += 1
            try:
                await self._answer_with_body(scope, receive, answer)
            finally:
                self._changes -= 1

    async def _answer_with_body(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        body = await _read(receive, body_limit(scope["path"]))
        if isinstance(body, RefusedRequest):
            await answer.refuse(body)
            return
        await self._app(scope, _replay(body, receive), answer)


async def _read(receive: Receive, limit: BodyLimit) -> bytes | RefusedRequest:
    """The body of a request, or its refusal."""
    body = bytearray()
    with trio.move_on_after(BODY_S):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return CUT
            body += message.get("body", b"")
            if len(body) > limit.size_bytes:
                return limit.refusal
            if not message.get("more_body", False):
                return bytes(body)
    return TOO_SLOW


def _replay(body: bytes, receive: Receive) -> Receive:
    """Receive a body that was read, and then what comes after it."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_next() -> Message:
        return messages.pop() if messages else await receive()

    return receive_next


class _Answer:
    """Sends an answer with safe headers."""

    def __init__(self, send: Send, policy: str, *, is_stored: bool) -> None:
        self._send = send
        self._headers = [
            (b"content-security-policy", policy.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"cross-origin-opener-policy", b"same-origin"),
            (b"cross-origin-resource-policy", b"same-origin"),
            (b"cache-control", b"no-cache" if is_stored else b"no-store"),
        ]

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            ours = {name for name, _ in self._headers}
            theirs = [(name, value) for name, value in message.get("headers", ()) if name.lower() not in ours]
            message = {**message, "headers": [*theirs, *self._headers]}
        await self._send(message)

    async def refuse(self, refusal: RefusedRequest) -> None:
        body = json.dumps({"error": refusal.sentence}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await self({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await self({"type": "http.response.body", "body": body})
