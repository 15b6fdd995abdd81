"""The checks of bearer tokens: signed ones (JWT, RFC 7519) by `PyJWT`, and unsecured ones for tests.

The rules are those of Kafka's `BrokerJwtValidator` and `OAuthBearerUnsecuredValidatorCallbackHandler`. No reason has a
part of a token: logs must not have credentials.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import jwt

from headgate.gateway.security.sasl.jwks import FetchFailed, KeySource, VerificationKey
from headgate.gateway.security.sasl.oauthbearer import InvalidToken, ValidatedToken

MAX_KEY_ID_LENGTH: Final = 1000
MAX_KEYS_TRIED: Final = 16
"""A token without a key id is checked with at most so many keys."""
_KEY_TYPES: Final = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    "EdDSA": "OKP",
}
_SHARED_KEY_TYPES: Final = dict.fromkeys(("HS256", "HS384", "HS512"), "oct")
_FAULTS: Final = (jwt.PyJWTError, ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError)


class TokenRules(NamedTuple):
    """What a token must have. Kafka's settings `sasl.oauthbearer.*`.

    `audiences`: one of them is in the token's `aud`; without any, the token may have none. `issuer`: the token's
    `iss`. `clock_skew_ms`: how far the clocks may differ.
    """

    audiences: Collection[str] = ()
    issuer: str | None = None
    name_claim: str = "sub"
    scope_claim: str = "scope"
    clock_skew_ms: int = 30_000


class SignedTokens:
    """The check of signed tokens. `allows_shared_keys`: HMAC with keys of type oct too."""

    is_slow = True

    def __init__(
        self, keys: KeySource, rules: TokenRules, now_ms: Callable[[], int], *, allows_shared_keys: bool = False
    ) -> None:
        self._keys = keys
        self._rules = rules
        self._now_ms = now_ms
        self._key_types = {**_KEY_TYPES, **(_SHARED_KEY_TYPES if allows_shared_keys else {})}

    def validate(self, token: str) -> ValidatedToken:
        """Check the signature, the times, the audience and the issuer. Raises InvalidToken."""
        try:
            header = jwt.get_unverified_header(token)
        except _FAULTS as error:
            raise InvalidToken("a bearer token is no JWT") from error
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in self._key_types:
            raise InvalidToken("a bearer token has an algorithm that is not allowed")
        if key_id is not None and (not isinstance(key_id, str) or len(key_id) > MAX_KEY_ID_LENGTH):
            raise InvalidToken("a bearer token has an invalid key id")
        claims = self._verified(token, algorithm, self._candidates(algorithm, key_id))
        return self._check(claims)

    def _candidates(self, algorithm: str, key_id: str | None) -> Sequence[VerificationKey]:
        try:
            found = self._keys.find(key_id)
        except FetchFailed as error:
            raise InvalidToken(str(error)) from error
        key_type = self._key_types[algorithm]
        fitting = [key for key in found if key.key_type == key_type and key.algorithm in {None, algorithm}]
        if not fitting:
            raise InvalidToken("the key set has no key for a bearer token")
        return fitting[:MAX_KEYS_TRIED]

    def _verified(self, token: str, algorithm: str, keys: Sequence[VerificationKey]) -> Mapping[str, Any]:
        for key in keys:
            try:
                claims = jwt.PyJWS(algorithms=[algorithm]).decode(token, key.key, algorithms=[algorithm])
            except jwt.InvalidSignatureError:
                continue
            except _FAULTS as error:
                raise InvalidToken("a bearer token is no JWT that its key can verify") from error
            return _json_object(claims)
        raise InvalidToken("the signature of a bearer token is invalid")

    def _check(self, claims: Mapping[str, Any]) -> ValidatedToken:
        rules, now_ms = self._rules, self._now_ms()
        _check_times(claims, now_ms, rules.clock_skew_ms)
        if _time_ms(claims, "iat") is None:
            raise InvalidToken("a bearer token has no claim 'iat'")
        _check_audience(claims.get("aud"), rules.audiences)
        if rules.issuer is not None and claims.get("iss") != rules.issuer:
            raise InvalidToken("a bearer token is of another issuer")
        _check_scopes(claims.get(rules.scope_claim))
        name = claims.get(rules.name_claim)
        if not isinstance(name, str) or not name.strip():
            raise InvalidToken(f"a bearer token has no text in its claim {rules.name_claim!r}")
        expires_at_ms = _time_ms(claims, "exp")
        assert expires_at_ms is not None, "checked with the times"
        return ValidatedToken(name.strip(), expires_at_ms)


class UnsecuredRules(NamedTuple):
    """The options `unsecuredValidator*` of the JAAS line."""

    name_claim: str = "sub"
    scope_claim: str = "scope"
    required_scopes: Collection[str] = ()
    clock_skew_ms: int = 0


class UnsecuredTokens:
    """The check of tokens without a signature. Anyone can make such a token: this is for tests alone."""

    is_slow = False

    def __init__(self, rules: UnsecuredRules, now_ms: Callable[[], int]) -> None:
        self._rules = rules
        self._now_ms = now_ms

    def validate(self, token: str) -> ValidatedToken:
        """Check the form, the times, the name and the scopes. Raises InvalidToken."""
        parts = token.split(".")
        if len(parts) != 3 or parts[2]:
            raise InvalidToken("an unsecured bearer token must have a header, claims, and no signature")
        header, claims = (_json_object(_from_base64(part)) for part in parts[:2])
        if header.get("alg") != "none":
            raise InvalidToken("an unsecured bearer token must have the algorithm 'none'")
        rules, now_ms = self._rules, self._now_ms()
        name = claims.get(rules.name_claim)
        if not isinstance(name, str) or not name.strip():
            raise InvalidToken(f"a bearer token has no text in its claim {rules.name_claim!r}")
        _check_times(claims, now_ms, rules.clock_skew_ms)
        issued_ms, expires_at_ms = _time_ms(claims, "iat"), _time_ms(claims, "exp")
        assert expires_at_ms is not None, "checked with the times"
        if issued_ms is not None and (issued_ms > now_ms + rules.clock_skew_ms or issued_ms >= expires_at_ms):
            raise InvalidToken("a bearer token is not valid yet")
        _require_scopes(claims.get(rules.scope_claim), rules.required_scopes)
        return ValidatedToken(name, expires_at_ms)


def _check_times(claims: Mapping[str, Any], now_ms: int, skew_ms: int) -> None:
    expires_at_ms, begins_ms = _time_ms(claims, "exp"), _time_ms(claims, "nbf")
    if expires_at_ms is None:
        raise InvalidToken("a bearer token has no claim 'exp'")
    if now_ms - skew_ms >= expires_at_ms:
        raise InvalidToken("a bearer token has expired")
    if begins_ms is not None and now_ms + skew_ms < begins_ms:
        raise InvalidToken("a bearer token is not valid yet")


def _time_ms(claims: Mapping[str, Any], claim: str) -> int | None:
    """A claim in seconds since 1970, as milliseconds; None without the claim. Raises InvalidToken."""
    value = claims.get(claim)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not 0 <= value <= (1 << 53):
        raise InvalidToken(f"a bearer token has no time in its claim {claim!r}")
    return int(value * 1000)


def _check_audience(audience: object, expected: Collection[str]) -> None:
    present = [audience] if isinstance(audience, str) else audience
    if present is None and not expected:
        return
    if not isinstance(present, list) or not all(isinstance(text, str) for text in present):
        raise InvalidToken("a bearer token has no audience, or an invalid one")
    if not expected:
        raise InvalidToken("a bearer token has an audience, and sasl.oauthbearer.expected.audience has none")
    if not set(present) & set(expected):
        raise InvalidToken("a bearer token is for another audience")


def _check_scopes(scope: object) -> None:
    scopes = [scope] if isinstance(scope, str) else scope if isinstance(scope, list) else []
    texts = [text.strip() for text in scopes if isinstance(text, str)]
    if len(texts) != len(scopes) or "" in texts or len(set(texts)) != len(texts):
        raise InvalidToken("a bearer token has an empty, a doubled or an invalid scope")


def _require_scopes(scope: object, required: Collection[str]) -> None:
    texts = [scope.strip()] if isinstance(scope, str) else scope if isinstance(scope, list) else []
    for wanted in required:
        if wanted not in texts:
            message = f"a bearer token lacks the scope {wanted!r}"
            raise InvalidToken(message, status="insufficient_scope", scope=" ".join(required))


def _json_object(text: bytes) -> Mapping[str, Any]:
    try:
        read = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidToken("a part of a bearer token is not JSON") from error
    if not isinstance(read, dict):
        raise InvalidToken("a part of a bearer token is no JSON object")
    return read


def _from_base64(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError) as error:
        raise InvalidToken("a part of a bearer token is not base64") from error
