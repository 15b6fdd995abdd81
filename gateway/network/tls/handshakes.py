"""TLS handshakes, in a few threads: a signature of RSA takes a millisecond, and a thousand clients may come at once.

A step does what the received bytes allow, and ends when it has to wait for the other end. A thread has the connection
for one step; the engine does not touch the connection meanwhile.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from headgate.gateway.api.context import Client
from headgate.gateway.network.tls.tls_socket import TlsError, TlsSocket, reason_of
from headgate.gateway.runtime.workers import BoundedExecutor, Scheduling

MAX_THREADS: Final = 2
"""Each computes: more threads would take the loop's share of the cores."""


class Awaits(Enum):
    """What a handshake waits for."""

    DATA = auto()
    ROOM = auto()


HTTP_REQUEST: Final = "HTTP_REQUEST"
"""OpenSSL's name of a plain HTTP request in place of a handshake."""
_REASONS: Final = {
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust this broker's certificate: give the client the CA of it",
    "TLSV1_ALERT_DECRYPT_ERROR": "the client cannot verify this broker's certificate: the client may have an older CA"
    " of the same name",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not accept this broker's certificate: it has another host name,"
    " or a CA that the client does not trust",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not accept this broker's certificate: it has another host name, or"
    " a CA that the client does not trust",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client finds this broker's certificate expired",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client sent no certificate, and ssl.client.auth=required asks for one",
    "NO_SHARED_CIPHER": "the client has none of the cipher suites of this listener (ssl.cipher.suites)",
    "UNSUPPORTED_PROTOCOL": "the client has no TLS version of ssl.enabled.protocols",
    HTTP_REQUEST: "the client sent an HTTP request: this is a Kafka listener",
}
"""Kafka's clients say little about a refusal: the log of the broker names the cure."""


class TlsHandshakes:
    """The handshakes of one engine."""

    def __init__(self, scheduler: Scheduling, report_login: Callable[[Client], None] = lambda _: None) -> None:
        """`report_login`: called for each client whose handshake has ended well."""
        self.report_login = report_login
        self._threads = BoundedExecutor(scheduler, MAX_THREADS)

    def step(
        self,
        sock: TlsSocket,
        identify: Callable[[TlsSocket], str],
        resume: Callable[[str | Awaits | BaseException], None],
        is_wanted: Callable[[], bool],
        explain: Callable[[ssl.SSLError], TlsError] | None = None,
    ) -> None:
        """Do the next step in a thread. `resume` gets what the handshake waits for, or its failure, or its result.

        The result is that of `identify`, which the thread calls at the end of the handshake: the peer's principal. A
        ValueError of `identify` is a failure of the handshake. `explain` makes the failure of an error of OpenSSL; the
        default is for a listener.
        """
        self._threads.in_thread(lambda: _step(sock, identify, explain or refusal), resume, is_wanted)


def _step(
    sock: TlsSocket, identify: Callable[[TlsSocket], str], explain: Callable[[ssl.SSLError], TlsError]
) -> str | Awaits:
    try:
        sock.do_handshake()
    except ssl.SSLWantReadError:
        return Awaits.DATA
    except ssl.SSLWantWriteError:
        return Awaits.ROOM
    except ssl.SSLError as error:
        raise explain(error) from None
    try:
        return identify(sock)
    except ValueError as error:
        raise TlsError(f"the client's certificate gives no principal: {error}") from None


def refusal(error: ssl.SSLError) -> TlsError:
    """The failure of a handshake, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = f"the certificate of the other end is refused: {error.verify_message}"
    else:
        reason = _REASONS.get(error.reason or "") or reason_of(error)
    refused = TlsError(f"the TLS handshake failed: {reason}")
    refused.alert = error.reason or ""
    return refused
