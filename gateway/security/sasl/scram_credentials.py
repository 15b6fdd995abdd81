"""The look-up of SCRAM credentials, with decoys of unknown users, and the credentials of delegation tokens."""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from headgate.protocol.security.sasl.scram_keys import DEFAULT_ITERATIONS, ScramCredential, ScramMechanism

_DIGITS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"
_DIGIT_OF_BYTE: Final = bytes(_DIGITS[byte % len(_DIGITS)] for byte in range(256))
_DECOY_SALT_LENGTH: Final = 26  # as Kafka's tools make salts


class TokenCredential(NamedTuple):
    """The credential of a delegation token (KIP-48): its owner, by the name of the principal, and its end.

    The owner is None if there is no such token: then the credential has the place of one.
    """

    owner: str | None
    credential: ScramCredential
    expires_at_ms: int | None


UserCredentials: TypeAlias = Mapping[str, Mapping[int, ScramCredential]]
"""Credentials by user and mechanism."""


class ScramCredentials:
    """The credentials that logins are checked against, and a stable decoy for each unknown user.

    A decoy has a salt of its own, and the iterations of most users, at each login the same. So neither a
    challenge nor the time of an answer shows which users exist. The keys, which no answer shows, are those of all
    decoys of a mechanism.
    """

    def __init__(self, users: Callable[[], UserCredentials], decoy_key: bytes) -> None:
        """`users` gives the present credentials. `decoy_key`: random bytes, equal on all brokers of a cluster."""
        self._users = users
        self._decoy_key = decoy_key
        self._decoys = {mechanism: self._decoy_without_salt(mechanism) for mechanism in ScramMechanism}
        self._counted: UserCredentials | None = None
        self._usual: dict[ScramMechanism, int] = {}
        self._usual_mechanism = ScramMechanism.SCRAM_SHA_512

    def find(self, mechanism: ScramMechanism, name: str) -> ScramCredential | None:
        """The credential of a user, or None."""
        return self._users().get(name, {}).get(mechanism)

    def decoy(self, mechanism: ScramMechanism, name: str) -> ScramCredential:
        """The credential in place of an unknown user's: no password has its keys."""
        random = hmac.digest(self._decoy_key, f"{mechanism.mechanism_name} {name}".encode(errors="replace"), "sha512")
        salt = random[:_DECOY_SALT_LENGTH].translate(_DIGIT_OF_BYTE)
        _, stored_key, server_key, _ = self._decoys[mechanism]
        return ScramCredential(salt, stored_key, server_key, self._usual_iterations(mechanism))

    def _decoy_without_salt(self, mechanism: ScramMechanism) -> ScramCredential:
        stored_key, server_key = (
            hmac.digest(self._decoy_key, f"{key} of {mechanism.mechanism_name}".encode(), mechanism.hash_name)
            for key in ("StoredKey", "ServerKey")
        )
        return ScramCredential(b"", stored_key, server_key, DEFAULT_ITERATIONS)

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
