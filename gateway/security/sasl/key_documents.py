"""Fetches documents with the keys of bearer tokens, from a file or by https. Threads call these functions."""

from __future__ import annotations

import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from typing import IO, Any, Final, Self
from urllib.parse import unquote, urlsplit
from urllib.request import Request

from headgate.gateway.security.sasl.jwks import MAX_DOCUMENT_BYTES, FetchFailed

TIMEOUT_S: Final = 10.0
"""For the whole fetch, redirects included: a server that sends a byte at a time would hold a login otherwise."""


def fetcher(url: str) -> Callable[[], bytes]:
    """The function that fetches the document of a URL, `file:///...` or `https://...`. It raises FetchFailed."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return partial(_read_file, unquote(parts.path))
    return partial(_request, url)


def _read_file(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return _limited(file)
    except OSError as error:
        raise FetchFailed(f"{path} cannot be read: {error.strerror}") from None


def _request(url: str) -> bytes:
    with _Deadline(TIMEOUT_S) as deadline:
        opener = urllib.request.build_opener(_Handler(deadline), _Redirects)
        try:
            with opener.open(url, timeout=TIMEOUT_S) as response:
                document = _limited(response)
        except urllib.error.HTTPError as error:
            error.close()
            raise FetchFailed(f"{url} answers {error.code} {error.reason}") from None
        except (OSError, ValueError, HTTPException) as error:
            reason = f"it took longer than {TIMEOUT_S:g} s" if deadline.is_over else error
            raise FetchFailed(f"{url} cannot be fetched: {reason}") from None
        if deadline.is_over:  # a response without a length looks whole when its socket ends
            raise FetchFailed(f"{url} cannot be fetched: it took longer than {TIMEOUT_S:g} s")
        return document


def _limited(source: IO[bytes]) -> bytes:
    document = source.read(MAX_DOCUMENT_BYTES + 1)
    if len(document) > MAX_DOCUMENT_BYTES:
        raise FetchFailed(f"the document has more than {MAX_DOCUMENT_BYTES} bytes")
    return document


class _Deadline:
    """Ends the connections that were opened within it, after a time."""

    def __init__(self, timeout_s: float) -> None:
        self.is_over = False
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(timeout_s, self._expire)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            for sock in self._sockets:
                sock.close()
            self._sockets.clear()

    def connect(self, *arguments: Any, **options: Any) -> socket.socket:
        """As `socket.create_connection`."""
        sock = socket.create_connection(*arguments, **options)
        with self._lock:
            self._sockets.append(sock.dup())  # TLS takes the first one over
            if self.is_over:
                self._shut_down()
        return sock

    def _expire(self) -> None:
        with self._lock:
            self.is_over = True
            self._shut_down()

    def _shut_down(self) -> None:
        for sock in self._sockets:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


class _Handler(urllib.request.HTTPSHandler):
    """Opens connections that a deadline ends."""

    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def https_open(self, req: Request) -> HTTPResponse:
        def connection(*arguments: Any, **options: Any) -> HTTPSConnection:
            made = HTTPSConnection(*arguments, context=ssl.create_default_context(), **options)
            # There is no public way between the connection and TLS
            made._create_connection = self._deadline.connect  # type: ignore[attr-defined]  # noqa: SLF001
            return made

        return self.do_open(connection, req)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to https alone."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:
        if urlsplit(newurl).scheme != "https":
            raise FetchFailed(f"{req.full_url} redirects to {urlsplit(newurl).scheme}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
