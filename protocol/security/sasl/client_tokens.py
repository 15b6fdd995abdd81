"""The client's side of PLAIN, SCRAM and OAUTHBEARER: each is a generator of tokens, sans-IO.

    tokens = plain("alice", Secret("..."))
    token = next(tokens)                    # for the broker
    token = tokens.send(challenge)          # the next one; StopIteration: the client is content with the challenge

A mechanism raises LoginFailed where the broker breaks the rules, or cannot prove that it knows the user's password.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import re
from collections import OrderedDict
from collections.abc import Generator, Mapping
from typing import Final, NamedTuple, TypeAlias

from headgate.protocol.security.sasl.scram_keys import (
    MIN_ITERATIONS,
    ScramMechanism,
    client_key,
    credential_of,
    salted_password,
)
from headgate.protocol.security.secret import Secret

MAX_CHALLENGE_BYTES: Final = 1 << 16
MAX_CLIENT_ITERATIONS: Final = 1_000_000
"""Iterations that a client computes, half a second of work. Kafka's brokers make at most 16,384."""
_SALTED_PASSWORDS_MAX: Final = 16
_SERVER_FIRST: Final = re.compile(
    rb"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[a-zA-Z0-9/+]+={0,2}),i=(?P<iterations>[1-9][0-9]{0,8})(?:,.*)?"
)
_SERVER_FINAL: Final = re.compile(rb"v=(?P<signature>[a-zA-Z0-9/+]+={0,2})(?:,.*)?")

ClientTokens: TypeAlias = Generator[bytes, bytes, None]
"""Tokens of a client; challenges of the broker come in."""


class LoginFailed(Exception):
    """A login has failed. The text is one sentence, with the broker's own reason if there is one, and no secret."""


def plain(user: str, password: Secret) -> ClientTokens:
    """PLAIN (RFC 4616): the password itself."""
    yield b"\x00".join((b"", user.encode(), password.text.encode()))


# ------------------------------------------------------------------------------------------------------------- SCRAM


class SaltedPasswords:
    """The salted passwords of one user, by mechanism, salt and iterations: so a second login costs no iterations."""

    def __init__(self, password: Secret) -> None:
        self._password = password.text.encode()
        self._salted: OrderedDict[tuple[ScramMechanism, bytes, int], bytes] = OrderedDict()

    def of(self, mechanism: ScramMechanism, salt: bytes, iterations: int) -> bytes:
        key = (mechanism, salt, iterations)
        found = self._salted.get(key)
        if found is None:
            found = self._salted[key] = salted_password(mechanism, self._password, salt, iterations)
            if len(self._salted) > _SALTED_PASSWORDS_MAX:
                self._salted.popitem(last=False)
        return found


class _ServerFirst(NamedTuple):
    nonce: bytes
    salt: bytes
    iterations: int


def scram(
    mechanism: ScramMechanism, user: str, salted: SaltedPasswords, nonce: str, *, is_token: bool = False
) -> ClientTokens:
    """SCRAM (RFC 5802). `nonce`: random printable ASCII without commas. `is_token`: `user` is the id of a token."""
    name = user.replace("=", "=3D").replace(",", "=2C")
    bare = f"n={name},r={nonce}{',tokenauth=true' if is_token else ''}".encode()
    server_first = yield b"n,," + bare
    challenge = _read_server_first(server_first, nonce.encode())
    key = salted.of(mechanism, challenge.salt, challenge.iterations)
    credential = credential_of(mechanism, key, challenge.salt, challenge.iterations)
    unsigned = b"c=biws,r=" + challenge.nonce
    message = b",".join((bare, server_first, unsigned))
    signature = hmac.digest(credential.stored_key, message, mechanism.hash_name)
    proof = bytes(one ^ other for one, other in zip(client_key(mechanism, key), signature, strict=True))
    server_final = yield unsigned + b",p=" + base64.b64encode(proof)
    _check_server_final(server_final, hmac.digest(credential.server_key, message, mechanism.hash_name))


def _read_server_first(message: bytes, nonce: bytes) -> _ServerFirst:
    match = _SERVER_FIRST.fullmatch(message)
    salt = None if match is None else _from_base64(match["salt"])
    if match is None or salt is None:
        raise LoginFailed("the broker's challenge does not follow SCRAM")
    if not match["nonce"].startswith(nonce) or len(match["nonce"]) == len(nonce):
        raise LoginFailed("the broker's challenge answers another login: its nonce is not the client's")
    iterations = int(match["iterations"])
    if not MIN_ITERATIONS <= iterations <= MAX_CLIENT_ITERATIONS:
        limits = f"from {MIN_ITERATIONS} to {MAX_CLIENT_ITERATIONS}"
        raise LoginFailed(f"the broker asks for {iterations} iterations of SCRAM, and a client computes {limits}")
    return _ServerFirst(match["nonce"], salt, iterations)


def _check_server_final(message: bytes, expected: bytes) -> None:
    match = _SERVER_FINAL.fullmatch(message)
    signature = None if match is None else _from_base64(match["signature"])
    if signature is None or not hmac.compare_digest(signature, expected):
        raise LoginFailed(
            "the broker cannot prove that it knows the user's password, so it is not the broker that it claims to be"
        )


def _from_base64(text: bytes) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return None


# ------------------------------------------------------------------------------------------------------- OAUTHBEARER


def bearer(token: Secret, extensions: Mapping[str, str]) -> ClientTokens:
    """OAUTHBEARER (RFC 7628). `extensions`: further pairs for the broker (KIP-342)."""
    pairs = "".join(f"{name}={value}\x01" for name, value in extensions.items())
    refusal = yield f"n,,\x01auth=Bearer {token.text}\x01{pairs}\x01".encode()
    if refusal:
        yield b"\x01"  # the broker then ends the login with its own sentence
        raise LoginFailed(f"the broker refuses the token: {_status(refusal)}")


def _status(refusal: bytes) -> str:
    """The status in a broker's refusal, a JSON object."""
    try:
        status = json.loads(refusal)["status"]
    except (ValueError, KeyError, TypeError, RecursionError):
        status = "without a status"
    return str(status)[:200]
