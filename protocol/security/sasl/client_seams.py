"""The system as a client's security sees it: files, the clock, nonces, and servers that give tokens."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from headgate.protocol.security.sasl.bearer_sources import TokenRequest
from headgate.protocol.security.sasl.client_tokens import LoginFailed
from headgate.protocol.security.tls.store_files import StoreFiles

TOKEN_TIMEOUT_S: Final = 10.0
"""For the connection to a server of tokens, and for each wait for data."""
MAX_ANSWER_BYTES: Final = 1 << 18


class ClientSeams(NamedTuple):
    """The seams of `ClientSecurity`. `post` sends a request for a token by https, and raises LoginFailed."""

    files: StoreFiles
    now_ms: Callable[[], int]
    new_nonce: Callable[[], str]
    post: Callable[[TokenRequest], bytes]


def system() -> ClientSeams:
    """The real system."""
    return ClientSeams(StoreFiles(), lambda: time.time_ns() // 1_000_000, lambda: secrets.token_urlsafe(24), post)


def post(request: TokenRequest) -> bytes:
    """Ask a server for a token. Redirects are not followed: the credentials are for this server alone."""
    import ssl
    import urllib.error
    import urllib.request
    from http.client import HTTPException

    class NoRedirects(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: object, **__: object) -> None:
            """Return None: the redirect stays an error."""

    https = urllib.request.HTTPSHandler(context=ssl.create_default_context())
    headers = {"Authorization": request.authorization, "Accept": "application/json"}
    asked = urllib.request.Request(request.url, request.form, headers)  # noqa: S310  the settings allow https alone
    try:
        with urllib.request.build_opener(https, NoRedirects()).open(asked, timeout=TOKEN_TIMEOUT_S) as response:
            body: bytes = response.read(MAX_ANSWER_BYTES + 1)
    except urllib.error.HTTPError as error:
        error.close()
        raise LoginFailed(f"{request.url} gives no token: {error.code} {error.reason}") from None
    except (OSError, ValueError, HTTPException) as error:
        raise LoginFailed(f"{request.url} gives no token: {error}") from None
    if len(body) > MAX_ANSWER_BYTES:
        raise LoginFailed(f"{request.url} answers with more than {MAX_ANSWER_BYTES} bytes")
    return body
