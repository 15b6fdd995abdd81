"""The certificates that a broker sends with its own: days of each, and an intermediate that is missing.

A broker sends its certificate and those between it and a root; the root itself may be left out. Clients that trust the
root alone cannot verify a chain with a gap.
"""

from __future__ import annotations

import datetime as dt
import socket
import ssl
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from cryptography import x509

from headgate.tools.doctor.check_result import NOTE, CheckResult
from headgate.tools.doctor.connecting.certificate import check_days, read_facts

CHAIN: Final = "chain"
_MOST_SHOWN: Final = 10
_DER: Final = 2  # _ssl.ENCODING_DER
_NEW: Final = "get a new certificate of this authority, put it in the chain of the broker's ssl.keystore.location, and"


class PeerTls(NamedTuple):
    """The TLS of a broker, without any check of its certificate. `chain`: None where Python shows `own` alone."""

    own: x509.Certificate | None
    chain: Sequence[x509.Certificate] | None
    version: str
    cipher: str


def read_peer(host: str, port: int, timeout_s: float) -> PeerTls:
    """Shake hands with a broker whatever its certificate. Raises OSError, ValueError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((host, port), timeout_s) as plain,
        context.wrap_socket(plain, server_hostname=host) as secure,
    ):
        data, cipher = secure.getpeercert(binary_form=True), secure.cipher()
        own = None if data is None else x509.load_der_x509_certificate(data)
        return PeerTls(own, read_chain(secure), secure.version() or "TLS", cipher[0] if cipher else "")


def read_chain(connection: ssl.SSLSocket) -> Sequence[x509.Certificate] | None:
    """The certificates that the peer has sent, its own first; None where Python does not show them.

    `SSLSocket.get_unverified_chain` is of Python 3.13; 3.10 has it on a private object. Raises ValueError.
    """
    read: Any = getattr(connection, "get_unverified_chain", None)
    if read is None:
        read = getattr(getattr(connection, "_sslobj", None), "get_unverified_chain", None)
    if read is None:
        return None
    contents = (one if isinstance(one, bytes) else one.public_bytes(_DER) for one in read() or ())
    return [x509.load_der_x509_certificate(content) for content in contents]


def check_chain(address: str, chain: Sequence[x509.Certificate] | None, now: dt.datetime) -> Iterator[CheckResult]:
    """A row for each certificate after the broker's own: its subject, its issuer, its days."""
    if chain is None:
        found = f"this Python does not show the certificates that {address} sends after its own"
        yield CheckResult(CHAIN, NOTE, found, f"list them by openssl s_client -showcerts -connect {address}")
        return
    for certificate in chain[1 : 1 + _MOST_SHOWN]:
        facts, subject = read_facts(certificate), certificate.subject.rfc4514_string()
        of = f"the certificate of {subject}, which {address} sends, signed by {facts.issuer}"
        yield check_days(CHAIN, of, facts, now, f"{_NEW} reload")


def check_end(
    address: str, chain: Sequence[x509.Certificate], trusted: Iterable[x509.Certificate], *, is_verified: bool
) -> CheckResult | None:
    """The row of a chain that lacks an intermediate; None for a whole one.

    `trusted`: certificates of this client's trust store. `is_verified`: this client accepts the chain.
    """
    if not chain:
        return None
    end = _last_of_path(chain)
    if end.issuer == end.subject:
        return None
    subject, issuer = end.subject.rfc4514_string(), end.issuer.rfc4514_string()
    above = [one for one in trusted if one.subject == end.issuer]
    found = f"{address} sends no certificate of {issuer}, which signed that of {subject}"
    cure = f"put the certificate of {issuer} into the chain of the broker's ssl.keystore.location, and reload"
    if is_verified:
        if not above or any(one.issuer == one.subject for one in above):
            return None  # a root; or one of the system, which is not listed
        has = "this client has this intermediate itself; clients that trust the root alone cannot verify the chain"
        return CheckResult(CHAIN, NOTE, f"{found}: {has}", cure)
    if above:
        return None
    missing = "an intermediate is missing there, or this client does not trust this root"
    return CheckResult(CHAIN, NOTE, f"{found}, and this client does not have it: {missing}", f"{cure}; or trust it")


def _last_of_path(chain: Sequence[x509.Certificate]) -> x509.Certificate:
    """The last certificate on the way from the first one up, by the names of issuers."""
    end, above = chain[0], {one.subject: one for one in reversed(chain[1:])}
    while end.issuer in above:
        end = above.pop(end.issuer)
    return end
