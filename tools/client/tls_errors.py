"""The errors of a TLS connection to a broker, as sentences with the cure, in the words of Kafka's client properties."""

from __future__ import annotations

import ssl
from typing import Final

# OpenSSL's X509_V_ERR_*
_EXPIRED: Final = 10
_OTHER_HOST: Final = (62, 64)
_UNKNOWN_AUTHORITY: Final = (2, 18, 19, 20, 21)
_NOT_TLS: Final = (
    "WRONG_VERSION_NUMBER",
    "HTTP_REQUEST",
    "RECORD_LAYER_FAILURE",
    "UNKNOWN_PROTOCOL",
    "UNSUPPORTED_PROTOCOL",
    "PACKET_LENGTH_TOO_LONG",
)


def explain(error: OSError, address: str, *, shows_certificate: bool) -> str | None:
    """The sentence for an error of a handshake, or of a later call on its socket; None: it is no error of TLS.

    `shows_certificate`: the client has a key store.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return _explain_certificate(error, address)
    if isinstance(error, ssl.SSLEOFError | ConnectionResetError | BrokenPipeError):
        return (
            f"{address} ends the connection in the TLS handshake; its log says why, or it does not speak TLS: set"
            " security.protocol=PLAINTEXT or SASL_PLAINTEXT"
        )
    if not isinstance(error, ssl.SSLError):
        return None
    reason = error.reason or ""
    if reason in _NOT_TLS:
        return (
            f"{address} does not speak TLS; set security.protocol=PLAINTEXT or SASL_PLAINTEXT, or use the port of a"
            " listener over TLS"
        )
    if "ALERT" in reason:
        return _explain_alert(reason, address, shows_certificate=shows_certificate)
    return f"TLS with {address} failed: {reason.lower().replace('_', ' ') or error}"


def is_refusal(error: OSError) -> bool:
    """Whether the same handshake fails again: one side refuses the other, in place of a lost connection."""
    return isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError)


def _explain_certificate(error: ssl.SSLCertVerificationError, address: str) -> str:
    if error.verify_code in _OTHER_HOST:
        return (
            f"the certificate of {address} is for other names: {error.verify_message.rstrip('.')}; connect by a name in"
            " the certificate, or set ssl.endpoint.identification.algorithm= (empty) to check no name"
        )
    if error.verify_code in _UNKNOWN_AUTHORITY:
        return (
            f"the certificate of {address} is not trusted: {error.verify_message}; set ssl.truststore.location to a"
            " store with the authority that signed it"
        )
    if error.verify_code == _EXPIRED:
        return f"the certificate of {address} has expired; the broker needs a new one, or this machine's clock is wrong"
    return f"the certificate of {address} is refused: {error.verify_message}"


def _explain_alert(reason: str, address: str, *, shows_certificate: bool) -> str:
    """`reason`: OpenSSL's name, such as TLSV13_ALERT_CERTIFICATE_REQUIRED."""
    alert = reason.partition("ALERT_")[2].lower().replace("_", " ")
    if "version" in alert:
        return f"{address} speaks no TLS version that this client has; see ssl.enabled.protocols"
    if alert == "handshake failure":
        return (
            f"{address} refuses the handshake: it does not speak TLS there (set security.protocol=PLAINTEXT or"
            " SASL_PLAINTEXT), or it has no cipher suite of ssl.cipher.suites"
        )
    if not shows_certificate and "certificate" in alert:
        return f"{address} asks for a certificate of the client ({alert}); set ssl.keystore.location"
    if "certificate" in alert or "ca" in alert.split():
        return f"{address} refuses the certificate of this client ({alert}); the broker's log says why"
    return f"{address} refuses the handshake ({alert}); the broker's log says why"
