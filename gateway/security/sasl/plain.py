"""PLAIN (RFC 4616), the server's side, as Kafka's `PlainSaslServer`.

One token: [authorization id] NUL user NUL password. Passwords are in the JAAS line of the listener, or the salted
ones of SCRAM are asked (`headgate.sasl.plain.store=scram`), which takes a thread some milliseconds.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from headgate.gateway.security.sasl.exchange import Authenticated, SaslComputation, refused
from headgate.gateway.security.sasl.scram_credentials import ScramCredentials
from headgate.protocol.security.sasl.scram_keys import ScramMechanism, client_key, salted_password

_INVALID: Final = "Authentication failed: Invalid username or password"
_MOST_TOKENS: Final = 4  # Kafka counts no further


class PasswordStore(Protocol):
    """The passwords of users."""

    def check(self, user: str, password: str) -> bool | Callable[[], bool]:
        """Whether the password is right, or the computation that says so. An unknown user takes the same time."""


class JaasUsers:
    """The users of a JAAS line, with their passwords in the clear."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = {user: password.encode(errors="surrogatepass") for user, password in passwords.items()}

    def check(self, user: str, password: str) -> bool:
        expected = self._passwords.get(user)
        given = password.encode(errors="surrogatepass")
        # Hashes have one length, so that the time of the comparison says nothing about the length of a password
        is_equal = hmac.compare_digest(hashlib.sha256(given).digest(), hashlib.sha256(expected or b"").digest())
        return is_equal and expected is not None


class ScramPasswords:
    """The passwords behind SCRAM credentials: those of SCRAM-SHA-512 if the user has them, else of SCRAM-SHA-256."""

    def __init__(self, credentials: ScramCredentials) -> None:
        self._credentials = credentials

    def check(self, user: str, password: str) -> Callable[[], bool]:
        for mechanism in (ScramMechanism.SCRAM_SHA_512, ScramMechanism.SCRAM_SHA_256):
            credential = self._credentials.find(mechanism, user)
            if credential is not None:
                break
        is_known = credential is not None
        if credential is None:
            mechanism = self._credentials.usual_mechanism()
            credential = self._credentials.decoy(mechanism, user)
        salt, stored_key, _, iterations = credential

        def compute() -> bool:
            salted = salted_password(mechanism, password.encode(errors="surrogatepass"), salt, iterations)
            key = hashlib.new(mechanism.hash_name, client_key(mechanism, salted)).digest()
            return hmac.compare_digest(key, stored_key) and is_known

        return compute


class PlainExchange:
    """One login by PLAIN: one token, and no challenge."""

    def __init__(self, store: PasswordStore) -> None:
        self._store = store

    def step(self, token: bytes) -> Authenticated | SaslComputation:
        """Take the token. Raises AuthenticationFailed, with Kafka's sentences."""
        parts = token.decode(errors="replace").split("\0", _MOST_TOKENS - 1)
        if len(parts) != 3:
            raise refused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, user, password = parts
        if not user:
            raise refused("Authentication failed: username not specified")
        if not password:
            raise refused("Authentication failed: password not specified")
        answer = self._store.check(user, password)
        if isinstance(answer, bool):
            return _decide(authorization_id, user, is_valid=answer)
        return SaslComputation(lambda: _decide(authorization_id, user, is_valid=answer()))


def _decide(authorization_id: str, user: str, *, is_valid: bool) -> Authenticated:
    if not is_valid:
        raise refused(_INVALID, user)
    if authorization_id not in {"", user}:
        raise refused("Authentication failed: Client requested an authorization id that is different from username")
    return Authenticated(user)
