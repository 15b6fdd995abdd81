"""The secrets of delegation tokens, and logins by them.

The secret of a token is the HMAC-SHA-512 of its id with `delegation.token.secret.key`: all brokers with the key know
it, and none stores it. As in Kafka, the password of a login by SCRAM is the secret in base64, with 4096 iterations.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Final

from headgate.gateway.security.sasl.scram_credentials import TokenCredential
from headgate.gateway.security.tokens.delegation_token import NO_TOKENS, USER_TYPE, Tokens
from headgate.protocol.security.sasl.scram_keys import (
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    credential_of,
    salted_password,
)
from headgate.protocol.steps import Steps

MAX_CREDENTIALS: Final = 1024
"""The most credentials in memory. Each saves a login some milliseconds of a thread."""
_SECRETS_A_STEP: Final = 64


class TokenSecrets:
    """The tokens of a cluster by their secrets. No text of this class shows a secret."""

    def __init__(self, secret_key: str, tokens: Callable[[], Tokens], now_ms: Callable[[], int]) -> None:
        """`tokens`: the tokens of the moment."""
        self._secret_key = secret_key.encode()
        self._tokens = tokens
        self._now_ms = now_ms
        self._indexed = NO_TOKENS
        self._hashes: dict[str, bytes] = {}  # by id: the hash of the secret
        self._ids: dict[bytes, str] = {}  # by that hash: the time of a look-up does not show the secret
        self._credential = lru_cache(MAX_CREDENTIALS)(self._make_credential)

    def hmac_of(self, token_id: str) -> bytes:
        """The secret of a token: 64 bytes."""
        return hmac.digest(self._secret_key, token_id.encode(errors="surrogatepass"), "sha512")

    def find(self, tokens: Tokens, secret: bytes) -> Steps[str | None]:
        """The id of the token with this secret, or None, in steps: the secrets of new tokens are computed first."""
        yield from self._follow(tokens)
        token_id = self._ids.get(_hash(secret))
        if token_id is None or not hmac.compare_digest(self.hmac_of(token_id), secret):
            return None
        return token_id

    def _follow(self, tokens: Tokens) -> Steps[None]:
        if tokens is self._indexed:
            return
        # Again after the steps: meanwhile a search among older tokens may have removed what it did not know
        while new := [token_id for token_id in tokens if token_id not in self._hashes]:
            yield from self._add(new)
        if len(self._hashes) > len(tokens):
            for token_id in self._hashes.keys() - tokens.keys():
                del self._ids[self._hashes.pop(token_id)]
        self._indexed = tokens

    def _add(self, token_ids: Sequence[str]) -> Steps[None]:
        for number, token_id in enumerate(token_ids, 1):
            if token_id not in self._hashes:
                made = self._hashes[token_id] = _hash(self.hmac_of(token_id))
                self._ids[made] = token_id
            if not number % _SECRETS_A_STEP:
                yield

    def begin_login(self, mechanism: ScramMechanism, token_id: str, salt: bytes) -> Callable[[], TokenCredential]:
        """The computation of the credential for a login by a token, for a thread.

        Its owner is None without such a token, or if the token has ended; the computation takes as long as the first
        one of a token. So the time shows whether a token of this id is in use, and nothing of its secret.
        """
        token = self._tokens().get(token_id)
        if token is not None and not token.is_expired(self._now_ms()):
            kind, _, name = token.owner.partition(":")
            if kind == USER_TYPE and name:  # a login is that of a user: a token of `Group:a` must not make `User:a`
                return partial(self._known, mechanism, token_id, salt, name, token.expiry_ms)
        return partial(self._unknown, mechanism, token_id, salt)

    def _known(
        self, mechanism: ScramMechanism, token_id: str, salt: bytes, owner: str, expires_at_ms: int
    ) -> TokenCredential:
        return TokenCredential(owner, self._credential(mechanism, token_id, salt), expires_at_ms)

    def _unknown(self, mechanism: ScramMechanism, token_id: str, salt: bytes) -> TokenCredential:
        return TokenCredential(None, self._make_credential(mechanism, token_id, salt), None)

    def _make_credential(self, mechanism: ScramMechanism, token_id: str, salt: bytes) -> ScramCredential:
        password = base64.b64encode(self.hmac_of(token_id))
        salted = salted_password(mechanism, password, salt, MIN_ITERATIONS)
        return credential_of(mechanism, salted, salt, MIN_ITERATIONS)


def _hash(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()
