"""Where a client of OAUTHBEARER takes its token from; each `BearerSource` may read a file or ask a server.

- the option `token` of the JAAS line,
- a file, `sasl.oauthbearer.token.endpoint.url=file:///...`: read at each login, as programs of a cluster replace it,
- `https://...`: client credentials (RFC 6749, 4.4), kept until four fifths of the token's life have passed,
- options `unsecuredLogin...`: a token without a signature, for tests.

Source: Kafka's `OAuthBearerLoginCallbackHandler` and `OAuthBearerUnsecuredLoginCallbackHandler`.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, quote_plus, unquote, urlencode, urlsplit

from headgate.protocol.security.sasl.client_tokens import LoginFailed
from headgate.protocol.security.secret import Secret

MAX_TOKEN_LENGTH: Final = 1 << 16
TOKEN: Final = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")
_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_PREFIX: Final = "unsecuredLogin"
_CLAIM: Final = re.compile(r"unsecuredLogin(String|Number|List)Claim_(.+)")
_DEFAULT_LIFETIME_S: Final = 3600
_DEFAULT_TOKEN_LIFE_S: Final = 300

BearerSource = Callable[[], Secret]
"""Gives the token for a login; may take long. Raises LoginFailed."""


class TokenRequest(NamedTuple):
    """A request for a token: an address, its form, and the client's credentials as a header. No text has them."""

    url: str
    form: bytes
    authorization: str

    def __repr__(self) -> str:
        return f"TokenRequest({self.url})"


class TokenSourceParts(NamedTuple):
    """What sources need of the system: `read` a file, `post` a request for a token, the wall clock.

    `read` raises OSError; `post` returns a JSON object, and raises LoginFailed.
    """

    read: Callable[[str], bytes]
    post: Callable[[TokenRequest], bytes]
    now_ms: Callable[[], int]


class InvalidSource(ValueError):
    """Settings name no source of tokens, or several. The text has no secret."""


def source_of(options: Mapping[str, str], settings: Mapping[str, str], parts: TokenSourceParts) -> BearerSource:
    """The source that JAAS options and the settings `sasl.oauthbearer.*` name. Raises InvalidSource."""
    url = settings.get(_URL, "")
    is_unsecured = any(name.startswith(_PREFIX) for name in options)
    sources = (("token", "token" in options), (_URL, url), (f"{_PREFIX}...", is_unsecured))
    named = [name for name, is_named in sources if is_named]
    if len(named) != 1:
        wanted = f'the option token="..." of sasl.jaas.config, {_URL}, or for tests {_PREFIX}StringClaim_sub="NAME"'
        raise InvalidSource(f"OAUTHBEARER has {' and '.join(named) or 'no token'}; set one of: {wanted}")
    if "token" in options:
        return lambda: _checked(options["token"], "the option token of sasl.jaas.config")
    if is_unsecured:
        claims = _claims(options)
        return lambda: _unsecured(claims, parts.now_ms() // 1000)
    scheme = urlsplit(url).scheme
    if scheme == "file":
        return lambda: _token_of_file(unquote(urlsplit(url).path), parts.read)
    if scheme == "https":
        return _ClientCredentials(_token_request(url, options, settings), parts)
    raise InvalidSource(f"{_URL}={url[:200]}: write https://... or file:///...")


def _checked(token: str, origin: str) -> Secret:
    if not TOKEN.fullmatch(token) or len(token) > MAX_TOKEN_LENGTH:
        raise LoginFailed(f"{origin} is no bearer token: at most {MAX_TOKEN_LENGTH} letters, digits and -_~+/.")
    return Secret(token)


def _token_of_file(path: str, read: Callable[[str], bytes]) -> Secret:
    try:
        content = read(path)
    except (OSError, ValueError) as error:
        raise LoginFailed(f"{_URL}: {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return _checked(content.decode("latin-1").strip(), f"the content of {path}")


# --------------------------------------------------------------------------------------------------------- unsecured


def _claims(options: Mapping[str, str]) -> dict[str, Any]:
    claims: dict[str, Any] = {}
    for name, text in options.items():
        match = _CLAIM.fullmatch(name)
        if match is not None:
            claims[match[2]] = _claim(name, match[1], text)
    name_claim = options.get(f"{_PREFIX}PrincipalClaimName", "sub")
    if not isinstance(claims.get(name_claim), str):
        raise InvalidSource(f'sasl.jaas.config has no {_PREFIX}StringClaim_{name_claim}="NAME"')
    claims["exp"] = _whole_number(f"{_PREFIX}LifetimeSeconds", options.get(f"{_PREFIX}LifetimeSeconds", ""))
    return claims


def _claim(name: str, kind: str, text: str) -> Any:
    if kind == "String":
        return text
    if kind == "List":  # the first character separates the items, unless it is a part of the first one
        return text[1:].split(text[0]) if text and not (text[0].isalnum() or text[0] in "_$") else [text]
    try:
        return int(text) if text.lstrip("-").isdecimal() else float(text)
    except ValueError:
        raise InvalidSource(f"the option {name} of sasl.jaas.config is no number") from None


def _whole_number(name: str, text: str) -> int:
    if not text:
        return _DEFAULT_LIFETIME_S
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 10):
        raise InvalidSource(f"the option {name} of sasl.jaas.config is no whole number")
    return int(text)


def _unsecured(claims: Mapping[str, Any], now_s: int) -> Secret:
    whole = {**claims, "iat": now_s, "exp": now_s + claims["exp"]}
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()) for part in ({"alg": "none"}, whole))
    return Secret("".join(f"{part.decode().rstrip('=')}." for part in parts))


# ------------------------------------------------------------------------------------------------ client credentials


class _ClientCredentials:
    """Asks a server for a token, and keeps the token for most of its life."""

    def __init__(self, request: TokenRequest, parts: TokenSourceParts) -> None:
        self._request = request
        self._parts = parts
        self._token: Secret | None = None
        self._ask_at_ms = 0

    def __call__(self) -> Secret:
        now_ms = self._parts.now_ms()
        if self._token is None or now_ms >= self._ask_at_ms:
            self._token, life_s = _read_answer(self._request.url, self._parts.post(self._request))
            self._ask_at_ms = now_ms + life_s * 800
        return self._token


def _token_request(url: str, options: Mapping[str, str], settings: Mapping[str, str]) -> TokenRequest:
    """Kafka's settings of 4.1 and later, else the options of its JAAS line."""
    prefix = "sasl.oauthbearer.client.credentials.client"
    client = settings.get(f"{prefix}.id") or options.get("clientId")
    secret = settings.get(f"{prefix}.secret") or options.get("clientSecret")
    if not client or not secret:
        raise InvalidSource(f"{_URL} needs {prefix}.id and {prefix}.secret; set both, or write file:///... for a token")
    scope = settings.get("sasl.oauthbearer.scope") or options.get("scope")
    if settings.get("sasl.oauthbearer.header.urlencode", "false").lower() == "true":
        client, secret = quote_plus(client), quote_plus(secret)
    basic = base64.b64encode(f"{client}:{secret}".encode()).decode()
    form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
    return TokenRequest(url, urlencode(form, quote_via=quote).encode(), f"Basic {basic}")


def _read_answer(url: str, body: bytes) -> tuple[Secret, int]:
    """The token of a server's answer, and its life in seconds."""
    try:
        answer = json.loads(body)
        token, life_s = answer["access_token"], answer.get("expires_in", _DEFAULT_TOKEN_LIFE_S)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise LoginFailed(f"{url} does not answer with a token (access_token)") from None
    if not isinstance(token, str):
        raise LoginFailed(f"{url} does not answer with a token (access_token)")
    is_number = isinstance(life_s, int) and 0 <= life_s < 1 << 40
    return _checked(token, f"the answer of {url}"), life_s if is_number else _DEFAULT_TOKEN_LIFE_S
