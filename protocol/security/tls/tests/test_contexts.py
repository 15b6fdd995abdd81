"""Contexts of listeners and clients, by handshakes in memory."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headgate.protocol.security.tls import contexts, stores
from headgate.protocol.security.tls.settings import TlsProblem
from headgate.protocol.security.tls.store_files import StoreFiles
from headgate.protocol.security.tls.tests.certificates import (
    CLIENT_AUTH,
    NOW,
    SERVER_AUTH,
    Authority,
    Issued,
    pem,
    rsa_key,
)
from headgate.protocol.security.tls.tests.handshakes import FILES, client, connect, nothing, server, settings_of

ROOT = Authority("Root")
INTERMEDIATE = Authority("Intermediate", ROOT)
BROKER = INTERMEDIATE.issue("broker")
CLIENT = INTERMEDIATE.issue("client", hosts=(), usage=[CLIENT_AUTH])
ALL_NEW_SUITES = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")


@pytest.mark.parametrize(
    "of_server, of_client, version",
    [
        (("TLSv1.2", "TLSv1.3"), ("TLSv1.2", "TLSv1.3"), "TLSv1.3"),
        ((), ("TLSv1.2",), "TLSv1.2"),
        (("TLSv1.2",), (), "TLSv1.2"),
        (("TLSv1.3",), (), "TLSv1.3"),
        (("TLSv1.1", "TLSv1.2"), (), "TLSv1.2"),
    ],
)
def test_the_newest_protocol_of_both_is_spoken(
    of_server: tuple[str, ...], of_client: tuple[str, ...], version: str
) -> None:
    connection = connect(server(BROKER, enabled_protocols=of_server), client(None, ROOT, enabled_protocols=of_client))
    assert connection.server.version() == version


def test_without_a_protocol_in_common_there_is_no_connection() -> None:
    with pytest.raises(ssl.SSLError, match=r"(?i)protocol"):
        connect(server(BROKER, enabled_protocols=("TLSv1.2",)), client(None, ROOT, enabled_protocols=("TLSv1.3",)))


@pytest.mark.parametrize(
    "suites, version, cipher",
    [
        (("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",), "TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        (
            ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
            "TLSv1.2",
            "ECDHE-ECDSA-CHACHA20-POLY1305",
        ),
        (ALL_NEW_SUITES, "TLSv1.3", "TLS_AES_256_GCM_SHA384"),
        ((*ALL_NEW_SUITES, "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"), "TLSv1.3", "TLS_AES_256_GCM_SHA384"),
    ],
)
def test_the_first_suite_of_the_server_is_taken(suites: tuple[str, ...], version: str, cipher: str) -> None:
    connection = connect(server(BROKER, cipher_suites=suites), client(None, ROOT))
    assert (connection.server.version(), connection.server.cipher()[0]) == (version, cipher)  # type: ignore[index]


@pytest.mark.parametrize(
    "fields, sentence",
    [
        ({"cipher_suites": ("TLS_X", "TLS_Y")}, "ssl.cipher.suites: TLS_X, TLS_Y: no such cipher suite is served"),
        (
            {"cipher_suites": ALL_NEW_SUITES, "enabled_protocols": ("TLSv1.2",)},
            "ssl.cipher.suites has no suite of a protocol in ssl.enabled.protocols",
        ),
        ({"enabled_protocols": ("TLSv1.1", "TLSv1")}, "ssl.enabled.protocols=TLSv1.1,TLSv1 are too old"),
        ({"enabled_protocols": ("TLSv1.2", "TLS")}, "ssl.enabled.protocols has TLS, which does not exist"),
        ({"protocol": "X"}, "ssl.protocol=X does not exist"),
        ({"client_auth": "required"}, "ssl.client.auth=required needs a trust store with the authority of the clients"),
    ],
)
def test_settings_that_cannot_be_served_are_refused(fields: dict[str, object], sentence: str) -> None:
    with pytest.raises(TlsProblem) as refused:
        server(BROKER, None, **fields)
    assert str(refused.value).startswith(sentence)


@pytest.mark.skipif(hasattr(ssl.SSLContext, "set_ciphersuites"), reason="this Python can choose")
def test_some_suites_of_tls_1_3_are_refused_by_name() -> None:
    with pytest.raises(TlsProblem, match="cannot choose; add TLS_CHACHA20_POLY1305_SHA256, TLS_AES_128_GCM_SHA256, or"):
        server(BROKER, cipher_suites=("TLS_AES_256_GCM_SHA384",))
    server(
        BROKER,
        cipher_suites=("TLS_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"),
        enabled_protocols=("TLSv1.2",),
    )


def test_a_listener_without_a_key_store_is_refused() -> None:
    with pytest.raises(TlsProblem, match=r"there is no key store; set ssl\.keystore\.location"):
        server(None)


@pytest.mark.slow
def test_a_short_key_is_refused_in_words() -> None:
    with pytest.raises(TlsProblem, match="the key store cannot be used: its key is too short, RSA needs 2048 bits"):
        server(ROOT.issue(key=rsa_key(1024)))


@pytest.mark.parametrize(
    "client_auth, issued, expected",
    [
        ("none", CLIENT, None),
        ("requested", None, None),
        ("requested", CLIENT, CLIENT.der),
        ("required", CLIENT, CLIENT.der),
    ],
)
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_client_shows_its_certificate_if_it_is_asked(
    client_auth: str, issued: Issued | None, expected: bytes | None, version: str
) -> None:
    context = server(BROKER, ROOT, client_auth=client_auth, enabled_protocols=(version,))
    assert connect(context, client(issued, ROOT)).certificate == expected


@pytest.mark.parametrize(
    "issued",
    [
        None,
        Authority("Other").issue("client"),
        ROOT.issue("client", usage=[SERVER_AUTH]),
        Issued(CLIENT.key, CLIENT.chain[:1]),
    ],
)
def test_a_client_without_a_trusted_certificate_is_refused(issued: Issued | None) -> None:
    with pytest.raises(ssl.SSLError, match=r"(?i)certificate"):
        connect(server(BROKER, ROOT, client_auth="required"), client(issued, ROOT))


def test_an_expired_certificate_of_a_client_is_refused() -> None:
    expired = ROOT.issue("client", days=(-9, -1))
    settings = settings_of(expired, ROOT)
    key_store = stores.read_key_store(settings, nothing, expired.certificate.not_valid_before_utc)
    of_client = contexts.client_context(settings, key_store, stores.read_trust_store(settings, nothing, NOW), FILES)
    with pytest.raises(ssl.SSLError, match="certificate has expired"):
        connect(server(BROKER, ROOT, client_auth="requested"), of_client)


@pytest.mark.parametrize("trusted", [ROOT.pem(), INTERMEDIATE.pem(), pem([CLIENT.certificate])])
def test_any_trusted_certificate_ends_a_chain_as_in_java(trusted: str) -> None:
    assert connect(server(BROKER, trusted, client_auth="required"), client(CLIENT, ROOT)).certificate == CLIENT.der


@pytest.mark.parametrize(
    "host, algorithm, is_accepted",
    [
        ("localhost", "https", True),
        ("127.0.0.1", "HTTPS", True),
        ("other.example", "https", False),
        ("other.example", "", True),
    ],
)
def test_a_client_checks_the_name_of_the_host(host: str, algorithm: str, is_accepted: bool) -> None:
    context = client(None, ROOT, endpoint_identification_algorithm=algorithm)
    if is_accepted:
        connect(server(BROKER), context, host)
        return
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        connect(server(BROKER), context, host)


def test_other_checks_of_hosts_are_refused() -> None:
    with pytest.raises(
        TlsProblem, match=r"ssl\.endpoint\.identification\.algorithm=LDAPS is not supported; write https"
    ):
        client(None, ROOT, endpoint_identification_algorithm="LDAPS")


def test_a_client_without_a_trust_store_trusts_public_authorities() -> None:
    context = client(None, None)
    assert context.verify_mode is ssl.CERT_REQUIRED
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(server(BROKER), context)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("has_tickets", [True, False])
def test_a_session_is_resumed_with_the_clients_certificate(version: str, has_tickets: bool) -> None:
    of_server = server(BROKER, ROOT, client_auth="required", enabled_protocols=(version,))
    of_client = client(CLIENT, ROOT)
    if not has_tickets:
        of_client.options |= ssl.OP_NO_TICKET
    first = connect(of_server, of_client)
    second = connect(of_server, of_client, session=first.client.session)
    assert second.client.session_reused
    assert second.certificate == CLIENT.der
    # Tickets leave nothing here
    assert of_server.session_stats()["number"] == (0 if has_tickets or version == "TLSv1.3" else 1)


def test_another_context_resumes_no_session() -> None:
    of_client = client(CLIENT, ROOT)
    first = connect(server(BROKER, ROOT, client_auth="required"), of_client)
    second = connect(server(BROKER, ROOT, client_auth="required"), of_client, session=first.client.session)
    assert not second.client.session_reused


def test_a_client_cannot_renegotiate() -> None:
    assert server(BROKER).options & ssl.OP_NO_RENEGOTIATION
    assert server(BROKER).options & ssl.OP_NO_COMPRESSION


class SpyingFiles(StoreFiles):
    """Keeps what was written, and where."""

    def __init__(self) -> None:
        self.written: list[tuple[str, bytes]] = []

    @contextmanager
    def private_file(self, content: bytes) -> Iterator[str]:
        with super().private_file(content) as path:
            self.written.append((str(Path(path).readlink()) if path.startswith("/proc") else path, content))
            yield path


def test_no_key_comes_to_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    settings, files = settings_of(BROKER, None), SpyingFiles()
    key_store = stores.read_key_store(settings, nothing, NOW)
    contexts.server_context(settings, key_store, None, files)
    monkeypatch.delattr(os, "memfd_create")
    contexts.server_context(settings, key_store, None, files)
    (memory, first), (path, second) = files.written
    assert memory.startswith("/memfd:headgate")
    assert not Path(path).exists()
    for content in (first, second):
        assert b"BEGIN ENCRYPTED PRIVATE KEY" in content
        assert b"BEGIN PRIVATE KEY" not in content
