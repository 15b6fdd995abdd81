"""What a listener offers for a login: asked by SaslHandshake, before any login."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.sasl_handshake import SaslHandshakeRequest
from headgate.protocol.security.client_security import ClientSecurity
from headgate.tools.client.client import Client
from headgate.tools.doctor.check_result import OK, WRONG, CheckResult

# No mechanism has this name: the refusal lists those that the listener has
_NO_MECHANISM: Final = "HEADGATE-DOCTOR"
_UNSAFE_PLAIN: Final = "PLAIN"


class LoginOffer(NamedTuple):
    """`mechanisms`: those of the listener; None if it asks for no login."""

    mechanisms: Sequence[str] | None


def without_login(security: ClientSecurity) -> ClientSecurity:
    """The same security without its login."""
    return ClientSecurity("SSL", security.tls) if security.has_tls else ClientSecurity()


def ask_offer(address: str, security: ClientSecurity, timeout_s: float) -> LoginOffer:
    """Ask a listener, on a connection without a login. Raises ClientError."""
    with Client(address, timeout_s=timeout_s, security=without_login(security)) as client:
        if not client.serves(SaslHandshakeRequest):
            return LoginOffer(None)
        answer = client.ask(SaslHandshakeRequest(_NO_MECHANISM))
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        return LoginOffer(None)
    return LoginOffer(sorted(answer.mechanisms))


def check_offer(address: str, offer: LoginOffer, security: ClientSecurity) -> CheckResult:
    """Whether the client's login is one that the listener offers."""
    tls = "SSL" if security.has_tls else "PLAINTEXT"
    if offer.mechanisms is None:
        if not security.has_login:
            return CheckResult("login", OK, f"{address} asks for no login")
        cure = f"set security.protocol={tls}, or use the port of a listener with SASL"
        return CheckResult("login", WRONG, f"{address} asks for no login, and this client wants one", cure)
    listed = ", ".join(offer.mechanisms)[:300] or "no mechanism"
    if not security.has_login:
        cure = f"set security.protocol=SASL_{tls}, sasl.mechanism and sasl.jaas.config in the file of --command-config"
        return CheckResult("login", WRONG, f"{address} asks for a login by {listed}, and this client has none", cure)
    if security.mechanism not in offer.mechanisms:
        cure = f"set sasl.mechanism to one of {listed}, or sasl.enabled.mechanisms of the broker"
        return CheckResult("login", WRONG, f"{address} offers {listed}, not {security.mechanism}", cure)
    return CheckResult("login", OK, f"{address} offers {listed}")
