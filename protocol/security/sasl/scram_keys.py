"""SCRAM's arithmetic (RFC 5802): the salted password, its keys, and the credential that a broker keeps of them.

A credential has no password, and no one can log in with a stolen credential; but a stolen credential lets its thief
guess passwords, and act as the broker. So no text of this module shows a key.
"""

from __future__ import annotations

import hashlib
import hmac
from enum import IntEnum
from functools import cached_property
from typing import Final, NamedTuple

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
DEFAULT_ITERATIONS: Final = 4096


class ScramMechanism(IntEnum):
    """The SCRAM mechanisms, by their numbers in Kafka's requests and records."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @cached_property
    def mechanism_name(self) -> str:
        """The name in SASL and in ZooKeeper, such as SCRAM-SHA-256."""
        return f"SCRAM-SHA-{self.key_bytes * 8}"

    @cached_property
    def key_bytes(self) -> int:
        """The size of each key in bytes."""
        return 32 if self is ScramMechanism.SCRAM_SHA_256 else 64

    @cached_property
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
