"""Fetches documents with the keys of bearer tokens, from a file or by https. Threads call these functions."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from http.client import HTTPException
from typing import IO, Any, Final
from urllib.parse import unquote, urlsplit
from urllib.request import Request

from headgate.gateway.security.sasl.jwks import MAX_DOCUMENT_BYTES, FetchFailed

TIMEOUT_S: Final = 10.0
"""For the connection, and for each wait for data."""


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
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=ssl.create_default_context()), _Redirects)
    try:
        with opener.open(url, timeout=TIMEOUT_S) as response:
            return _limited(response)
    except urllib.error.HTTPError as error:
        error.close()
        raise FetchFailed(f"{url} answers {error.code} {error.reason}") from None
    except (OSError, ValueError, HTTPException) as error:
        raise FetchFailed(f"{url} cannot be fetched: {error}") from None


def _limited(source: IO[bytes]) -> bytes:
    document = source.read(MAX_DOCUMENT_BYTES + 1)
    if len(document) > MAX_DOCUMENT_BYTES:
        raise FetchFailed(f"the document has more than {MAX_DOCUMENT_BYTES} bytes")
    return document


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to https alone."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:
        if urlsplit(newurl).scheme != "https":
            raise FetchFailed(f"{req.full_url} redirects to {urlsplit(newurl).scheme}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
