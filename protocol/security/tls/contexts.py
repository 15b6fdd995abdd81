"""`ssl.SSLContext` of a listener and of a client, from settings and stores; all of TLS itself is Python's `ssl`.

Where OpenSSL and Java differ, the choice is Java's: any trusted certificate may end a chain, not only a root, and a
client cannot renegotiate. A listener needs a key store, and client authentication a trust store: Kafka starts without,
fails every handshake without a key, and trusts clients of every public authority.

Sessions are resumed by tickets, which keep nothing here: the keys of the tickets live in the context, so a reload ends
them. Clients of TLS 1.2 without tickets (Java before 13) are resumed from OpenSSL's cache in the context, at most
SESSION_CACHE_MAX sessions for two hours, which Python cannot change: 0.8 KB each, and 10 KB of a client with a trusted
certificate. A connection that ends without close_notify leaves no session there. A resumed client has the certificate
of its first handshake.
"""

from __future__ import annotations

import ssl

from headgate.protocol.security.tls import cipher_suites
from headgate.protocol.security.tls.settings import TlsProblem, TlsSettings
from headgate.protocol.security.tls.store_files import StoreFiles
from headgate.protocol.security.tls.stores import KeyStore, TrustStore

SESSION_CACHE_MAX = 20_480
"""OpenSSL's own limit (SSL_SESSION_CACHE_MAX_SIZE_DEFAULT)."""
_TICKETS = 1
"""A ticket costs a message in each handshake; clients that resume keep one for each broker."""
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_OLD_PROTOCOLS = frozenset(("SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1"))
"""Protocols that JDK 17 accepts in the setting and disables by its own policy: Kafka on it does not serve them."""
_CONTEXT_NAMES = frozenset(("TLS", "TLSV1", "TLSV1.1", "TLSV1.2", "TLSV1.3", "SSL", "SSLV3"))
"""Values of `ssl.protocol` that Java knows. None has an effect beside `ssl.enabled.protocols`, as in Kafka."""
_VERIFY_MODES = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_REASONS = {
    "EE_KEY_TOO_SMALL": "its key is too short, RSA needs 2048 bits",
    "CA_KEY_TOO_SMALL": "the key of an issuer is too short, RSA needs 2048 bits",
    "CA_MD_TOO_WEAK": "a certificate is signed with a broken digest; SHA-256 is one that is not",
}


def server_context(
    settings: TlsSettings, key_store: KeyStore | None, trust_store: TrustStore | None, files: StoreFiles
) -> ssl.SSLContext:
    """The context of a listener. Raises TlsProblem."""
    if key_store is None:
        raise TlsProblem("there is no key store; set ssl.keystore.location, ssl.keystore.type and its password")
    context = _context(ssl.PROTOCOL_TLS_SERVER, settings)
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = _TICKETS
    _present(context, key_store, files)
    context.verify_mode = _VERIFY_MODES[settings.client_auth]
    if context.verify_mode is not ssl.CERT_NONE:
        if trust_store is None:
            raise TlsProblem(
                f"ssl.client.auth={settings.client_auth} needs a trust store with the authority of the clients;"
                " set ssl.truststore.location"
            )
        _trust(context, trust_store)
    return context


def client_context(
    settings: TlsSettings, key_store: KeyStore | None, trust_store: TrustStore | None, files: StoreFiles
) -> ssl.SSLContext:
    """The context of a client. Without a trust store it trusts the system's authorities. Raises TlsProblem."""
    algorithm = settings.endpoint_identification_algorithm
    if algorithm.lower() not in {"", "https"}:
        raise TlsProblem(
            f"ssl.endpoint.identification.algorithm={algorithm} is not supported; write https to check the name of the"
            " host, or leave it empty"
        )
    context = _context(ssl.PROTOCOL_TLS_CLIENT, settings)
    context.check_hostname = bool(algorithm)
    if key_store is not None:
        _present(context, key_store, files)
    if trust_store is None:
        context.load_default_certs()
    else:
        _trust(context, trust_store)
    return context


def _context(side: int, settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    if settings.protocol.upper() not in _CONTEXT_NAMES:
        raise TlsProblem(f"ssl.protocol={settings.protocol} does not exist; write TLSv1.3, or remove the setting")
    versions = _enabled_versions(settings.enabled_protocols)
    if settings.cipher_suites:
        versions &= _restrict_suites(context, settings.cipher_suites, versions)
        if not versions:
            raise TlsProblem("ssl.cipher.suites has no suite of a protocol in ssl.enabled.protocols; add one")
    context.minimum_version = _VERSIONS[min(versions)]
    context.maximum_version = _VERSIONS[max(versions)]
    return context


def _enabled_versions(names: tuple[str, ...]) -> set[str]:
    """The protocols to serve; no name means all, as in Kafka."""
    unknown = [name for name in names if name not in _VERSIONS and name not in _OLD_PROTOCOLS]
    if unknown:
        raise TlsProblem(
            f"ssl.enabled.protocols has {', '.join(unknown)[:200]}, which does not exist; served are TLSv1.2, TLSv1.3"
        )
    versions = {name for name in names if name in _VERSIONS}
    if names and not versions:
        raise TlsProblem(f"ssl.enabled.protocols={','.join(names)} are too old; add TLSv1.2 or TLSv1.3")
    return versions or set(_VERSIONS)


def _restrict_suites(context: ssl.SSLContext, names: tuple[str, ...], versions: set[str]) -> set[str]:
    """Limit a context to these cipher suites. Returns the protocols that have some of them."""
    try:
        suites = cipher_suites.parse(names)
    except ValueError as error:
        raise TlsProblem(f"ssl.cipher.suites: {error}") from None
    if suites.tls_1_2:
        context.set_ciphers(":".join(suites.tls_1_2))
    if suites.tls_1_3 and "TLSv1.3" in versions:
        _restrict_new_suites(context, suites.tls_1_3)
    served = {"TLSv1.2": suites.tls_1_2, "TLSv1.3": suites.tls_1_3}
    return {version for version, some in served.items() if some}


def _restrict_new_suites(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    """Limit the suites of TLS 1.3. Python can from 3.15 on; before, OpenSSL takes all of them or none."""
    if hasattr(context, "set_ciphersuites"):
        context.set_ciphersuites(":".join(names))
    elif len(names) < len(cipher_suites.TLS_1_3_SUITES):
        missing = ", ".join(name for name in cipher_suites.TLS_1_3_SUITES if name not in names)
        raise TlsProblem(
            "ssl.cipher.suites has only some suites of TLS 1.3, and Python before 3.15 cannot choose; add"
            f" {missing}, or take TLSv1.3 out of ssl.enabled.protocols"
        )


def _present(context: ssl.SSLContext, key_store: KeyStore, files: StoreFiles) -> None:
    """Load the key and its certificates."""
    password = files.one_time_password()
    try:
        with files.private_file(key_store.key_pem(password) + key_store.chain_pem()) as path:
            context.load_cert_chain(path, password=password)
    except ssl.SSLError as error:
        reason = _REASONS.get(error.reason or "", f"OpenSSL refuses it: {(error.reason or 'unknown').lower()}")
        raise TlsProblem(f"ssl.keystore: the key store cannot be used: {reason}") from None
    except OSError as error:
        raise TlsProblem(f"ssl.keystore: no private file can be made for the key: {error.strerror}") from None


def _trust(context: ssl.SSLContext, trust_store: TrustStore) -> None:
    try:
        context.load_verify_locations(cadata=trust_store.der())
    except ssl.SSLError as error:
        reason = (error.reason or "unknown").lower()
        raise TlsProblem(f"ssl.truststore: the trust store cannot be used: OpenSSL refuses it: {reason}") from None
    # As in Java, a chain may end at an intermediate certificate, or at the certificate itself
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
