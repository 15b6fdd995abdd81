"""All rows of one address, in the order in which a connection is made. The first wrong one ends them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import NamedTuple

from headgate.protocol.security.client_security import ClientSecurity
from headgate.tools.client.client import Client, ClientError, parse_addresses
from headgate.tools.doctor.check_result import OK, WRONG, CheckResult, of_sentence
from headgate.tools.doctor.connecting import name as names
from headgate.tools.doctor.connecting import protocol
from headgate.tools.doctor.connecting.login import ask_offer, check_offer
from headgate.tools.doctor.connecting.protocol import PortProtocol, check_protocol

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
    security = dialling.security
    try:
        if security.has_tls:
            result, certificate = _check_tls(address, host, port, dialling)
        else:
            spoken, beginning = protocol.probe(host, port, dialling.timeout_s)
            result, certificate = check_protocol(address, spoken, beginning, wants_tls=False), None
    except OSError as error:
        result, certificate = CheckResult("protocol", WRONG, f"{address}: {error.strerror or error}"), None
    yield result
    if certificate is not None:
        yield certificate
    if result.state == OK:
        yield from _check_login(address, security, dialling.timeout_s, is_valid=_is_valid(certificate))


def _is_valid(certificate: CheckResult | None) -> bool:
    return certificate is None or certificate.state != WRONG


def _check_tls(address: str, host: str, port: int, dialling: Dialling) -> tuple[CheckResult, CheckResult | None]:
    """The row of the protocol, and that of the broker's certificate if it shows one."""
    from headgate.tools.doctor.connecting import certificate

    try:
        peer = certificate.read_peer(host, port, dialling.timeout_s)
    except (OSError, ValueError):
        spoken, beginning = protocol.probe(host, port, dialling.timeout_s)
        if spoken is not PortProtocol.TLS:
            return check_protocol(address, spoken, beginning, wants_tls=True), None
        return CheckResult("protocol", OK, f"{address} speaks TLS"), None  # the login below says why it refuses
    row = CheckResult("protocol", OK, f"{address} speaks Kafka over {peer.version} ({peer.cipher})")
    if peer.facts is None:
        return row, None
    return row, certificate.check_certificate("certificate", address, peer.facts, dialling.now, _NEW_CERTIFICATE)


def _check_login(address: str, security: ClientSecurity, timeout_s: float, *, is_valid: bool) -> Iterator[CheckResult]:
    """The rows of trust and of the login. Without `is_valid`, the certificate is reported already."""
    try:
        offer = ask_offer(address, security, timeout_s)
    except ClientError as error:
        if is_valid or "expired" not in str(error):
            yield of_sentence("tls" if security.has_tls else "protocol", WRONG, str(error))
        return
    if security.has_tls:
        yield CheckResult("tls", OK, f"this client trusts the certificate of {address}")
    result = check_offer(address, offer, security)
    if result.state == OK and security.has_login:
        try:
            Client(address, timeout_s=timeout_s, security=security).close()
            result = CheckResult("login", OK, f"{result.found}; the login by {security.mechanism} succeeds")
        except ClientError as error:
            result = _refused_login(error)
    yield result


def _refused_login(error: ClientError) -> CheckResult:
    result = of_sentence("login", WRONG, str(error))
    return result if result.cure else result._replace(cure="correct user and password in sasl.jaas.config")
