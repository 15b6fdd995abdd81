"""All rows of one address, in the order in which a connection is made. The first wrong one ends them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from headgate.protocol.security.client_security import ClientSecurity
from headgate.tools.client.client import Client, ClientError, parse_addresses
from headgate.tools.doctor.check_result import OK, WRONG, CheckResult, of_sentence
from headgate.tools.doctor.connecting import name as names
from headgate.tools.doctor.connecting import protocol
from headgate.tools.doctor.connecting.login import ask_offer, check_offer
from headgate.tools.doctor.connecting.protocol import PortProtocol, check_protocol

if TYPE_CHECKING:
    from headgate.tools.doctor.connecting.chain import PeerTls

_NEW_CERTIFICATE = "get a new certificate for the broker, put it in the place of ssl.keystore.location, and reload"


class Dialling(NamedTuple):
    """How addresses are dialled. `now`: of this machine's clock, for certificates."""

    security: ClientSecurity
    timeout_s: float
    now: dt.datetime


def check_address(address: str, dialling: Dialling) -> Iterator[CheckResult]:
    """The rows of an address `host:port`, which is not resolved yet."""
    host, port = parse_addresses(address)[0]
    resolved = names.resolve(host)
    result = names.check_name(host, resolved)
    yield result
    if result.state == WRONG:
        return
    result = names.check_attempts(address, names.attempt(resolved.addresses, port, dialling.timeout_s))
    yield result
    if result.state != WRONG:
        yield from _check_open_port(address, host, port, dialling)


def _check_open_port(address: str, host: str, port: int, dialling: Dialling) -> Iterator[CheckResult]:
    peer: PeerTls | None = None
    try:
        if dialling.security.has_tls:
            result, peer = _check_tls(address, host, port, dialling.timeout_s)
        else:
            spoken, beginning = protocol.probe(host, port, dialling.timeout_s)
            result = check_protocol(address, spoken, beginning, wants_tls=False)
    except OSError as error:
        result = CheckResult("protocol", WRONG, f"{address}: {error.strerror or error}")
    yield result
    certificates = [] if peer is None else list(_check_certificates(address, peer, dialling.now))
    yield from certificates
    if result.state == OK:
        is_valid = all(row.state != WRONG for row in certificates)
        yield from _check_login(address, dialling, peer, is_valid=is_valid)


def _check_tls(address: str, host: str, port: int, timeout_s: float) -> tuple[CheckResult, PeerTls | None]:
    """The row of the protocol, and the broker's TLS if it shakes hands."""
    from headgate.tools.doctor.connecting import chain

    try:
        peer = chain.read_peer(host, port, timeout_s)
    except (OSError, ValueError):
        spoken, beginning = protocol.probe(host, port, timeout_s)
        if spoken is not PortProtocol.TLS:
            return check_protocol(address, spoken, beginning, wants_tls=True), None
        return CheckResult("protocol", OK, f"{address} speaks TLS"), None  # the login below says why it refuses
    return CheckResult("protocol", OK, f"{address} speaks Kafka over {peer.version} ({peer.cipher})"), peer


def _check_certificates(address: str, peer: PeerTls, now: dt.datetime) -> Iterator[CheckResult]:
    """The rows of the broker's certificate, and of those that it sends with it."""
    from headgate.tools.doctor.connecting import certificate, chain

    if peer.own is not None:
        facts = certificate.read_facts(peer.own)
        yield certificate.check_certificate("certificate", address, facts, now, _NEW_CERTIFICATE)
        yield from chain.check_chain(address, peer.chain, now)


def _check_login(address: str, dialling: Dialling, peer: PeerTls | None, *, is_valid: bool) -> Iterator[CheckResult]:
    """The rows of trust and of the login. Without `is_valid`, a certificate is reported already."""
    security, timeout_s = dialling.security, dialling.timeout_s
    try:
        offer = ask_offer(address, security, timeout_s)
    except ClientError as error:
        yield from _check_end(address, security, peer, is_verified="is not trusted" not in str(error))
        if is_valid or "expired" not in str(error):
            yield of_sentence("tls" if security.has_tls else "protocol", WRONG, str(error))
        return
    if security.has_tls:
        yield from _check_end(address, security, peer, is_verified=True)
        yield CheckResult("tls", OK, f"this client trusts the certificate of {address}")
    result = check_offer(address, offer, security)
    if result.state == OK and security.has_login:
        try:
            Client(address, timeout_s=timeout_s, security=security).close()
            result = CheckResult("login", OK, f"{result.found}; the login by {security.mechanism} succeeds")
        except ClientError as error:
            result = _refused_login(error)
    yield result


def _check_end(
    address: str, security: ClientSecurity, peer: PeerTls | None, *, is_verified: bool
) -> Iterator[CheckResult]:
    """The row of a chain whose intermediate is missing."""
    if peer is None:
        return
    from cryptography import x509

    from headgate.tools.doctor.connecting.chain import check_end

    trusted = map(x509.load_der_x509_certificate, security.ssl_context().get_ca_certs(binary_form=True))
    row = check_end(address, peer.chain or (), trusted, is_verified=is_verified)
    if row is not None:
        yield row


def _refused_login(error: ClientError) -> CheckResult:
    result = of_sentence("login", WRONG, str(error))
    return result if result.cure else result._replace(cure="correct user and password in sasl.jaas.config")
