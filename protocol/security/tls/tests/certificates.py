"""Certificates for tests: an authority, certificates that it signs, and the files that brokers and clients read.

Keys are of the curve P-256 by default: RSA takes 100 times as long. Tests that may not import this module run it:

    python -m headgate.protocol.security.tls.tests.certificates DIRECTORY [NAME ...]

writes `ca.pem`, and for each name (default: broker and client) `NAME.pem` (key and chain), `NAME.p12` and
`NAME.key.pem`, `NAME.chain.pem`; stores have the password `secret`. Certificates are for localhost and 127.0.0.1;
those of `NAME@HOST` are for that host.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

DAY = dt.timedelta(days=1)
NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)
PASSWORD = "secret"
HOSTS = ("localhost", "127.0.0.1")
PEM, PKCS8, PKCS1 = (
    serialization.Encoding.PEM,
    serialization.PrivateFormat.PKCS8,
    serialization.PrivateFormat.TraditionalOpenSSL,
)


def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def rsa_key(bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


def common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@dataclass(frozen=True)
class Issued:
    """A key with its certificate and the certificates that signed it, the root left out."""

    key: Key
    chain: tuple[x509.Certificate, ...]

    @property
    def certificate(self) -> x509.Certificate:
        return self.chain[0]

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)

    def key_pem(self, password: str = "", form: serialization.PrivateFormat = PKCS8) -> str:
        """The key, encrypted if there is a password."""
        return self.key.private_bytes(PEM, form, _encryption(password)).decode()

    def chain_pem(self) -> str:
        return pem(self.chain)

    def pem(self, password: str = "") -> str:
        """A key store of type PEM: key and chain."""
        return self.key_pem(password) + self.chain_pem()

    def pkcs12(self, password: str = PASSWORD) -> bytes:
        """A key store of type PKCS12."""
        return pkcs12.serialize_key_and_certificates(
            b"broker", self.key, self.certificate, self.chain[1:], _encryption(password)
        )


def _encryption(password: str) -> serialization.KeySerializationEncryption:
    if not password:
        return serialization.NoEncryption()
    return serialization.BestAvailableEncryption(password.encode())


def pem(certificates: Sequence[x509.Certificate]) -> str:
    return "".join(certificate.public_bytes(PEM).decode() for certificate in certificates)


def pkcs12_trust(certificates: Sequence[x509.Certificate], password: str = PASSWORD) -> bytes:
    """A trust store of type PKCS12, as `keytool -importcert` makes it."""
    entries = [
        pkcs12.PKCS12Certificate(certificate, f"ca{number}".encode()) for number, certificate in enumerate(certificates)
    ]
    return pkcs12.serialize_java_truststore(entries, _encryption(password))


class Authority:
    """A certificate authority: its own certificate, and an issuer of others."""

    def __init__(self, name: str = "Test CA", parent: Authority | None = None, *, days: int = 365) -> None:
        self.key = ec_key()
        self.name = common_name(name)
        self.parent = parent
        issuer = parent or self
        self.certificate = _certificate(
            self.key, self.name, issuer, [(x509.BasicConstraints(ca=True, path_length=None), True)], (-1, days)
        )

    def pem(self) -> str:
        """A trust store of type PEM."""
        return pem([self.certificate])

    def issue(
        self,
        name: x509.Name | str = "broker",
        *,
        key: Key | None = None,
        hosts: Sequence[str] = HOSTS,
        days: tuple[int, int] = (-1, 30),
        usage: Sequence[x509.ObjectIdentifier] = (),
    ) -> Issued:
        """A certificate for `hosts`, valid between two days from now; `usage`: extended key usages, or any."""
        key = key or ec_key()
        extensions: list[tuple[x509.ExtensionType, bool]] = [(x509.BasicConstraints(ca=False, path_length=None), True)]
        if hosts:
            extensions.append((x509.SubjectAlternativeName(list(map(_general_name, hosts))), False))
        if usage:
            extensions.append((x509.ExtendedKeyUsage(usage), False))
        subject = common_name(name) if isinstance(name, str) else name
        certificate = _certificate(key, subject, self, extensions, days)
        return Issued(key, (certificate, *self._intermediates()))

    def _intermediates(self) -> tuple[x509.Certificate, ...]:
        return () if self.parent is None else (self.certificate, *self.parent._intermediates())


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _certificate(
    key: Key,
    subject: x509.Name,
    issuer: Authority,
    extensions: Sequence[tuple[x509.ExtensionType, bool]],
    days: tuple[int, int],
) -> x509.Certificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW + days[0] * DAY)
        .not_valid_after(NOW + days[1] * DAY)
    )
    for extension, is_critical in extensions:
        builder = builder.add_extension(extension, critical=is_critical)
    return builder.sign(issuer.key, hashes.SHA256())


def write_files(directory: Path, names: Sequence[str] = ("broker", "client")) -> Authority:
    """Write the files of the module's head. Returns the authority that signed all."""
    directory.mkdir(parents=True, exist_ok=True)
    authority = Authority(f"CA of {directory.name}")
    (directory / "ca.pem").write_text(authority.pem())
    (directory / "ca.p12").write_bytes(pkcs12_trust([authority.certificate]))
    for text in names:
        name, _, host = text.partition("@")
        issued = authority.issue(name, hosts=(host,) if host else HOSTS)
        (directory / f"{name}.pem").write_text(issued.pem())
        (directory / f"{name}.key.pem").write_text(issued.key_pem())
        (directory / f"{name}.chain.pem").write_text(issued.chain_pem())
        (directory / f"{name}.p12").write_bytes(issued.pkcs12())
    return authority


SERVER_AUTH, CLIENT_AUTH = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH

if __name__ == "__main__":
    write_files(Path(sys.argv[1]), sys.argv[2:] or ("broker", "client"))
