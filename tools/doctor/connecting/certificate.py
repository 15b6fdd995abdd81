"""The certificate of a broker, and that of this client: names, issuer, days until it expires."""

from __future__ import annotations

import datetime as dt
from typing import Final, NamedTuple

from cryptography import x509

from headgate.protocol.security.client_security import ClientSecurity
from headgate.tools.doctor.check_result import NOTE, OK, WRONG, CheckResult

SOON_DAYS: Final = 30
_SHOWN_NAMES: Final = 5
_DAY: Final = dt.timedelta(days=1)


class CertificateFacts(NamedTuple):
    """What a certificate says. `names`: DNS names and addresses; without any, the common name."""

    names: tuple[str, ...]
    issuer: str
    begins: dt.datetime
    ends: dt.datetime


def read_facts(certificate: x509.Certificate) -> CertificateFacts:
    """The facts of a certificate."""
    names: tuple[str, ...] = ()
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = (
            *extension.get_values_for_type(x509.DNSName),
            *map(str, extension.get_values_for_type(x509.IPAddress)),
        )
    except (x509.ExtensionNotFound, ValueError):
        names = tuple(str(one.value) for one in certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME))
    return CertificateFacts(
        names,
        certificate.issuer.rfc4514_string(),
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
    )


def check_certificate(check: str, whose: str, facts: CertificateFacts, now: dt.datetime, cure: str) -> CheckResult:
    """The row of a certificate by its names. `cure`: how its owner gets a new one."""
    names = ", ".join(facts.names[:_SHOWN_NAMES]) or "no name"
    more = len(facts.names) - _SHOWN_NAMES
    of = f"the certificate of {whose} for {names}{f' and {more} more' if more > 0 else ''}, signed by {facts.issuer}"
    return check_days(check, of, facts, now, cure)


def check_days(check: str, of: str, facts: CertificateFacts, now: dt.datetime, cure: str) -> CheckResult:
    """Whether a certificate is valid, and for how many days. `of`: the words for the certificate."""
    if now < facts.begins:
        late = f"{of}, is not valid before {facts.begins:%Y-%m-%d %H:%M} UTC"
        return CheckResult(check, WRONG, late, "correct the clock of this machine, or of the one that made it")
    days = (facts.ends - now) // _DAY
    if now >= facts.ends:
        return CheckResult(check, WRONG, f"{of}, expired {facts.ends:%Y-%m-%d %H:%M} UTC", cure)
    if days < SOON_DAYS:
        return CheckResult(check, NOTE, f"{of}, expires in {days} days", cure)
    return CheckResult(check, OK, f"{of}, is valid for {days} more days")


def check_own_certificate(security: ClientSecurity, now: dt.datetime) -> CheckResult | None:
    """The certificate of this client; None without one. A store that cannot be read is refused before this check."""
    from headgate.protocol.security.sasl.client_seams import system
    from headgate.protocol.security.tls.settings import TlsProblem
    from headgate.protocol.security.tls.stores import read_key_store

    try:
        store = read_key_store(security.tls, system().files.read, now)
    except TlsProblem as error:
        return CheckResult("client certificate", WRONG, str(error))
    if store is None:
        return None
    facts = read_facts(store.chain[0])._replace(ends=store.first_expiry)
    cure = "get a new certificate, and put it in the place of ssl.keystore.location"
    return check_certificate("client certificate", "this client", facts, now, cure)
