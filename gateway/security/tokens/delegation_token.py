"""Delegation tokens as values, and their metadata records.

A token has no secret of its own: the secret is an HMAC of the token's id (`token_secrets`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from headgate.protocol.internal.metadata import DelegationTokenRecord

USER_TYPE: Final = "User"


class DelegationToken(NamedTuple):
    """A token whose bearer acts as `owner`. Principals are as `User:alice`; times in ms since 1970.

    `requester` has made the token, for the owner. `renewers` may renew it up to `max_ms`. From `expiry_ms` on no client
    can log in by the token.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    max_ms: int
    expiry_ms: int

    def is_owned_or_renewed_by(self, principal: str) -> bool:
        """Whether the principal may renew and expire the token. The requester for another owner may not."""
        return principal == self.owner or principal in self.renewers

    def is_expired(self, now_ms: int) -> bool:
        """Whether the token has ended: nothing but its deletion is possible."""
        return self.max_ms < now_ms or self.expiry_ms < now_ms


def parts_of(principal: str) -> tuple[str, str]:
    """The type and the name of a principal."""
    kind, _, name = principal.partition(":")
    return kind, name


Tokens: TypeAlias = Mapping[str, DelegationToken]
"""Tokens by id. Such a mapping never changes."""

NO_TOKENS: Tokens = {}


def token_of(record: DelegationTokenRecord) -> DelegationToken:
    """The token of a record. A record of Kafka before KIP-373 has no requester: the owner has made the token."""
    return DelegationToken(
        record.token_id,
        record.owner,
        record.requester or record.owner,
        tuple(record.renewers),
        record.issue_timestamp,
        record.max_timestamp,
        record.expiration_timestamp,
    )


def record_of(token: DelegationToken) -> DelegationTokenRecord:
    """The record of a token."""
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=[*token.renewers],
        issue_timestamp=token.issue_ms,
        max_timestamp=token.max_ms,
        expiration_timestamp=token.expiry_ms,
        token_id=token.token_id,
    )
