"""Bearer tokens: signatures, times, audiences, names; and hostile ones."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.security.sasl.bearer_tokens import (
    MAX_KEY_ID_LENGTH,
    SignedTokens,
    TokenRules,
    UnsecuredRules,
    UnsecuredTokens,
)
from headgate.gateway.security.sasl.jwks import FetchFailed, VerificationKey, parse
from headgate.gateway.security.sasl.oauthbearer import InvalidToken, ValidatedToken
from headgate.gateway.security.sasl.tests.exchanges import NOW_S

SHARED = b"a shared key of more than thirty-two bytes"
CLAIMS = {"sub": "ann", "iat": NOW_S - 5, "exp": NOW_S + 60}
VALID = ValidatedToken("ann", (NOW_S + 60) * 1000)


@cache
def private_keys() -> dict[str, Any]:
    """By algorithm."""
    one, other = (rsa.generate_private_key(65537, 2048) for _ in range(2))
    return {
        "RS256": one,
        "PS256": one,
        "other RS256": other,
        "ES256": ec.generate_private_key(ec.SECP256R1()),
        "EdDSA": ed25519.Ed25519PrivateKey.generate(),
    }


def jwk(algorithm: str, **more: str) -> dict[str, Any]:
    """The public key of an algorithm, as a member of a key set."""
    public = private_keys()[algorithm].public_key()
    made = jwt.get_algorithm_by_name(algorithm.removeprefix("other ")).to_jwk(public, as_dict=True)
    return {**{name: value for name, value in made.items() if name != "key_ops"}, **more}


class Keys:
    """The keys of a set."""

    def __init__(self, *members: dict[str, Any]) -> None:
        self.keys = parse(json.dumps({"keys": members}).encode())

    def find(self, key_id: str | None) -> Sequence[VerificationKey]:
        return [key for key in self.keys if key_id in {None, key.key_id}]


def signed(claims: dict[str, Any] = CLAIMS, algorithm: str = "RS256", key: Any = None, **header: str) -> str:
    return jwt.encode(claims, key or private_keys()[algorithm], algorithm, header)


def unsigned(claims: dict[str, Any], header: dict[str, Any] | None = None, signature: str = "") -> str:
    parts = [json.dumps(part).encode() for part in (header or {"alg": "none"}, claims)]
    return ".".join([*(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts), signature])


def checked(token: str, *members: dict[str, Any], shared: bool = False, **rules: Any) -> ValidatedToken:
    keys = Keys(*(members or (jwk("RS256"),)))
    return SignedTokens(keys, TokenRules(**rules), lambda: NOW_S * 1000, allows_shared_keys=shared).validate(token)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "EdDSA"])
def test_a_signed_token_is_valid(algorithm: str) -> None:
    assert checked(signed(algorithm=algorithm), jwk(algorithm)) == VALID


@pytest.mark.slow
def test_a_key_is_found_by_its_id_or_tried() -> None:
    members = jwk("other RS256", kid="a"), jwk("RS256", kid="b")
    assert checked(signed(kid="b"), *members) == checked(signed(), *members) == VALID
    with pytest.raises(InvalidToken, match="signature"):
        checked(signed(kid="a"), *members)
    with pytest.raises(InvalidToken, match="no key"):
        checked(signed(kid="c"), *members)


@pytest.mark.slow
def test_a_key_is_for_its_algorithm_alone() -> None:
    with pytest.raises(InvalidToken, match="no key"):
        checked(signed(algorithm="PS256"), jwk("RS256", alg="RS256"))
    with pytest.raises(InvalidToken, match="no key"):
        checked(signed(algorithm="ES256"), jwk("RS256"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "claims, rules, reason",
    [
        ({"exp": NOW_S - 31}, {}, "expired"),
        ({"exp": None}, {}, "no claim 'exp'"),
        ({"exp": "tomorrow"}, {}, "no time in its claim 'exp'"),
        ({"exp": True}, {}, "no time in its claim 'exp'"),
        ({"exp": -1}, {}, "no time in its claim 'exp'"),
        ({"exp": 1e300}, {}, "no time in its claim 'exp'"),
        ({"iat": None}, {}, "no claim 'iat'"),
        ({"nbf": NOW_S + 31}, {}, "not valid yet"),
        ({"sub": None}, {}, "no text in its claim 'sub'"),
        ({"sub": " "}, {}, "no text in its claim 'sub'"),
        ({"sub": 5}, {}, "no text in its claim 'sub'"),
        ({}, {"name_claim": "email"}, "no text in its claim 'email'"),
        ({}, {"issuer": "us"}, "another issuer"),
        ({"iss": "them"}, {"issuer": "us"}, "another issuer"),
        ({}, {"audiences": ("us",)}, "no audience"),
        ({"aud": "them"}, {"audiences": ("us",)}, "another audience"),
        ({"aud": ["them", 5]}, {"audiences": ("us",)}, "invalid one"),
        ({"aud": "them"}, {}, "expected.audience has none"),
        ({"scope": ["a", "a"]}, {}, "scope"),
        ({"scope": [""]}, {}, "scope"),
    ],
)
def test_a_signed_token_is_refused(claims: dict[str, Any], rules: dict[str, Any], reason: str) -> None:
    changed = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    with pytest.raises(InvalidToken, match=reason):
        checked(
            jwt.encode(changed, private_keys()["RS256"], "RS256") if "iat" not in claims else signed(changed), **rules
        )


@pytest.mark.slow
def test_clocks_may_differ_and_names_be_other_claims() -> None:
    claims = {
        "email": " ann ",
        "iat": NOW_S + 600,
        "exp": NOW_S - 29,
        "nbf": NOW_S + 29,
        "aud": ["x", "us"],
        "iss": "us",
    }
    found = checked(signed(claims), name_claim="email", audiences=("us", "you"), issuer="us")
    assert found == ValidatedToken("ann", (NOW_S - 29) * 1000)


@pytest.mark.slow
@pytest.mark.parametrize(
    "token",
    [
        unsigned(CLAIMS),
        unsigned(CLAIMS, {"alg": "None"}),
        unsigned(CLAIMS, {"alg": ""}, "x"),
        unsigned(CLAIMS, {"alg": 5}, "x"),
        unsigned(CLAIMS, {"alg": "RS256"}),
        unsigned(CLAIMS, {"alg": "RS256"}, "AAAA"),
        unsigned(CLAIMS, {"alg": "RS256", "jwk": {"kty": "oct", "k": "AAAA"}}, "AAAA"),
        unsigned(CLAIMS, {"alg": "RS256", "jku": "https://evil.example/keys", "x5u": "https://evil.example"}, "AAAA"),
        unsigned(CLAIMS, {"alg": "RS256", "kid": ["a"]}, "AAAA"),
        unsigned(CLAIMS, {"alg": "RS256", "kid": "k" * (MAX_KEY_ID_LENGTH + 1)}, "AAAA"),
        unsigned(CLAIMS, {"alg": "RS256", "b64": False, "crit": ["b64"]}, "AAAA"),
        unsigned(CLAIMS, {"alg": "RS256", "crit": ["exp"]}, "AAAA"),
        jwt.encode(CLAIMS, SHARED, "HS256"),
        "",
        "..",
        "a.b.c",
        "[" * 60000,
        f"{base64.urlsafe_b64encode(b'[' * 40000).decode()}.e30.AAAA",
    ],
)
def test_a_forged_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidToken):
        checked(token)


@pytest.mark.slow
def test_a_public_key_is_no_shared_key() -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = private_keys()["RS256"].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    header, claims = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({"alg": "HS256"}, CLAIMS)
    )
    import hashlib
    import hmac

    signature = base64.urlsafe_b64encode(hmac.digest(public, header + b"." + claims, hashlib.sha256)).rstrip(b"=")
    for shared in (False, True):
        with pytest.raises(InvalidToken):
            checked(b".".join((header, claims, signature)).decode(), shared=shared)


@pytest.mark.slow
def test_shared_keys_are_for_unsecured_listeners_alone() -> None:
    member = {"kty": "oct", "k": base64.urlsafe_b64encode(SHARED).decode().rstrip("=")}
    token = jwt.encode(CLAIMS, SHARED, "HS256")
    assert checked(token, member, shared=True) == VALID
    with pytest.raises(InvalidToken, match="algorithm"):
        checked(token, member)


@pytest.mark.slow
def test_no_reason_has_a_token() -> None:
    token = signed({**CLAIMS, "exp": 1, "sub": "hunter2"})
    with pytest.raises(InvalidToken) as error:
        checked(token)
    assert not any(part in repr(error.value) for part in (*token.split("."), "hunter2"))


def test_without_keys_a_token_is_refused() -> None:
    class NoKeys:
        def find(self, _key_id: str | None) -> Sequence[VerificationKey]:
            raise FetchFailed("the provider is away")

    token = unsigned(CLAIMS, {"alg": "RS256"}, "AAAA")
    with pytest.raises(InvalidToken, match="the provider is away"):
        SignedTokens(NoKeys(), TokenRules(), lambda: 0).validate(token)


@pytest.mark.slow
@given(st.text(st.characters(codec="ascii")) | st.from_regex(r"[\w-]+\.[\w-]+\.[\w-]*", fullmatch=True))
def test_any_text_is_refused(token: str) -> None:
    for tokens in (
        SignedTokens(_NO_KEYS, TokenRules(), lambda: 0, allows_shared_keys=True),
        UnsecuredTokens(UnsecuredRules(), lambda: 0),
    ):
        with pytest.raises(InvalidToken):
            tokens.validate(token)


class _Empty:
    def find(self, _key_id: str | None) -> Sequence[VerificationKey]:
        return ()


_NO_KEYS = _Empty()


@pytest.mark.parametrize(
    "claims, rules, reason",
    [
        ({"exp": NOW_S}, {}, "expired"),
        ({"iat": NOW_S + 1}, {}, "not valid yet"),
        ({"iat": NOW_S + 60}, {"clock_skew_ms": 100_000}, "not valid yet"),
        ({"sub": ""}, {}, "no text"),
        ({"scope": "a"}, {"required_scopes": ("a", "b")}, "lacks the scope 'b'"),
        ({}, {"required_scopes": ("a",)}, "lacks the scope 'a'"),
    ],
)
def test_an_unsecured_token_is_refused(claims: dict[str, Any], rules: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidToken, match=reason):
        UnsecuredTokens(UnsecuredRules(**rules), lambda: NOW_S * 1000).validate(unsigned({**CLAIMS, **claims}))


def test_an_unsecured_token_may_lack_its_beginning() -> None:
    tokens = UnsecuredTokens(UnsecuredRules(name_claim="who", required_scopes=("a",)), lambda: NOW_S * 1000)
    assert (
        tokens.validate(unsigned({"who": "ann", "exp": NOW_S + 0.5, "scope": "a"})).expires_at_ms == NOW_S * 1000 + 500
    )
