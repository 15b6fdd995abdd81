"""OAUTHBEARER (RFC 7628), the server's side, as Kafka's `OAuthBearerSaslServer`.

One token of the client, its parts separated by the byte 1:

    n,[a=NAME],^A auth=Bearer TOKEN ^A [extension=VALUE ^A ...] ^A

A refused bearer token gets a challenge, a JSON object with the status; the client answers with one byte 1, and fails.
"""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple, Protocol

from headgate.gateway.security.sasl.exchange import (
    Authenticated,
    AuthenticationFailed,
    Challenge,
    SaslComputation,
    SaslStep,
    refused,
)

MAX_TOKEN_LENGTH: Final = 1 << 16
_ACKNOWLEDGEMENT: Final = b"\x01"
_NAME: Final = rb"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_INITIAL_RESPONSE: Final = re.compile(
    rb"n,(?:a=(?P<authzid>" + _NAME + rb"))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_AUTH: Final = re.compile(rb"(?P<scheme>[A-Za-z0-9_]+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")


class ValidatedToken(NamedTuple):
    """The name of the principal of a bearer token, and the end of the token's life."""

    name: str
    expires_at_ms: int


class InvalidToken(Exception):
    """A bearer token was refused. The text is the reason for the log, without any part of the token.

    `status` and `scope` are for the client (RFC 7628, 3.2.2).
    """

    def __init__(self, reason: str, *, status: str = "invalid_token", scope: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.scope = scope

    @property
    def response(self) -> str:
        """The JSON object for the client, as Kafka writes it."""
        scope = "" if self.scope is None else f', "scope":{json.dumps(self.scope)}'
        return f'{{"status":{json.dumps(self.status)}{scope}}}'


class TokenValidator(Protocol):
    """The check of bearer tokens. `is_slow`: a thread has to call `validate`."""

    @property
    def is_slow(self) -> bool: ...

    def validate(self, token: str) -> ValidatedToken:
        """Check a bearer token of at most `MAX_TOKEN_LENGTH` characters. Raises InvalidToken."""


class InitialResponse(NamedTuple):
    """The token of a client: the bearer token, and the authorization id or an empty text."""

    authorization_id: str
    bearer_token: str


class OAuthBearerExchange:
    """One login by OAUTHBEARER."""

    def __init__(self, validator: TokenValidator) -> None:
        self._validator = validator
        self._refusal: InvalidToken | None = None

    def step(self, token: bytes) -> SaslStep:
        """Take the initial response, or the acknowledgement of a refusal. Raises AuthenticationFailed."""
        refusal, self._refusal = self._refusal, None
        if refusal is not None and token == _ACKNOWLEDGEMENT:
            raise AuthenticationFailed(str(refusal), client_message=refusal.response)
        response = read_initial_response(token)
        if self._validator.is_slow:
            return SaslComputation(lambda: self._decide(response))
        return self._decide(response)

    def _decide(self, response: InitialResponse) -> Challenge | Authenticated:
        try:
            name, expires_at_ms = self._validator.validate(response.bearer_token)
        except InvalidToken as error:
            self._refusal = error
            return Challenge(error.response.encode())
        if response.authorization_id not in {"", name}:
            raise refused(
                f"Authentication failed: Client requested an authorization id ({response.authorization_id}) that is "
                f"different from the token's principal name ({name})"
            )
        return Authenticated(name, expires_at_ms=expires_at_ms)


def read_initial_response(message: bytes) -> InitialResponse:
    """Read the token of a client. Raises AuthenticationFailed, without any part of the bearer token."""
    match = _INITIAL_RESPONSE.fullmatch(message)
    if match is None:
        raise AuthenticationFailed("Invalid OAUTHBEARER client first message")
    pairs = dict(pair.split(b"=", 1) for pair in match["pairs"].split(b"\x01")[:-1])
    if b"auth" not in pairs:
        raise AuthenticationFailed("Invalid OAUTHBEARER client first message: 'auth' not specified")
    auth = _AUTH.fullmatch(pairs[b"auth"])
    if auth is None or auth["scheme"].lower() != b"bearer":
        raise AuthenticationFailed("Invalid OAUTHBEARER client first message: invalid 'auth' format")
    if len(auth["token"]) > MAX_TOKEN_LENGTH:
        raise AuthenticationFailed(f"a bearer token is longer than {MAX_TOKEN_LENGTH} characters")
    return InitialResponse((match["authzid"] or b"").decode(), auth["token"].decode())
