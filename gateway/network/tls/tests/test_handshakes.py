"""Failures of handshakes in words. `test_tls_driver.py` has whole handshakes."""

from __future__ import annotations

import ssl

import pytest

from headgate.gateway.network.tls.handshakes import refusal


def error_of(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}]")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    "reason, sentence",
    [
        ("TLSV1_ALERT_UNKNOWN_CA", "the client does not trust this broker's certificate: give the client the CA of it"),
        (
            "PEER_DID_NOT_RETURN_A_CERTIFICATE",
            "the client sent no certificate, and ssl.client.auth=required",
        ),
        ("NO_SHARED_CIPHER", "the client has none of the cipher suites of this listener (ssl.cipher.suites)"),
        ("BAD_RECORD_TYPE", "bad record type"),
    ],
)
def test_a_failure_names_its_cure(reason: str, sentence: str) -> None:
    assert str(refusal(error_of(reason))).startswith(f"the TLS handshake failed: {sentence}")
