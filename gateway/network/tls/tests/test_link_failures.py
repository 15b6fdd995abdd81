"""Failures of links over TLS, in words."""

from __future__ import annotations

import ssl
from typing import Any, cast

import pytest

from headgate.gateway.network.links import Link
from headgate.gateway.network.tls.link_failures import explain, report


class RefusedLink:
    """Notes refusals."""

    def __init__(self) -> None:
        self.refusals: list[str] = []

    def refused(self, reason: str) -> None:
        self.refusals.append(reason)


def error(reason: str, kind: type[ssl.SSLError] = ssl.SSLError) -> ssl.SSLError:
    made: Any = kind(1, f"[SSL: {reason}] text")
    made.reason = reason
    return cast("ssl.SSLError", made)


@pytest.mark.parametrize(
    "reason,text,is_refusal",
    [
        ("TLSV1_ALERT_UNKNOWN_CA", "it does not trust the certificate of this broker", True),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "it asks for a certificate", True),
        ("WRONG_VERSION_NUMBER", "it does not speak TLS there", True),
        ("SSLV3_ALERT_BAD_RECORD_MAC", "the TLS handshake failed: sslv3 alert bad record mac", False),
        ("UNEXPECTED_EOF_WHILE_READING", "it has closed the connection", False),
    ],
)
def test_what_settings_cause_is_a_refusal(reason: str, text: str, is_refusal: bool) -> None:
    link = RefusedLink()
    found = report(cast("Link", link), explain(error(reason)))
    assert text in found
    assert link.refusals == [found] * is_refusal


def test_a_refused_certificate_is_a_refusal() -> None:
    link, made = RefusedLink(), error("CERTIFICATE_VERIFY_FAILED", ssl.SSLCertVerificationError)
    cast("Any", made).verify_message = "certificate has expired"
    found = report(cast("Link", link), explain(made))
    assert link.refusals == [found]
    assert found.startswith("its certificate is refused: certificate has expired; the trust store of this broker")
