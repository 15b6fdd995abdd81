"""JSON Web Key Sets (RFC 7517): the public keys of a provider of bearer tokens, parsed and cached.

The way to the document, a file or https, is passed in as `fetch`. A thread calls `CachedKeys`: the first use, an
unknown key id and the age of the keys each fetch the document again. Between two fetches lies a pause, so that tokens
with invented key ids cannot make the broker ask the provider again and again.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import jwt

from headgate.gateway.runtime.clock import Clock

logger = logging.getLogger("headgate.sasl")

MAX_DOCUMENT_BYTES: Final = 1 << 20
MAX_KEYS: Final = 1000
MIN_PAUSE_MS: Final = 1_000
"""The least time between two fetches for unknown key ids."""
WAIT_S: Final = 2.0
"""How long a login that has no key waits for the fetch of another login. Most take a fraction of a second."""


class InvalidKeySet(Exception):
    """A document is no JSON Web Key Set with a usable key."""


class FetchFailed(Exception):
    """A document could not be fetched. The text is the reason for the log."""


class VerificationKey(NamedTuple):
    """A key of a set. `algorithm`: the only one that the key is for, or None. `key_type`: RSA, EC, OKP or oct."""

    key_id: str | None
    key_type: str
    algorithm: str | None
    key: Any

    def __repr__(self) -> str:
        return f"VerificationKey(key_id={self.key_id!r}, key_type={self.key_type!r})"


class KeySource(Protocol):
    """The keys that signatures of tokens are checked with."""

    def find(self, key_id: str | None) -> Sequence[VerificationKey]:
        """The keys of an id; all keys without an id. A thread calls. Raises FetchFailed."""


def parse(document: bytes) -> tuple[VerificationKey, ...]:
    """The usable signature keys of a key set; other ones are left out. Raises InvalidKeySet."""
    if len(document) > MAX_DOCUMENT_BYTES:
        raise InvalidKeySet(f"a key set has {len(document)} bytes; the limit is {MAX_DOCUMENT_BYTES}")
    try:
        read = json.loads(document)
    except (ValueError, RecursionError) as error:
        raise InvalidKeySet("a key set is not JSON") from error
    members = read.get("keys") if isinstance(read, dict) else None
    if not isinstance(members, list):
        raise InvalidKeySet("a key set has no list 'keys'")
    if len(members) > MAX_KEYS:
        raise InvalidKeySet(f"a key set has {len(members)} keys; the limit is {MAX_KEYS}")
    keys = tuple(key for key in map(_key, members) if key is not None)
    if not keys:
        raise InvalidKeySet("a key set has no key for signatures that can be used here")
    return keys


def _key(member: object) -> VerificationKey | None:
    if not isinstance(member, dict) or member.get("use", "sig") != "sig":
        return None
    key_id, key_type, algorithm = member.get("kid"), member.get("kty"), member.get("alg")
    if not isinstance(key_type, str) or not all(text is None or isinstance(text, str) for text in (key_id, algorithm)):
        return None
    try:
        return VerificationKey(key_id, key_type, algorithm, jwt.PyJWK(member).key)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError, AttributeError):
        return None


class CachedKeys:
    """A key set that is fetched when it is needed. Any thread may call."""

    def __init__(
        self,
        fetch: Callable[[], bytes],
        clock: Clock,
        refresh_ms: int,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 10_000,
        wait_s: float = WAIT_S,
    ) -> None:
        """`fetch` returns the document, or raises FetchFailed; it has to have a time limit of its own."""
        self._fetch = fetch
        self._clock = clock
        self._refresh_ms = refresh_ms
        self._backoff_ms = self._first_backoff_ms = retry_backoff_ms
        self._max_backoff_ms = retry_backoff_max_ms
        self._wait_s = wait_s
        self._keys: tuple[VerificationKey, ...] = ()
        self._fetched_ms: float | None = None
        self._next_ms: float | None = None
        self._lock = threading.Lock()

    def find(self, key_id: str | None) -> Sequence[VerificationKey]:
        """The keys of an id; all keys without an id. Raises FetchFailed if no key set was ever fetched."""
        is_missing = self._fetched_ms is None or not self._among(key_id)
        if is_missing or self._clock.monotonic_ms() - (self._fetched_ms or 0) >= self._refresh_ms:
            self._refresh(self._wait_s if is_missing else 0)
        if self._fetched_ms is None:
            raise FetchFailed("the key set of bearer tokens could not be fetched yet")
        return self._among(key_id)

    def _among(self, key_id: str | None) -> Sequence[VerificationKey]:
        if key_id is None:
            return self._keys
        return [key for key in self._keys if key.key_id == key_id]

    def _refresh(self, wait_s: float) -> None:
        """Fetch the key set, unless the last fetch was a moment ago; wait so long for the fetch of another thread."""
        if not self._lock.acquire(timeout=wait_s):
            return
        try:
            if self._next_ms is None or self._clock.monotonic_ms() >= self._next_ms:
                self._fetch_now()
        finally:
            self._lock.release()

    def _fetch_now(self) -> None:
        try:
            self._keys = parse(self._fetch())
        except (FetchFailed, InvalidKeySet) as error:
            logger.warning("the key set of bearer tokens was not fetched: %s", error)
            self._next_ms = self._clock.monotonic_ms() + self._backoff_ms
            self._backoff_ms = min(2 * self._backoff_ms, self._max_backoff_ms)
            return
        self._fetched_ms = self._clock.monotonic_ms()
        self._next_ms = self._fetched_ms + MIN_PAUSE_MS
        self._backoff_ms = self._first_backoff_ms
