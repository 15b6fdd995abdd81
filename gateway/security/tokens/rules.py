"""The rules of delegation tokens: who may create, renew, expire and see them, and for how long. Pure.

Source: KIP-48, KIP-373; `KafkaApis` and `DelegationTokenControlManager` of Apache Kafka 4.1. Kafka has no limit on the
number of tokens, nor on their size: here a user cannot fill the memory of the brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final, NamedTuple

from headgate.gateway.security.tokens.delegation_token import USER_TYPE, DelegationToken, Tokens
from headgate.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig

MAX_TOKENS: Final = 20_000
MAX_TOKENS_PER_OWNER: Final = 10_000
MAX_NAMES_BYTES: Final = 4096
"""The size of a token's principals together, in UTF-8."""
MAX_TIME_MS: Final = (1 << 63) - 1
"""The last time that a record and a response can have: the settings allow longer lifetimes."""


class TokenLifetimes(NamedTuple):
    """`delegation.token.max.lifetime.ms` and `delegation.token.expiry.time.ms`."""

    max_ms: int
    expiry_ms: int


def lifetimes_of(config: BrokerConfig) -> TokenLifetimes:
    """The lifetimes of the settings."""
    return TokenLifetimes(config.delegation_token_max_lifetime_ms, config.delegation_token_expiry_time_ms)


class NewToken(NamedTuple):
    """A wish for a token. `max_lifetime_ms`: 0 or less for the longest lifetime."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    max_lifetime_ms: int


def check_renewers(types: Sequence[str]) -> None:
    """Check the types of the principals that may renew a token. Raises KafkaError(INVALID_PRINCIPAL_TYPE)."""
    if any(kind != USER_TYPE for kind in types):
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)


def create(tokens: Tokens, wanted: NewToken, token_id: str, lifetimes: TokenLifetimes, now_ms: int) -> DelegationToken:
    """The new token. Raises KafkaError(POLICY_VIOLATION) if it is too large, or if there are too many."""
    _check_room(tokens, wanted)
    lifetime_ms = lifetimes.max_ms
    if wanted.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, wanted.max_lifetime_ms)
    max_ms = min(now_ms + lifetime_ms, MAX_TIME_MS)
    expiry_ms = min(max_ms, now_ms + lifetimes.expiry_ms)
    return DelegationToken(token_id, wanted.owner, wanted.requester, wanted.renewers, now_ms, max_ms, expiry_ms)


def _check_room(tokens: Tokens, wanted: NewToken) -> None:
    names = (wanted.owner, wanted.requester, *wanted.renewers)
    if sum(len(name.encode(errors="surrogatepass")) for name in names) > MAX_NAMES_BYTES:
        raise _violation(f"the principals of a delegation token have at most {MAX_NAMES_BYTES} bytes")
    if len(tokens) >= MAX_TOKENS:
        raise _violation(f"there are {MAX_TOKENS} delegation tokens already; expire those that are not used")
    if len(tokens) >= MAX_TOKENS_PER_OWNER:
        owned = sum(token.owner == wanted.owner for token in tokens.values())
        if owned >= MAX_TOKENS_PER_OWNER:
            raise _violation(f"{wanted.owner[:200]} has {owned} delegation tokens already; expire those not in use")


def renew(
    token: DelegationToken, principal: str, period_ms: int, lifetimes: TokenLifetimes, now_ms: int
) -> DelegationToken:
    """The token with a new end, in `period_ms` at most; 0 or less for the usual time.

    Raises KafkaError: DELEGATION_TOKEN_EXPIRED, DELEGATION_TOKEN_OWNER_MISMATCH.
    """
    if token.is_expired(now_ms):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    _require_owner_or_renewer(token, principal)
    lifetime_ms = min(lifetimes.expiry_ms, period_ms) if period_ms > 0 else lifetimes.expiry_ms
    return token._replace(expiry_ms=min(token.max_ms, now_ms + lifetime_ms))


def expire(token: DelegationToken, principal: str, period_ms: int, now_ms: int) -> DelegationToken | None:
    """The token that ends in `period_ms`; None, if negative, for its deletion.

    Raises KafkaError: DELEGATION_TOKEN_OWNER_MISMATCH, DELEGATION_TOKEN_EXPIRED.
    """
    _require_owner_or_renewer(token, principal)
    if period_ms < 0:
        return None
    if token.is_expired(now_ms):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    return token._replace(expiry_ms=min(token.max_ms, now_ms + period_ms))


def _require_owner_or_renewer(token: DelegationToken, principal: str) -> None:
    if not token.is_owned_or_renewed_by(principal):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def expired(tokens: Tokens, now_ms: int) -> Iterator[str]:
    """The ids of tokens that have ended, for their deletion."""
    return (token.token_id for token in tokens.values() if token.is_expired(now_ms))


def is_described(
    token: DelegationToken,
    principal: str,
    owners: AbstractSet[str] | None,
    may_describe: Callable[[DelegationToken], bool],
) -> bool:
    """Whether a description of these owners' tokens (None: of all) shows a token to a principal.

    Owners, requesters and renewers see their tokens; `may_describe` decides about others.
    """
    concerned = (token.owner, token.requester, *token.renewers)
    if owners is not None and owners.isdisjoint(concerned):
        return False
    return principal in concerned or may_describe(token)


def _violation(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.POLICY_VIOLATION, sentence)
