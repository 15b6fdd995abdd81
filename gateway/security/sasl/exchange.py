"""The interface of a SASL mechanism: tokens of one client in, challenges or a name out. Sans-IO.

    step = exchange.step(token)         # raises AuthenticationFailed
    if isinstance(step, SaslComputation):   # a thread calls step.run(), which returns a Challenge or an Authenticated
        step = step.run()

An exchange serves one login. After an `Authenticated` or a failure, the exchange must not be used again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias


class Challenge(NamedTuple):
    """A token for the client; the client answers with its next token."""

    token: bytes

    def __repr__(self) -> str:
        return f"Challenge(<{len(self.token)} bytes>)"


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The end of a successful login. `token` is the last token for the client, and may be empty.

    `name`: the name of the principal, without its type. `expires_at_ms`: wall-clock time at which the credential ends.
    `is_by_delegation_token`: a delegation token took the place of a password (KIP-48).
    """

    name: str
    token: bytes = field(default=b"", repr=False)
    expires_at_ms: int | None = None
    is_by_delegation_token: bool = False


@dataclass(frozen=True, slots=True)
class SaslComputation:
    """A step that takes milliseconds, for a thread. `run` raises AuthenticationFailed."""

    run: Callable[[], Challenge | Authenticated] = field(repr=False)


SaslStep: TypeAlias = Challenge | Authenticated | SaslComputation


class SaslExchange(Protocol):
    """One login by one mechanism."""

    def step(self, token: bytes) -> SaslStep:
        """Take a token of the client. Raises AuthenticationFailed."""


class AuthenticationFailed(Exception):
    """A login was refused. The text is the reason for the log, and has no secret.

    `client_message`: the sentence for the client, in Kafka's words. Without it, the client gets the same general
    sentence for every reason, so that the client learns nothing about users. Kafka's classes for the two are
    `SaslAuthenticationException` and `SaslException`. `is_retriable`: the client may try again with the same
    credentials; Kafka then closes the connection without an answer.
    """

    def __init__(
        self, reason: str, *, client_message: str | None = None, is_retriable: bool = False, user: str = ""
    ) -> None:
        """`user`: the name that the client claims, for the audit log."""
        super().__init__(reason)
        self.user = user
        self.client_message = client_message
        self.is_retriable = is_retriable


def refused(client_message: str, user: str = "") -> AuthenticationFailed:
    """The failure whose reason the client may read."""
    return AuthenticationFailed(client_message, client_message=client_message, user=user)
