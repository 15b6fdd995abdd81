"""GSSAPI (RFC 4752), the client's side, as Java's `GssKrb5Client`: its tokens, and the credentials of a JAAS line.

client token of the context   ->
<-    token of the context, as often as Kerberos needs
nothing                       ->
<-    wrapped: the security layers and a size
wrapped: no layer             ->
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from headgate.protocol.security.sasl.client_tokens import ClientTokens, LoginFailed
from headgate.protocol.security.sasl.gssapi_library import GssError, LibraryContext, load
from headgate.protocol.security.sasl.jaas import InvalidJaasConfig

_NO_LAYER: Final = 1
_CHOICE: Final = bytes((_NO_LAYER, 0, 0, 0))
_TRUE: Final = "true"


class InitiatorContext(Protocol):
    """The initiator's side of one security context. Each call raises GssError, and the first step may take long."""

    @property
    def is_complete(self) -> bool:
        """Whether the broker is known."""

    def step(self, token: bytes | None) -> bytes | None:
        """Take a token of the broker, at first None; return the token for the broker, if there is one."""

    def wrap(self, message: bytes) -> bytes:
        """Protect a message, without encryption."""

    def unwrap(self, message: bytes) -> bytes:
        """Check a protected message, and return its content."""


def gssapi(context: InitiatorContext, first: bytes) -> ClientTokens:
    """GSSAPI without a security layer. `first`: the first token of `context`."""
    try:
        challenge = yield first
        while not context.is_complete:
            challenge = yield context.step(challenge) or b""
        offer = context.unwrap(challenge)
        choice = context.wrap(_CHOICE)
    except GssError as error:
        raise LoginFailed(str(error)) from None
    if len(offer) != len(_CHOICE) or not offer[0] & _NO_LAYER:
        raise LoginFailed("the broker demands a security layer inside of Kerberos, and Kafka has none")
    yield choice


class ClientCredentials:
    """The credentials of a JAAS line: a key table with a principal, or the cache of tickets that `kinit` has filled.

    The constructor raises InvalidJaasConfig. The files are read at each login.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._principal = options.get("principal", "")
        self._store: dict[str, str] = {}
        self._cure = "get a ticket with kinit, and see it with klist"
        key_table = options.get("keyTab", "").removeprefix("file:")
        if options.get("useKeyTab", "").lower() == _TRUE:
            if not key_table or not self._principal:
                raise InvalidJaasConfig('GSSAPI with useKeyTab=true needs keyTab="FILE" and principal="NAME@REALM"')
            self._cure = f"`klist -k {key_table}` shows whether {self._principal} has a key there"
            self._store = {"client_keytab": f"FILE:{key_table}", "ccache": f"MEMORY:headgate-{id(self)}"}
        elif options.get("useTicketCache", "").lower() != _TRUE:
            raise InvalidJaasConfig("GSSAPI needs useTicketCache=true, or useKeyTab=true with keyTab and principal")
        elif cache := options.get("ticketCache", ""):
            self._store = {"ccache": f"FILE:{cache.removeprefix('file:')}"}
        load()

    def begin(self, service: str, host: str) -> ClientTokens:
        """The tokens of a login at the service of a broker's host. Asks the KDC for tickets. Raises LoginFailed."""
        library = load()
        try:
            context = LibraryContext(library, lambda: self._new_context(library, service, host))
            return gssapi(context, context.step(None) or b"")
        except GssError as error:
            raise LoginFailed(f"{error}; {self._cure}") from None

    def _new_context(self, library: Any, service: str, host: str) -> Any:
        principal = library.Name(self._principal, library.NameType.kerberos_principal) if self._principal else None
        held = library.Credentials(name=principal, usage="initiate", store=self._store or None)
        target = library.Name(f"{service}@{host}", library.NameType.hostbased_service)
        return library.SecurityContext(name=target, creds=held, usage="initiate")
