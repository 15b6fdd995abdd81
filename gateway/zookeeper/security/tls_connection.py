"""A connection to ZooKeeper over TLS, for the thread that waits for it, and the reasons of failures, in words."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from typing import Any, Final, cast

_REASONS: Final = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it asks for a certificate: set zookeeper.ssl.keystore.location",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust the certificate of this broker",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not trust the certificate of this broker",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not accept the certificate of this broker, or asks for one"
    " (zookeeper.ssl.keystore.location)",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "it accepts no protocol, cipher suite or certificate of this broker",
    "WRONG_VERSION_NUMBER": "it does not speak TLS on this port (secureClientPort)",
    "UNEXPECTED_EOF_WHILE_READING": "it has closed the connection: perhaps the port does not speak TLS"
    " (secureClientPort), or the certificate of this broker is not accepted",
}


class _TlsSocket(ssl.SSLSocket):
    """Reports alerts: in TLS 1.3 the refusal of a certificate comes after the handshake, to a first read."""

    failed: Callable[[str], None] = staticmethod(lambda _: None)

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        try:
            return super().recv(buflen, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            self.failed(reason_of(error))
            raise


def connect(
    address: tuple[str, int],
    host: str,
    timeout_s: float,
    context: ssl.SSLContext,
    failed: Callable[[str], None],
) -> ssl.SSLSocket:
    """A connection after its handshake. `host`: the name in the settings. Raises OSError, ssl.SSLError.

    `failed` gets the reason of a later refusal.
    """
    context.sslsocket_class = _TlsSocket
    plain = socket.create_connection(address, timeout_s)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        secure = cast(
            "_TlsSocket", context.wrap_socket(plain, server_hostname=host if context.check_hostname else None)
        )
    except BaseException:
        plain.close()
        raise
    secure.failed = failed
    return secure


def reason_of(error: OSError) -> str:
    """The reason of a failed connection, with its cure."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is refused: {error.verify_message}; zookeeper.ssl.truststore.location needs its"
            " authority, and the certificate the host name in zookeeper.connect"
        )
    if isinstance(error, ssl.SSLError):
        return _REASONS.get(error.reason or "") or f"the TLS handshake failed: {error.reason or error}"
    return error.strerror or str(error)


def has_decrypted(sock: Any) -> bool:
    """Whether a socket holds decrypted bytes, which no poll reports."""
    return isinstance(sock, ssl.SSLSocket) and sock.pending() > 0
