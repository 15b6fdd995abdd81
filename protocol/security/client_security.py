"""How a client reaches a broker: TLS, a login, both or neither, from Kafka's client properties.

    security = ClientSecurity.of_properties({"security.protocol": "SASL_SSL", ...})
    if security.has_tls:
        socket = security.ssl_context().wrap_socket(socket, server_hostname=host)
    ...                                         # ApiVersions: `peer.negotiate`
    if security.has_login:
        session = drive(security.log_in(peer, host))

A program that must not block takes `begin_login(host)` in a thread, and drives the rest: `log_in` of `sasl.login`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from headgate.protocol.client.connection import ClientConnection, Exchange
from headgate.protocol.security import client_properties as names
from headgate.protocol.security.sasl import login
from headgate.protocol.security.sasl.client_login import ClientLogin, InvalidLogin, make_login
from headgate.protocol.security.sasl.client_seams import ClientSeams, system
from headgate.protocol.security.sasl.client_tokens import ClientTokens
from headgate.protocol.security.sasl.jaas import KERBEROS_MODULE
from headgate.protocol.security.sasl.login import LoginSession
from headgate.protocol.security.secret import Secret
from headgate.protocol.security.tls.settings import TlsSettings, of_texts

if TYPE_CHECKING:
    import ssl

    from headgate.protocol.security.tls.store_files import FileIdentity

PLAINTEXT: Final = "PLAINTEXT"
PROTOCOLS: Final = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_DEFAULT_MECHANISM: Final = "GSSAPI"


class InvalidClientSecurity(ValueError):
    """Properties or stores that no connection can be made with: one sentence with the setting, without a secret."""


class ClientSecurity:
    """The security of a client's connections. Methods may be called from several threads."""

    def __init__(
        self,
        protocol: str = PLAINTEXT,
        tls: TlsSettings | None = None,
        login: ClientLogin | None = None,
        seams: ClientSeams | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """`protocol` is one of PROTOCOLS. `login` is needed for the protocols with SASL.

        `properties`: those that the others come from; only with them a copy can go to another process.
        """
        assert protocol in PROTOCOLS, protocol
        assert (login is not None) == protocol.startswith("SASL_"), protocol
        self.protocol = protocol
        self.tls = tls or TlsSettings()
        self._login = login
        self.properties = dict(properties or {})
        self._seams = seams or system()
        self._context: tuple[dict[str, FileIdentity | None], ssl.SSLContext] | None = None

    @classmethod
    def of_properties(cls, properties: Mapping[str, str], seams: ClientSeams | None = None) -> ClientSecurity:
        """The security that Kafka's client properties describe; its stores are read. Raises InvalidClientSecurity."""
        security = _made(properties, seams)
        if security.has_tls:
            security.ssl_context()
        return security

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy reads its stores at its first connection, where it is then."""
        if self.protocol != PLAINTEXT and not self.properties:
            raise TypeError("only a security of properties can be pickled")
        return _made, (self.properties,)

    def __eq__(self, other: object) -> bool:
        is_same = isinstance(other, ClientSecurity) and (self.protocol, self.tls) == (other.protocol, other.tls)
        return is_same and self.properties == cast("ClientSecurity", other).properties

    def __hash__(self) -> int:
        return hash((self.protocol, *sorted(self.properties.items())))

    def __repr__(self) -> str:
        by = "" if self._login is None else f", {self._login}"
        return f"ClientSecurity({self.protocol}{by})"

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def has_login(self) -> bool:
        return self._login is not None

    @property
    def mechanism(self) -> str:
        """The SASL mechanism; empty without a login."""
        return "" if self._login is None else self._login.mechanism

    @property
    def password(self) -> tuple[str, Secret] | None:
        """The user and the password of a login by PLAIN or SCRAM."""
        return None if self._login is None else self._login.password

    @property
    def shows_certificate(self) -> bool:
        """Whether the client has a key store."""
        return self.tls.keystore_location is not None or self.tls.keystore_key is not None

    def ssl_context(self) -> ssl.SSLContext:
        """The context for a new connection; stores are read again after a change. Raises InvalidClientSecurity."""
        # Not at the head: a client without TLS does not import `cryptography`
        from headgate.protocol.security.tls import contexts, stores
        from headgate.protocol.security.tls.settings import TlsProblem
        from headgate.protocol.security.tls.store_files import is_reload_due

        files, paths = self._seams.files, (self.tls.keystore_location, self.tls.truststore_location)
        present = {path: files.identity(path) for path in paths if path is not None}
        if self._context is not None and not is_reload_due(self._context[0], present):
            return self._context[1]
        now = dt.datetime.fromtimestamp(self._seams.now_ms() / 1000, dt.UTC)
        try:
            key_store = stores.read_key_store(self.tls, files.read, now)
            trust_store = stores.read_trust_store(self.tls, files.read, now)
            context = contexts.client_context(self.tls, key_store, trust_store, files)
        except TlsProblem as error:
            raise InvalidClientSecurity(str(error)) from None
        self._context = (present, context)
        return context

    def begin_login(self, host: str) -> ClientTokens:
        """The tokens of a new login at a broker; files are read, and the KDC or a server of tokens is asked.

        `host`: the name by which the client reaches the broker. Raises LoginFailed.
        """
        assert self._login is not None, "the protocol has no login"
        return self._login.begin(host)

    def log_in(self, peer: ClientConnection, host: str) -> Exchange[LoginSession]:
        """Log in, or renew the session, on a connection whose versions are known. Raises LoginFailed."""
        return (yield from login.log_in(peer, self.mechanism, self.begin_login(host)))


def _made(properties: Mapping[str, str], seams: ClientSeams | None = None) -> ClientSecurity:
    """The security of properties, before its stores are read. Raises InvalidClientSecurity."""
    seams = seams or system()
    for problem in names.problems(properties):
        raise InvalidClientSecurity(problem)
    protocol = _protocol(properties)
    login = _login(properties, seams) if protocol.startswith("SASL_") else None
    is_secure = protocol != PLAINTEXT
    own = {name: value for name, value in properties.items() if is_secure and name.startswith(names.PREFIXES)}
    return ClientSecurity(protocol, of_texts(properties), login, seams, own)


def _protocol(properties: Mapping[str, str]) -> str:
    given = properties.get(names.PROTOCOL, "").strip()
    if not given:
        others = [name for name in properties if name.startswith(names.PREFIXES) and name != names.PROTOCOL]
        if others:
            wanted = "SSL" if all(name.startswith("ssl.") for name in others) else "SASL_SSL"
            raise InvalidClientSecurity(f"{others[0]} is set without {names.PROTOCOL}; set {names.PROTOCOL}={wanted}")
        return PLAINTEXT
    if given.upper() not in PROTOCOLS:
        raise InvalidClientSecurity(f"{names.PROTOCOL}={given[:100]} does not exist; use one of {', '.join(PROTOCOLS)}")
    return given.upper()


def _login(properties: Mapping[str, str], seams: ClientSeams) -> ClientLogin:
    line = properties.get(names.JAAS_CONFIG, "")
    mechanism = properties.get(names.MECHANISM, "").strip()
    try:
        return make_login(mechanism or _DEFAULT_MECHANISM, Secret(line), properties, seams)
    except InvalidLogin as error:
        is_meant = bool(mechanism) or KERBEROS_MODULE in line
        missing = "" if is_meant else f"{names.MECHANISM} is missing, and means {_DEFAULT_MECHANISM}: "
        raise InvalidClientSecurity(f"{missing}{error}") from None
