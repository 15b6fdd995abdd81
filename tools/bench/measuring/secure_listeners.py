"""Listeners over TLS and with logins, for the rows of security: the same certificate and settings for both brokers."""

import datetime as dt
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

MECHANISM: Final = "SCRAM-SHA-256"


class SecurePorts(NamedTuple):
    """The ports of the listeners SSL and SASL_PLAINTEXT."""

    tls: int
    login: int


@dataclass(frozen=True, slots=True)
class SecureListeners:
    """The settings of the two listeners beside the plain one. `key_store`: a file in PEM.

    Clients choose the cipher suite: `stream.c` offers one, that of `client_context` is the first choice of all.
    """

    key_store: Path

    @classmethod
    def with_key_of(cls, directory: Path) -> "SecureListeners":
        """With a new ECDSA key (P-256) and its own certificate, in a file of the directory."""
        path = directory / "bench.pem"
        path.write_bytes(_key_and_certificate())
        return cls(path)

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings but for `listeners`."""
        login = f"listener.name.sasl_plaintext.{MECHANISM.lower()}.sasl.jaas.config"
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.key_store),
            "ssl.enabled.protocols": "TLSv1.3",
            "sasl.enabled.mechanisms": MECHANISM,
            login: "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        }


def addresses(ports: SecurePorts) -> str:
    """The listeners, as the setting `listeners` has them."""
    return f"SSL://127.0.0.1:{ports.tls},SASL_PLAINTEXT://127.0.0.1:{ports.login}"


def client_context() -> ssl.SSLContext:
    """TLS 1.3 for a client that checks no certificate, and resumes no session."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _key_and_certificate() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bench")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    own = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return own + certificate.public_bytes(Encoding.PEM)
