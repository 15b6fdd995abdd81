"""GSSAPI (RFC 4752), the server's side, as Java's `GssKrb5Server` with Kafka's callbacks. Threads make the steps.

    client token                  ->
                                  <-    token of the context, as often as Kerberos needs
    nothing                       ->
                                  <-    wrapped: the security layers (none) and a size (0)
    wrapped: the layer, a size,
    the authorization id          ->
                                  <-    nothing

The context is a seam: `gssapi` (the extra `kerberos`) in the product, a script in tests. The name of the principal is
the short name of the client (`kerberos_names`); as in Kafka, the authorization id changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from headgate.gateway.security.sasl.exchange import Authenticated, AuthenticationFailed, Challenge, SaslComputation
from headgate.gateway.security.sasl.kerberos_names import NoShortName, ShortNamer
from headgate.protocol.security.sasl.gssapi_library import GssError

NO_LAYER: Final = 1
_OFFER: Final = bytes((NO_LAYER, 0, 0, 0))
_OFFER_BYTES: Final = len(_OFFER)


class GssContext(Protocol):
    """The acceptor's side of one security context. Each call may take long, and raises GssError."""

    @property
    def is_complete(self) -> bool:
        """Whether the client is known."""

    @property
    def initiator_name(self) -> str:
        """The name of the client, such as alice@EXAMPLE.COM, once `is_complete`."""

    def step(self, token: bytes) -> bytes | None:
        """Take a token of the client; return the token for the client, if there is one."""

    def wrap(self, message: bytes) -> bytes:
        """Protect a message, without encryption."""

    def unwrap(self, message: bytes) -> bytes:
        """Check a protected message, and return its content."""


class GssapiExchange:
    """One login by GSSAPI."""

    def __init__(self, new_context: Callable[[], GssContext], short_namer: ShortNamer) -> None:
        """`new_context` is called by a thread; it raises GssError without a usable key."""
        self._new_context = new_context
        self._short_namer = short_namer
        self._context: GssContext | None = None
        self._has_offered = False

    def step(self, token: bytes) -> SaslComputation:
        """Take a token of the client. The computation raises AuthenticationFailed."""
        return SaslComputation(lambda: self._step(token))

    def _step(self, token: bytes) -> Challenge | Authenticated:
        try:
            if self._context is None:
                self._context = self._new_context()
            if not self._context.is_complete:
                return self._establish(self._context, token)
            if not self._has_offered:
                return self._offer(self._context, token)
            return self._finish(self._context, token)
        except GssError as error:
            raise AuthenticationFailed(str(error), is_retriable=error.is_retriable) from error

    def _establish(self, context: GssContext, token: bytes) -> Challenge:
        answer = context.step(token)
        if context.is_complete and not answer:
            return self._offer(context, b"")
        return Challenge(answer or b"")

    def _offer(self, context: GssContext, token: bytes) -> Challenge:
        if token:
            raise AuthenticationFailed("a GSSAPI client sent data where the offer of security layers is due")
        self._has_offered = True
        return Challenge(context.wrap(_OFFER))

    def _finish(self, context: GssContext, token: bytes) -> Authenticated:
        choice = context.unwrap(token)
        if len(choice) < _OFFER_BYTES:
            raise AuthenticationFailed("the choice of a security layer by a GSSAPI client is too short")
        if not choice[0] & NO_LAYER:
            raise AuthenticationFailed("a GSSAPI client chose a security layer that was not offered")
        try:
            return Authenticated(self._short_namer.short_name(context.initiator_name))
        except NoShortName as error:
            raise AuthenticationFailed(f"{error} (sasl.kerberos.principal.to.local.rules)") from error
