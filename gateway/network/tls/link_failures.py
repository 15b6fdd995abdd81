"""Why a link over TLS cannot be made, in words: the log of the broker that connects names the cure."""

from __future__ import annotations

import ssl
from typing import Final

from headgate.gateway.network.links import Link
from headgate.gateway.network.tls.tls_socket import TlsError, reason_of

HANDSHAKE_TIMEOUT_MS: Final = 10_000.0
TIMED_OUT: Final = f"the TLS handshake did not end within {HANDSHAKE_TIMEOUT_MS / 1000:.0f} s"
_REFUSED: Final = "CERTIFICATE_VERIFY_FAILED"
_CUT: Final = "UNEXPECTED_EOF_WHILE_READING"
_UNTRUSTED: Final = (
    "it does not trust the certificate of this broker: its trust store needs the authority of that certificate, which"
    " must be for clients too"
)
_REASONS: Final = {
    "TLSV1_ALERT_UNKNOWN_CA": _UNTRUSTED,
    "TLSV1_ALERT_DECRYPT_ERROR": _UNTRUSTED,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _UNTRUSTED,
    "SSLV3_ALERT_BAD_CERTIFICATE": _UNTRUSTED,
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": _UNTRUSTED,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it finds the certificate of this broker expired",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it asks for a certificate (ssl.client.auth=required), and this broker has no"
    " key store",
    "WRONG_VERSION_NUMBER": "it does not speak TLS there: the listener between brokers needs the same security protocol"
    " on all brokers",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "it has no protocol or cipher suite of this broker (ssl.enabled.protocols,"
    " ssl.cipher.suites)",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it has no TLS version of ssl.enabled.protocols",
}
"""Reasons that settings have: another attempt soon would have the same end."""


def explain(error: ssl.SSLError) -> TlsError:
    """The failure of a handshake with another broker, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        failure = TlsError(
            f"its certificate is refused: {error.verify_message}; the trust store of this broker needs its authority,"
            " and the certificate the host name of the advertised listener"
        )
        failure.alert = _REFUSED
        return failure
    failure = TlsError(_REASONS.get(error.reason or "") or f"the TLS handshake failed: {reason_of(error)}")
    failure.alert = error.reason or ""
    return failure


def report(link: Link, error: TlsError) -> str:
    """The reason of a failure, for the requests of the link. What settings cause is a refusal."""
    if error.alert == _CUT:
        return "it has closed the connection"
    reason = _REASONS.get(error.alert) or str(error)
    if error.alert in _REASONS or error.alert == _REFUSED:
        link.refused(reason)
    return reason
