"""The login of a client as an exchange: SaslHandshake 1, then SaslAuthenticate until both sides are content.

    session = yield from log_in(peer, "PLAIN", plain("alice", Secret("...")))

The same exchange renews a session on an open connection (KIP-368). Source: Kafka's `SaslClientAuthenticator`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple

from headgate.protocol.client.connection import ClientConnection, Exchange
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from headgate.protocol.messages.sasl_handshake import SaslHandshakeRequest
from headgate.protocol.security.sasl.client_tokens import MAX_CHALLENGE_BYTES, ClientTokens, LoginFailed

_HANDSHAKE: Final = 1
_MAX_TOKENS: Final = 32
"""Tokens of one login. Kerberos needs three or four."""
_RENEWAL_PERCENT: Final = 85


class LoginSession(NamedTuple):
    """The session that a login has begun. `lifetime_ms`: 0 without an end."""

    lifetime_ms: int

    @property
    def renew_after_ms(self) -> int | None:
        """When a client logs in again on the same connection, as soon as Kafka's clients; None: never."""
        return self.lifetime_ms * _RENEWAL_PERCENT // 100 if self.lifetime_ms > 0 else None


def log_in(peer: ClientConnection, mechanism: str, tokens: ClientTokens) -> Exchange[LoginSession]:
    """Log in on a connection whose versions are known. Raises LoginFailed; the connection must close then."""
    version = _authenticate_version(peer)
    _check_handshake(mechanism, (yield SaslHandshakeRequest(mechanism), _HANDSHAKE))
    token = next(tokens)
    for _ in range(_MAX_TOKENS):
        answer = yield SaslAuthenticateRequest(token), version
        challenge = _challenge_of(mechanism, answer)
        try:
            token = tokens.send(challenge)
        except StopIteration:
            return LoginSession(answer.session_lifetime_ms)
    raise LoginFailed(f"the login by {mechanism} does not end")


def _authenticate_version(peer: ClientConnection) -> int:
    try:
        return peer.latest_usable_version(SaslAuthenticateRequest)
    except KafkaError:
        raise LoginFailed(
            "the broker does not know SaslAuthenticate, which Kafka has since 1.0; use a newer broker, or no login"
        ) from None


def _check_handshake(mechanism: str, answer: Any) -> None:
    if answer.error_code == ErrorCode.NONE:
        return
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = _listed(answer.mechanisms)
        raise LoginFailed(f"the broker offers {offered}, not {mechanism}; set sasl.mechanism to one that it offers")
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise LoginFailed(
            "the broker asks for no login on this port; set security.protocol to SSL or PLAINTEXT, or use the port of a"
            " listener with SASL"
        )
    raise LoginFailed(f"the broker refuses SaslHandshake: {_name_of(answer.error_code)}")


def _challenge_of(mechanism: str, answer: Any) -> bytes:
    if answer.error_code != ErrorCode.NONE:
        reason = (answer.error_message or _name_of(answer.error_code))[:1000]
        raise LoginFailed(f"the broker refuses the login by {mechanism}: {reason}")
    if len(answer.auth_bytes) > MAX_CHALLENGE_BYTES:
        raise LoginFailed(
            f"the broker's challenge has {len(answer.auth_bytes)} bytes; the limit is {MAX_CHALLENGE_BYTES}"
        )
    return bytes(answer.auth_bytes)


def _listed(mechanisms: Collection[str]) -> str:
    return ", ".join(sorted(mechanisms))[:300] or "no mechanism"


def _name_of(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"
