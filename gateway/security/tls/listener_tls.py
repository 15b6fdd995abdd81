"""The TLS of one listener: its present context, the reload of its stores, and the principals of its clients.

The network takes `context` for each new connection. `reload` makes a new context from the files, and replaces the old
one only if everything is right; open connections keep theirs. As in Kafka (KIP-226), a new certificate must have the
name and the host names of the old one, unless `ssl.allow.dn.changes` or `ssl.allow.san.changes` is set.
"""

from __future__ import annotations

import datetime as dt
import ssl
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from headgate.gateway.config import BrokerConfig, ConfigError
from headgate.gateway.config.http.http_addresses import HTTP
from headgate.gateway.config.listeners import TLS_PROTOCOLS
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.security.tls import distinguished_name, principal_mapping, self_check
from headgate.gateway.security.tls.principal_mapping import PrincipalMapping, PrincipalProblem
from headgate.gateway.security.tls.settings import of_listener
from headgate.protocol.acls import ANONYMOUS
from headgate.protocol.security.tls import contexts, stores
from headgate.protocol.security.tls.settings import TlsProblem, TlsSettings
from headgate.protocol.security.tls.store_files import FileIdentity, StoreFiles, is_reload_due
from headgate.protocol.security.tls.stores import KeyStore, TrustStore

SSL: Final = "SSL"
_MS_OF_DAY = 86_400_000
_DER = serialization.Encoding.DER


class _State(NamedTuple):
    """All that a reload replaces, as one value."""

    settings: TlsSettings
    context: ssl.SSLContext
    key_store: KeyStore
    trust_store: TrustStore | None
    mapping: PrincipalMapping
    client_context: ssl.SSLContext | None


class ListenerTls:
    """TLS of one listener. Methods that read files block: the loop calls them in a thread, one at a time.

    The constructor raises TlsProblem for settings or stores that cannot be used: the broker does not start.
    `is_inter_broker`: other brokers are reached with these settings too. `security_protocol` is SSL, or SASL_SSL.
    """

    def __init__(
        self,
        settings: TlsSettings,
        clock: Clock,
        files: StoreFiles | None = None,
        *,
        is_inter_broker: bool = False,
        security_protocol: str = SSL,
    ) -> None:
        self.security_protocol = security_protocol
        self._clock = clock
        self._is_inter_broker = is_inter_broker
        self._files = files or StoreFiles()
        self._tried, self._tried_settings = self._identities(settings), settings
        self._state = self._read(settings)

    @property
    def settings(self) -> TlsSettings:
        return self._state.settings

    @property
    def context(self) -> ssl.SSLContext:
        """The context for new connections."""
        return self._state.context

    @property
    def client_context(self) -> ssl.SSLContext | None:
        """The context for new connections to other brokers; None unless they are reached with these settings."""
        return self._state.client_context

    @property
    def is_optional(self) -> bool:
        """Whether clients without TLS are served too (`headgate.ssl.optional`)."""
        return self._state.settings.is_optional

    def days_to_expiry(self) -> float:
        """Days until the first certificate of the key store expires; negative afterwards."""
        return self._days(self._state.key_store)

    def days_to_trust_expiry(self) -> float | None:
        """Days until the first trusted certificate that was valid at the last reload expires; None without a store."""
        trust_store = self._state.trust_store
        return None if trust_store is None else self._days(trust_store)

    def is_reload_due(self) -> bool:
        """Whether a file has changed since the last attempt to read it."""
        return is_reload_due(self._tried, self._identities(self._tried_settings))

    def reload(self, settings: TlsSettings | None = None) -> None:
        """Read the stores again, with new settings if there are some, for the connections from now on.

        Raises TlsProblem; then everything stays as it was.
        """
        settings = settings or self._state.settings
        # Before the files are read: a change meanwhile is due again
        self._tried, self._tried_settings = self._identities(settings), settings
        self._state = self._successor(settings)

    def check(self, settings: TlsSettings) -> None:
        """Read the stores as `reload` does, and change nothing. Raises TlsProblem."""
        self._successor(settings)

    def _successor(self, settings: TlsSettings) -> _State:
        state = self._read(settings)
        _check_same_names(settings, self._state.key_store.chain[0], state.key_store.chain[0])
        return state

    def principal_of(self, certificate: bytes | None) -> str:
        """The principal of a client with this certificate in DER, or without one. Raises PrincipalProblem."""
        if certificate is None:
            return ANONYMOUS
        try:
            name = distinguished_name.subject_of(certificate)
        except distinguished_name.MalformedName as error:
            raise PrincipalProblem(f"the subject of the client's certificate cannot be read: {error}") from None
        return f"User:{self._state.mapping.name_of(name)}"

    def _days(self, store: KeyStore | TrustStore) -> float:
        return (store.first_expiry.timestamp() * 1000 - self._clock.now_ms()) / _MS_OF_DAY

    def _identities(self, settings: TlsSettings) -> dict[str, FileIdentity | None]:
        paths = (settings.keystore_location, settings.truststore_location)
        return {path: self._files.identity(path) for path in paths if path is not None}

    def _read(self, settings: TlsSettings) -> _State:
        now = dt.datetime.fromtimestamp(self._clock.now_ms() / 1000, dt.UTC)
        try:
            key_store = stores.read_key_store(settings, self._files.read, now)
            trust_store = stores.read_trust_store(settings, self._files.read, now)
            context = contexts.server_context(settings, key_store, trust_store, self._files)
            client_context = self._client_context(settings, context, key_store, trust_store)
            mapping = _mapping(settings)
        except TlsProblem as error:
            raise _problem(settings, str(error)) from None
        assert key_store is not None, "server_context refuses a listener without one"
        return _State(settings, context, key_store, trust_store, mapping, client_context)

    def _client_context(
        self,
        settings: TlsSettings,
        server_context: ssl.SSLContext,
        key_store: KeyStore | None,
        trust_store: TrustStore | None,
    ) -> ssl.SSLContext | None:
        if not self._is_inter_broker:
            return None
        without_host = settings._replace(endpoint_identification_algorithm="")
        checking = contexts.client_context(without_host, key_store, trust_store, self._files)
        self_check.check_connects(checking, server_context)
        return contexts.client_context(settings, key_store, trust_store, self._files)


def open_all(config: BrokerConfig, clock: Clock, files: StoreFiles | None = None) -> dict[str, ListenerTls]:
    """The TLS of each listener over TLS, by the listener's name. Raises ConfigError with one sentence a problem.

    The HTTP listeners over TLS are one of them.
    """
    opened, problems = {}, []
    # With the embedded store there are no other brokers
    between_brokers = None if config.zookeeper_connect is None else config.inter_broker_listener
    for listener in config.listeners:
        protocol = config.listener_security_protocol_map[listener.name]
        if protocol in TLS_PROTOCOLS:
            try:
                settings = of_listener(config, listener.name)
                opened[listener.name] = ListenerTls(
                    settings,
                    clock,
                    files,
                    is_inter_broker=listener.name == between_brokers,
                    security_protocol=protocol,
                )
            except TlsProblem as error:
                problems.append(str(error))
    if config.secures_http:
        try:
            opened[HTTP] = ListenerTls(of_listener(config, HTTP), clock, files)
        except TlsProblem as error:
            addresses = ",".join(str(address) for address in config.headgate_http_listeners if address.has_tls)
            problems.append(f"headgate.http.listeners={addresses} needs TLS: {error}")
    if problems:
        raise ConfigError(problems)
    return opened


def _mapping(settings: TlsSettings) -> PrincipalMapping:
    try:
        return principal_mapping.parse(settings.principal_mapping_rules)
    except principal_mapping.MappingRuleProblem as error:
        raise TlsProblem(f"ssl.principal.mapping.rules: {error}") from None


def _problem(settings: TlsSettings, sentence: str) -> TlsProblem:
    return TlsProblem(f"listener {settings.listener}: {sentence}")


def _check_same_names(settings: TlsSettings, old: x509.Certificate, new: x509.Certificate) -> None:
    """Check that a certificate has the name and all host names of the one before. Raises TlsProblem."""
    names = [distinguished_name.subject_of(certificate.public_bytes(_DER)) for certificate in (old, new)]
    if names[0] != names[1] and not settings.allow_dn_changes:
        raise _problem(
            settings,
            f"the new certificate has the name {names[1][:200]!r} in place of {names[0][:200]!r}; set"
            " ssl.allow.dn.changes=true if that is meant",
        )
    missing = _alternative_names(old) - _alternative_names(new)
    if missing and not settings.allow_san_changes:
        raise _problem(
            settings,
            f"the new certificate lacks {', '.join(sorted(missing))[:200]}, which the old one has; set"
            " ssl.allow.san.changes=true if that is meant",
        )


def _alternative_names(certificate: x509.Certificate) -> set[str]:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):  # ValueError: extensions that cannot be read
        return set()
    return {str(getattr(name, "value", name)) for name in extension.value}
