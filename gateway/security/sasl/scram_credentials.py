"""SCRAM credentials: the keys of a user's salted password (RFC 5802), and their look-up with decoys of unknown users.

A credential has no password, and no one can log in with a stolen credential; but a stolen credential lets its thief
guess passwords, and act as the broker. So no text of this module shows a key.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
DEFAULT_ITERATIONS: Final = 4096
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_DECOY_SALT_LENGTH: Final = 26  # as Kafka's tools make salts


class ScramMechanism(IntEnum):
    """The SCRAM mechanisms, by their numbers in Kafka's requests and records."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        """The name in SASL and in ZooKeeper, such as SCRAM-SHA-256."""
        return f"SCRAM-SHA-{self.key_bytes * 8}"

    @property
    def key_bytes(self) -> int:
        """The size of each key in bytes."""
        return 32 if self is ScramMechanism.SCRAM_SHA_256 else 64

    @property
    def hash_name(self) -> str:
        """The name of the hash function for `hashlib`."""
        return f"sha{self.key_bytes * 8}"


SCRAM_MECHANISMS: Final = {mechanism.mechanism_name: mechanism for mechanism in ScramMechanism}
"""The SCRAM mechanisms by name."""


class ScramCredential(NamedTuple):
    """The credential of a user for one mechanism. Its repr hides all of it but the iterations."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential([hidden], iterations={self.iterations})"


class TokenCredential(NamedTuple):
    """The credential of a delegation token (KIP-48): its owner, by the name of the principal, and its end."""

    owner: str
    credential: ScramCredential
    expires_at_ms: int | None


UserCredentials: TypeAlias = Mapping[str, Mapping[int, ScramCredential]]
"""Credentials by user and mechanism."""


def salted_password(mechanism: ScramMechanism, password: bytes, salt: bytes, iterations: int) -> bytes:
    """RFC 5802's `SaltedPassword`. Takes milliseconds, and lets other threads run meanwhile.

    Kafka does not normalize passwords with SASLprep: the bytes are those of the text in UTF-8.
    """
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password, salt, iterations)


def credential_of(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """The credential of a salted password."""
    stored_key = hashlib.new(mechanism.hash_name, client_key(mechanism, salted)).digest()
    return ScramCredential(salt, stored_key, hmac.digest(salted, b"Server Key", mechanism.hash_name), iterations)


def client_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    """RFC 5802's `ClientKey`."""
    return hmac.digest(salted, b"Client Key", mechanism.hash_name)


class ScramCredentials:
    """The credentials that logins are checked against, and a stable decoy for each unknown user.

    A decoy has a salt of its own, and the iterations of most users, at each login the same. So neither a
    challenge nor the time of an answer shows which users exist.
    """

    def __init__(self, users: Callable[[], UserCredentials], decoy_key: bytes) -> None:
        """`users` gives the present credentials. `decoy_key`: random bytes, equal on all brokers of a cluster."""
        self._users = users
        self._decoy_key = decoy_key
        self._counted: UserCredentials | None = None
        self._usual: dict[ScramMechanism, int] = {}
        self._usual_mechanism = ScramMechanism.SCRAM_SHA_512

    def find(self, mechanism: ScramMechanism, name: str) -> ScramCredential | None:
        """The credential of a user, or None."""
        return self._users().get(name, {}).get(mechanism)

    def decoy(self, mechanism: ScramMechanism, name: str) -> ScramCredential:
        """The credential in place of an unknown user's: no password has its keys."""
        random = hmac.digest(self._decoy_key, f"{mechanism.mechanism_name} {name}".encode(errors="replace"), "sha512")
        salt = "".join(_DIGITS[byte % len(_DIGITS)] for byte in random[:_DECOY_SALT_LENGTH]).encode()
        keys = hmac.digest(self._decoy_key, random, "sha512") + hmac.digest(self._decoy_key, random[1:], "sha512")
        size = mechanism.key_bytes
        return ScramCredential(salt, keys[:size], keys[size : 2 * size], self._usual_iterations(mechanism))

    def usual_mechanism(self) -> ScramMechanism:
        """The mechanism by which most users' passwords are checked: SCRAM-SHA-512 if a user has both."""
        self._count()
        return self._usual_mechanism

    def _usual_iterations(self, mechanism: ScramMechanism) -> int:
        self._count()
        return self._usual.get(mechanism, DEFAULT_ITERATIONS)

    def _count(self) -> None:
        users = self._users()
        if users is self._counted:
            return
        self._counted, self._usual = users, {}
        for mechanism in ScramMechanism:
            counts = Counter(found[mechanism].iterations for found in users.values() if mechanism in found)
            if counts:  # of equal counts the larger number, so that the order of users does not matter
                self._usual[mechanism] = max(counts, key=lambda number: (counts[number], number))
        stronger = sum(ScramMechanism.SCRAM_SHA_512 in found for found in users.values())
        is_stronger = 2 * stronger >= len(users)
        self._usual_mechanism = ScramMechanism.SCRAM_SHA_512 if is_stronger else ScramMechanism.SCRAM_SHA_256
