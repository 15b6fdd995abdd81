"""The security of a client from its properties."""

from __future__ import annotations

import ssl
import sys
from pathlib import Path

import pytest

from headgate.protocol.client.connection import ClientConnection
from headgate.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headgate.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from headgate.protocol.schema import Versions
from headgate.protocol.security.client_security import ClientSecurity, InvalidClientSecurity
from headgate.protocol.security.tls.tests.certificates import Authority

LINE = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="hush";'
PLAIN = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": LINE}
TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": Authority().pem()}


def test_without_properties_a_client_is_plain() -> None:
    security = ClientSecurity.of_properties({"bootstrap.servers": "a:1"})
    assert (security.protocol, security.has_tls, security.has_login, security.mechanism) == (
        "PLAINTEXT",
        False,
        False,
        "",
    )


def test_a_client_over_tls_and_sasl_has_both() -> None:
    security = ClientSecurity.of_properties({"security.protocol": "sasl_ssl", **PLAIN, **TRUST})
    assert (security.has_tls, security.has_login, security.mechanism) == (True, True, "PLAIN")
    context = security.ssl_context()
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert security.ssl_context() is context
    assert repr(security) == "ClientSecurity(SASL_SSL, PLAIN)"


def test_a_login_runs_over_a_connection() -> None:
    security = ClientSecurity.of_properties({"security.protocol": "SASL_PLAINTEXT", **PLAIN})
    peer = ClientConnection()
    peer.served_versions = {17: Versions(0, 1), 36: Versions(0, 2)}
    for _ in range(2):  # the second one renews the session
        exchange = security.log_in(peer, "host")
        assert next(exchange) == (SaslHandshakeRequest("PLAIN"), 1)
        assert exchange.send(SaslHandshakeResponse()) == (SaslAuthenticateRequest(b"\0alice\0hush"), 2)
        with pytest.raises(StopIteration) as end:
            exchange.send(SaslAuthenticateResponse(session_lifetime_ms=1000))
        assert end.value.value.renew_after_ms == 850


@pytest.mark.parametrize(
    "properties, sentence",
    [
        ({"ssl.truststore.location": "/x"}, "ssl.truststore.location is set without security.protocol; set .*=SSL"),
        (PLAIN, "sasl.mechanism is set without security.protocol; set security.protocol=SASL_SSL"),
        ({"security.protocol": "TLS"}, "security.protocol=TLS does not exist; use one of PLAINTEXT, SSL"),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/none"},
            "ssl.truststore.location=/none: there is no",
        ),
        ({"security.protocol": "SSL", "ssl.trust.location": "/none"}, "nearest name is ssl.truststore.location"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "sasl.jaas.config is missing"),
        (
            {"security.protocol": "SASL_SSL", "sasl.jaas.config": LINE},
            "sasl.mechanism is missing, and means GSSAPI: .*PlainLoginModule is not for GSSAPI",
        ),
    ],
)
def test_a_mistake_is_one_sentence_without_a_secret(properties: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidClientSecurity, match=sentence) as refused:
        ClientSecurity.of_properties(properties)
    assert "hush" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_mechanism_of_kerberos_needs_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    line = "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true;"
    properties = {"security.protocol": "SASL_SSL", "sasl.jaas.config": line, "sasl.kerberos.service.name": "kafka"}
    with pytest.raises(InvalidClientSecurity, match=r"^sasl\.jaas\.config: GSSAPI needs the extra `kerberos`"):
        ClientSecurity.of_properties(properties)


def test_a_replaced_store_is_read_again(tmp_path: Path) -> None:
    file, new = tmp_path / "ca.pem", tmp_path / "new.pem"
    file.write_text(Authority().pem())
    properties = {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": str(file)}
    security = ClientSecurity.of_properties(properties)
    first = security.ssl_context()
    new.write_text(Authority("Another").pem())
    new.replace(file)
    second = security.ssl_context()
    assert second is not first
    assert security.ssl_context() is second
