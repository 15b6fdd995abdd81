"""Sentences for errors of TLS, by handshakes in memory and by the reasons of OpenSSL."""

from __future__ import annotations

import re
import ssl

import pytest

from headgate.protocol.security.tls import contexts, stores
from headgate.protocol.security.tls.tests.certificates import DAY, NOW, Authority
from headgate.protocol.security.tls.tests.handshakes import FILES, client, connect, nothing, server, settings_of
from headgate.tools.client.tls_errors import explain, is_refusal

ROOT, OTHER = Authority(), Authority("Other")
BROKER = ROOT.issue("broker")


def failure(trusted: Authority, of_broker: ssl.SSLContext, host: str = "localhost") -> OSError:
    with pytest.raises(ssl.SSLError) as failed:
        connect(of_broker, client(None, trusted), host)
    return failed.value


def expired() -> ssl.SSLContext:
    settings = settings_of(ROOT.issue("broker", days=(-20, -5)), None)
    key_store = stores.read_key_store(settings, nothing, NOW - 10 * DAY)
    return contexts.server_context(settings, key_store, None, FILES)


def sentence(error: OSError, *, shows_certificate: bool = False) -> str:
    text = explain(error, "host:9093", shows_certificate=shows_certificate)
    assert text is not None
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    "error, words",
    [
        (failure(OTHER, server(BROKER)), "is not trusted: .*; set ssl.truststore.location"),
        (failure(ROOT, server(BROKER), "elsewhere"), "is for other names: .*; connect by a name in"),
        (failure(ROOT, expired()), "has expired; the broker needs a new one"),
    ],
)
def test_a_certificate_is_refused_with_a_cure(error: OSError, words: str) -> None:
    assert re.search(words, sentence(error))
    assert is_refusal(error)


def alert(name: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {name}]")
    error.reason = name
    return error


@pytest.mark.parametrize(
    "reason, words",
    [
        ("WRONG_VERSION_NUMBER", "does not speak TLS; set security.protocol=PLAINTEXT or SASL_PLAINTEXT"),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", "it does not speak TLS there"),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "asks for a certificate of the client .*; set ssl.keystore.location"),
        ("TLSV1_ALERT_PROTOCOL_VERSION", "see ssl.enabled.protocols"),
        ("TLSV1_ALERT_INTERNAL_ERROR", "refuses the handshake (internal error)"),
        ("SOMETHING_ELSE", "TLS with host:9093 failed: something else"),
    ],
)
def test_a_reason_of_openssl_becomes_a_sentence(reason: str, words: str) -> None:
    text = sentence(alert(reason))
    assert all(part in text for part in words.split(".*"))


def test_a_refused_certificate_of_the_client_is_named() -> None:
    assert "refuses the certificate of this client (unknown ca)" in sentence(
        alert("TLSV1_ALERT_UNKNOWN_CA"), shows_certificate=True
    )


def test_a_lost_connection_may_be_tried_again() -> None:
    for error in (ConnectionResetError(104, "reset"), ssl.SSLEOFError(8, "EOF")):
        assert "ends the connection in the TLS handshake" in sentence(error)
        assert not is_refusal(error)
    assert explain(OSError(5, "other"), "host:9093", shows_certificate=False) is None
