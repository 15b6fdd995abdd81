"""Key stores and trust stores: from settings and bytes of files to keys and certificates, with one sentence a fault.

Types are PEM (files, or texts of settings) and PKCS12, as in Kafka (KIP-651). `JKS`, Kafka's default type, means the
content as in Java: a PKCS12 file is accepted, a file in Java's own format is refused with the command that converts
it. What Kafka finds only at the first handshake is refused here: a key that does not fit its certificate, and
certificates that have expired. More is accepted than by Kafka on JDK 17: keys in the older PEM forms, PEM keys
encrypted with PBES2, and trust stores that `openssl pkcs12` has made.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import pkcs12

from headgate.protocol.security.secret import Secret
from headgate.protocol.security.tls.settings import TlsProblem, TlsSettings
from headgate.protocol.security.tls.store_files import MAX_STORE_BYTES

Read = Callable[[str], bytes]
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey

_TYPES = ("PEM", "PKCS12", "JKS")
_JAVA_MAGIC = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""The first bytes of JKS and JCEKS files."""
_PEM_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]{1,40})-----((?:[^-]|-(?!-))*)-----END \1-----")
_PEM_HEADER = re.compile(r"^[A-Za-z0-9-]+:[^\n]*$", re.MULTILINE)
_KEY_LABELS = ("PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY")
_CERTIFICATE_LABELS = ("CERTIFICATE", "X509 CERTIFICATE")


@dataclass(frozen=True)
class KeyStore:
    """A private key, its certificate and the certificates above that one; and when the first of them expires."""

    key: PrivateKey = field(repr=False)
    chain: tuple[x509.Certificate, ...]
    first_expiry: datetime

    def key_pem(self, password: bytes = b"") -> bytes:
        """The key as PEM (PKCS#8), encrypted if there is a password."""
        encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        return self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)

    def chain_pem(self) -> bytes:
        return b"".join(certificate.public_bytes(serialization.Encoding.PEM) for certificate in self.chain)


@dataclass(frozen=True)
class TrustStore:
    """Trusted certificates; and when the first of those that are valid now expires."""

    certificates: tuple[x509.Certificate, ...]
    first_expiry: datetime

    def der(self) -> bytes:
        """All certificates, one after another."""
        return b"".join(certificate.public_bytes(serialization.Encoding.DER) for certificate in self.certificates)


class _Source(NamedTuple):
    """Where a store comes from, for its sentences: `ssl.keystore.location=/path`, or the name of a setting alone."""

    name: str
    data: bytes


def read_key_store(settings: TlsSettings, read: Read, now: datetime) -> KeyStore | None:
    """The key store of `settings`; None if there is none. `read` a file by its path. Raises TlsProblem."""
    if settings.keystore_key is not None or settings.keystore_certificate_chain is not None:
        return _inline_key_store(settings, now)
    if settings.keystore_location is None:
        if settings.keystore_password is not None:
            raise TlsProblem("ssl.keystore.password is set without a key store; set ssl.keystore.location")
        return None
    _check_type("ssl.keystore.type", settings.keystore_type)
    if settings.keystore_type == "PEM":
        _refuse_password("ssl.keystore.password", settings.keystore_password, "ssl.key.password is for its key")
        source = _file("ssl.keystore.location", settings.keystore_location, read)
        return _pem_key_store(source, source, settings.key_password, now)
    if settings.keystore_password is None:
        raise TlsProblem("ssl.keystore.location is set without ssl.keystore.password; set both")
    if settings.key_password not in (None, settings.keystore_password):
        raise TlsProblem(
            "ssl.key.password is not ssl.keystore.password, and a PKCS12 store has one password; remove the former"
        )
    source = _file("ssl.keystore.location", settings.keystore_location, read)
    return _pkcs12_key_store(source, settings.keystore_password, now)


def read_trust_store(settings: TlsSettings, read: Read, now: datetime) -> TrustStore | None:
    """The trust store of `settings`; None if there is none. `read` a file by its path. Raises TlsProblem."""
    location, texts, password = (
        settings.truststore_location,
        settings.truststore_certificates,
        settings.truststore_password,
    )
    if texts is None and location is None:
        if password is not None:
            raise TlsProblem("ssl.truststore.password is set without a trust store; set ssl.truststore.location")
        return None
    if texts is not None:
        _check_inline("ssl.truststore", settings.truststore_type, location, password)
        source = _Source("ssl.truststore.certificates", texts.text.encode())
        return _trust_store(source, _pem_certificates(source), now)
    assert location is not None
    _check_type("ssl.truststore.type", settings.truststore_type)
    if settings.truststore_type == "PEM":
        _refuse_password("ssl.truststore.password", password, "it is not encrypted")
    source = _file("ssl.truststore.location", location, read)
    if settings.truststore_type == "PEM":
        return _trust_store(source, _pem_certificates(source), now)
    loaded = _load_pkcs12(source, password, "ssl.truststore.password")
    return _trust_store(source, _trusted_certificates(loaded), now)


# ------------------------------------------------------------------------------------------------ checks of settings


def _check_type(name: str, type_: str) -> None:
    if type_ != "PEM" and type_.upper() not in _TYPES[1:]:
        raise TlsProblem(f"{name}={type_} is not supported; the types are PEM and PKCS12")


def _refuse_password(name: str, password: Secret | None, reason: str) -> None:
    if password is not None:
        raise TlsProblem(f"{name} is not for a store of type PEM: {reason}; remove the setting")


def _check_inline(store: str, type_: str, location: str | None, password: Secret | None) -> None:
    """Check the settings beside keys and certificates that stand in settings themselves."""
    if type_ != "PEM":
        raise TlsProblem(
            f"{store} has keys or certificates in its settings, which are of type PEM; set {store}.type=PEM"
        )
    if location is not None:
        raise TlsProblem(f"{store}.location is set beside keys or certificates in settings; remove one of them")
    _refuse_password(f"{store}.password", password, "only ssl.key.password is, for its key")


def _inline_key_store(settings: TlsSettings, now: datetime) -> KeyStore:
    key, chain = settings.keystore_key, settings.keystore_certificate_chain
    if key is None or chain is None:
        given, missing = "ssl.keystore.key", "ssl.keystore.certificate.chain"
        if key is None:
            given, missing = missing, given
        raise TlsProblem(f"{given} is set without {missing}; set both")
    _check_inline("ssl.keystore", settings.keystore_type, settings.keystore_location, settings.keystore_password)
    return _pem_key_store(
        _Source("ssl.keystore.key", key.text.encode()),
        _Source("ssl.keystore.certificate.chain", chain.text.encode()),
        settings.key_password,
        now,
    )


def _file(name: str, path: str, read: Read) -> _Source:
    try:
        data = read(path)
    except FileNotFoundError:
        raise TlsProblem(f"{name}={path}: there is no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise TlsProblem(f"{name}={path}: the file cannot be read: {reason}") from None
    if len(data) > MAX_STORE_BYTES:
        raise TlsProblem(f"{name}={path}: the file is larger than {MAX_STORE_BYTES >> 20} MB, the limit of a store")
    return _Source(f"{name}={path}", data)


# --------------------------------------------------------------------------------------------------------------- PEM


def _pem_key_store(key_source: _Source, chain_source: _Source, password: Secret | None, now: datetime) -> KeyStore:
    blocks = [block for block in _pem_blocks(key_source) if block.label in _KEY_LABELS]
    if len(blocks) != 1:
        found = f"{len(blocks)} private keys" if blocks else "no private key"
        raise TlsProblem(f"{key_source.name} has {found}; a key store of type PEM has one key and its certificates")
    key = _pem_key(key_source, blocks[0], password)
    return _key_store(chain_source, key, _pem_certificates(chain_source), now)


class _PemBlock(NamedTuple):
    label: str
    is_encrypted_in_text: bool
    der: bytes


def _pem_blocks(source: _Source) -> Iterator[_PemBlock]:
    """The blocks of a PEM text. Lines may be joined by blanks, as in a setting; text between blocks is skipped."""
    for label, body in _PEM_BLOCK.findall(source.data.decode("latin-1").replace("\r", "\n")):
        headers = _PEM_HEADER.findall(body)
        try:
            der = b64decode("".join(_PEM_HEADER.sub("", body).split()), validate=True)
        except ValueError:
            raise TlsProblem(f"{source.name}: a block {label} is not in Base64; export the file anew") from None
        yield _PemBlock(label, any("ENCRYPTED" in header for header in headers), der)


def _pem_key(source: _Source, block: _PemBlock, password: Secret | None) -> PrivateKey:
    if block.is_encrypted_in_text:
        raise TlsProblem(
            f"{source.name}: the private key is encrypted in an old form; convert it with"
            " `openssl pkcs8 -topk8 -in OLD -out NEW`"
        )
    is_encrypted = block.label == "ENCRYPTED PRIVATE KEY"
    if is_encrypted and password is None:
        raise TlsProblem(f"{source.name}: the private key is encrypted; set ssl.key.password")
    if not is_encrypted and password is not None:
        raise TlsProblem(f"{source.name}: the private key is not encrypted; remove ssl.key.password")
    try:
        key = serialization.load_der_private_key(block.der, password.text.encode() if password else None)
    except Exception as error:  # noqa: BLE001 - the library documents several, and any of them means the same
        if is_encrypted and "assword" in str(error):
            raise TlsProblem(f"{source.name}: ssl.key.password does not decrypt the private key") from None
        raise TlsProblem(f"{source.name}: the private key cannot be read; it must be PKCS#8, as in Kafka") from None
    return _checked_key(source, key)


def _pem_certificates(source: _Source) -> list[x509.Certificate]:
    certificates = []
    for block in _pem_blocks(source):
        if block.label in _CERTIFICATE_LABELS:
            try:
                certificates.append(x509.load_der_x509_certificate(block.der))
            except ValueError:
                number = len(certificates) + 1
                raise TlsProblem(f"{source.name}: certificate {number} cannot be read; export it anew") from None
    return certificates


# ------------------------------------------------------------------------------------------------------------ PKCS12


def _load_pkcs12(source: _Source, password: Secret | None, password_name: str) -> pkcs12.PKCS12KeyAndCertificates:
    if source.data.startswith(_JAVA_MAGIC):
        path = source.name.partition("=")[2]
        raise TlsProblem(
            f"{source.name} is in Java's own format, which only Java reads; convert it with `keytool -importkeystore"
            f" -srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12`, and name the new file"
        )
    if _PEM_BLOCK.search(source.data.decode("latin-1")):
        store = password_name.removesuffix(".password")
        raise TlsProblem(f"{source.name} is of type PEM; set {store}.type=PEM, and remove {password_name}")
    try:
        return pkcs12.load_pkcs12(source.data, password.text.encode() if password else None)
    except Exception as error:  # noqa: BLE001 - the library documents several, and any of them means the same
        if "password" in str(error):
            advice = f"{password_name} is wrong" if password else f"it has a password; set {password_name}"
            raise TlsProblem(f"{source.name}: {advice}") from None
        raise TlsProblem(f"{source.name} is not in the format PKCS12, or it is damaged; export it anew") from None


def _pkcs12_key_store(source: _Source, password: Secret, now: datetime) -> KeyStore:
    loaded = _load_pkcs12(source, password, "ssl.keystore.password")
    if loaded.key is None:
        raise TlsProblem(f"{source.name} has no private key; export the key with its certificates")
    certificates = [] if loaded.cert is None else [loaded.cert.certificate]
    others = [other.certificate for other in loaded.additional_certs]
    return _key_store(source, _checked_key(source, loaded.key), _in_order(certificates, others), now)


def _in_order(first: list[x509.Certificate], others: list[x509.Certificate]) -> list[x509.Certificate]:
    """A chain from its first certificate up, by the names of issuers: a PKCS12 file has no order, as in Java."""
    chain = list(first)
    while chain and chain[-1].issuer != chain[-1].subject:
        issuer = next((other for other in others if other.subject == chain[-1].issuer and other not in chain), None)
        if issuer is None:
            break
        chain.append(issuer)
    return chain


def _trusted_certificates(loaded: pkcs12.PKCS12KeyAndCertificates) -> list[x509.Certificate]:
    """The trusted certificates. Of a key, that is its own certificate and not those that signed it, as in Java."""
    others = [other.certificate for other in loaded.additional_certs]
    if loaded.cert is None:
        return others
    own, *signers = _in_order([loaded.cert.certificate], others)
    return [own, *(other for other in others if other not in signers)]


# ------------------------------------------------------------------------------------------------ checks of contents


def _checked_key(source: _Source, key: Any) -> PrivateKey:
    if not isinstance(key, PrivateKey):
        raise TlsProblem(f"{source.name}: the private key is for none of RSA, elliptic curves, Ed25519, Ed448")
    return key


def _key_store(source: _Source, key: PrivateKey, chain: list[x509.Certificate], now: datetime) -> KeyStore:
    if not chain:
        raise TlsProblem(f"{source.name} has no certificate; add the certificate of the key, then its issuer's")
    try:
        fitting = [number for number, certificate in enumerate(chain) if _fits(key, certificate)]
        in_order = all(lower.issuer == upper.subject for lower, upper in pairwise(chain))
    except (ValueError, UnsupportedAlgorithm):
        raise TlsProblem(f"{source.name}: a certificate has a key or a name that cannot be read") from None
    if not fitting:
        raise TlsProblem(f"{source.name}: the private key does not fit the certificate {_name(chain[0])}")
    if fitting[0] != 0 or not in_order or len(set(chain)) < len(chain):
        raise TlsProblem(
            f"{source.name}: the certificates are in the wrong order; first comes that of the key, then that of its"
            " issuer, and so on, each once"
        )
    for certificate in chain:
        _check_validity(source, certificate, now)
    return KeyStore(key, tuple(chain), min(certificate.not_valid_after_utc for certificate in chain))


def _fits(key: PrivateKey, certificate: x509.Certificate) -> bool:
    form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return key.public_key().public_bytes(*form) == certificate.public_key().public_bytes(*form)


def _check_validity(source: _Source, certificate: x509.Certificate, now: datetime) -> None:
    if now > certificate.not_valid_after_utc:
        state = f"expired on {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC; replace it"
    elif now < certificate.not_valid_before_utc:
        state = f"is not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC; check the clock"
    else:
        return
    raise TlsProblem(f"{source.name}: the certificate {_name(certificate)} {state}")


def _trust_store(source: _Source, certificates: Iterable[x509.Certificate], now: datetime) -> TrustStore:
    """A trust store. Expired certificates may be among others, as in bundles of public authorities."""
    trusted = tuple(dict.fromkeys(certificates))
    if not trusted:
        raise TlsProblem(f"{source.name} has no certificate; import that of the authority to trust")
    valid = [certificate for certificate in trusted if now <= certificate.not_valid_after_utc]
    if not valid:
        _check_validity(source, trusted[0], now)
    return TrustStore(trusted, min(certificate.not_valid_after_utc for certificate in valid))


def _name(certificate: x509.Certificate) -> str:
    try:
        return certificate.subject.rfc4514_string()[:200]
    except ValueError:
        return f"number {certificate.serial_number:x}"
