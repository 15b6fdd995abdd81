"""Key stores and trust stores; `stores_of_kafka.txt` has what Kafka says of the same stores and settings."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.protocol.security.secret import Secret
from headgate.protocol.security.tls import contexts, stores
from headgate.protocol.security.tls.settings import TlsProblem, TlsSettings, of_texts
from headgate.protocol.security.tls.store_files import MAX_STORE_BYTES, StoreFiles
from headgate.protocol.security.tls.tests.certificates import DAY, NOW, Authority, Issued, pem, pkcs12_trust, rsa_key
from headgate.protocol.security.tls.tests.stores_scenario import CASES, RECORD, make_files
from headgate.protocol.tests.examples import share

ANSWERS = dict(line.split("\t") for line in RECORD.read_text().splitlines())
SOON = NOW + dt.timedelta(hours=1)

# Kafka starts with them, and every handshake fails, or Java reads what nothing else does
REFUSED_HERE = {
    "key store not fitting": "the private key does not fit the certificate",
    "key store of its issuer": "the certificates are in the wrong order; first comes that of the key",
    "key store expired": "expired on",
    "key store future": "is not valid before",
    "PKCS12 keytool trust": "has no private key",
    "type JKS of JKS": "keytool -importkeystore",
    "type PKCS12 of JKS": "keytool -importkeystore",
    "trust store JKS": "keytool -importkeystore",
    "trust store expired ca": "expired on",
    "trust store PKCS12, no password": "set ssl.truststore.password",
    "suites TLS_AES_128_GCM_SHA256": "Python before 3.15 cannot choose",
    "suites TLS_EMPTY_RENEGOTIATION_INFO_SCSV": "has no suite of a protocol",
}
LEGAL_HERE = {
    "key store pkcs1": "a key in an older form of PEM",
    "key password": "JDK 17 does not know PBES2 here, with which all programs encrypt",
}
SENTENCES = {
    "key store encrypted": "/encrypted.pem: the private key is encrypted; set ssl.key.password",
    "key store key only": "/key only.pem has no certificate; add the certificate of the key, then its issuer's",
    "key store chain only": "/chain only.pem has no private key; a key store of type PEM has one key and",
    "key store two keys": "/two keys.pem has 2 private keys;",
    "key store wrong order": "/wrong order.pem: the certificates are in the wrong order; first comes that of the key",
    "key store with a gap": "the certificates are in the wrong order",
    "key store root twice": "the certificates are in the wrong order",
    "key store twice the same": "the certificates are in the wrong order",
    "key store garbage": "/garbage.pem has no private key;",
    "key store missing": "ssl.keystore.location=/missing.pem: there is no such file",
    "key store old encryption": "convert it with `openssl pkcs8 -topk8",
    "wrong key password": "/encrypted.pem: ssl.key.password does not decrypt the private key",
    "needless key password": "/ok.pem: the private key is not encrypted; remove ssl.key.password",
    "password of PEM": "ssl.keystore.password is not for a store of type PEM: ssl.key.password is for its key",
    "directory": "ssl.keystore.location=/: the file cannot be read: Is a directory",
    "type in lower case, PEM": "ssl.keystore.type=pem is not supported; the types are PEM and PKCS12",
    "type PKCS12 of PEM": "/ok.pem is of type PEM; set ssl.keystore.type=PEM, and remove ssl.keystore.password",
    "unknown type": "ssl.keystore.type=FOO is not supported; the types are PEM and PKCS12",
    "PKCS12 cut": "/cut.p12 is not in the format PKCS12, or it is damaged",
    "PKCS12, wrong password": "ssl.keystore.location=/ok.p12: ssl.keystore.password is wrong",
    "PKCS12, no password": "ssl.keystore.location is set without ssl.keystore.password; set both",
    "PKCS12, key password another": "ssl.key.password is not ssl.keystore.password",
    "key without chain": "ssl.keystore.key is set without ssl.keystore.certificate.chain; set both",
    "chain without key": "ssl.keystore.certificate.chain is set without ssl.keystore.key; set both",
    "texts and file": "ssl.keystore.location is set beside keys or certificates in settings; remove one of them",
    "texts and password": "ssl.keystore.password is not for a store of type PEM",
    "texts of another type": "set ssl.keystore.type=PEM",
    "password without store": "ssl.keystore.password is set without a key store; set ssl.keystore.location",
    "trust store garbage": "/garbage.pem has no certificate; import that of the authority to trust",
    "trust store missing": "ssl.truststore.location=/missing.pem: there is no such file",
    "trust store with password": "ssl.truststore.password is not for a store of type PEM: it is not encrypted",
    "trust store PKCS12, wrong password": "/ca.p12: ssl.truststore.password is wrong",
    "trusted text of another type": "set ssl.truststore.type=PEM",
    "trusted text and file": "ssl.truststore.location is set beside keys or certificates in settings",
    "trusted text of nothing": "ssl.truststore.certificates has no certificate",
    "trust password without store": "ssl.truststore.password is set without a trust store",
}


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return make_files()


def reader(files: dict[str, bytes]) -> stores.Read:
    def read(path: str) -> bytes:
        if path == "/":
            raise IsADirectoryError(21, "Is a directory")
        if path[1:] not in files:
            raise FileNotFoundError(2, "No such file or directory")
        return files[path[1:]]

    return read


def settings_of(values: dict[str, str], files: dict[str, bytes]) -> TlsSettings:
    return of_texts({name: files[text[1:]].decode() if text[:1] == "@" else text for name, text in values.items()})


@functools.cache
def a_key_store() -> stores.KeyStore:
    """For cases that are about something else."""
    store = key_store(Authority().issue())
    assert store is not None
    return store


def start(settings: TlsSettings, files: dict[str, bytes]) -> None:
    """The start of a listener with these settings."""
    key_store = stores.read_key_store(settings, reader(files), SOON)
    trust_store = stores.read_trust_store(settings, reader(files), SOON)
    contexts.server_context(settings, key_store or a_key_store(), trust_store, StoreFiles())


@pytest.mark.parametrize("label", CASES)
def test_a_store_is_accepted_or_refused_as_by_kafka(label: str, files: dict[str, bytes]) -> None:
    is_legal_there = ANSWERS[label].startswith("ok")
    is_legal = is_legal_there != (label in {*LEGAL_HERE, *REFUSED_HERE})
    settings = settings_of(CASES[label], files)
    if is_legal:
        start(settings, files)
        return
    with pytest.raises(TlsProblem, match=re.escape({**SENTENCES, **REFUSED_HERE}.get(label, "ssl."))) as refused:
        start(settings, files)
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value).replace("no secret", "")


def test_the_record_has_every_case() -> None:
    assert list(ANSWERS) == list(CASES)
    assert set(CASES) >= {*SENTENCES, *REFUSED_HERE, *LEGAL_HERE}


def key_store(issued: Issued, **fields: Any) -> stores.KeyStore | None:
    settings = TlsSettings(keystore_type="PEM", keystore_location="/k", **fields)
    return stores.read_key_store(settings, lambda path: issued.pem().encode(), NOW)


def test_the_first_certificate_to_expire_counts() -> None:
    issued = Authority("Intermediate", Authority("Root"), days=9).issue(days=(-1, 30))
    store = key_store(issued)
    assert store is not None
    assert store.first_expiry == NOW + 9 * DAY
    assert store.chain == issued.chain
    assert "ECPrivateKey" not in repr(store)


def test_a_chain_of_pkcs12_is_put_in_order() -> None:
    authority = Authority("A", Authority("B", Authority("C")))
    issued = authority.issue()
    shuffled = Issued(issued.key, (issued.chain[0], *issued.chain[:0:-1]))
    settings = TlsSettings(keystore_location="/k", keystore_password=Secret("secret"))
    store = stores.read_key_store(settings, lambda path: shuffled.pkcs12(), NOW)
    assert store is not None
    assert store.chain == issued.chain


def test_trusted_are_all_certificates_each_once() -> None:
    first, second, old = Authority("A"), Authority("B", days=5), Authority("C", days=-1 + 1)
    text = pem([first.certificate, second.certificate, first.certificate, old.certificate])
    settings = TlsSettings(truststore_type="PEM", truststore_certificates=Secret(text))
    store = stores.read_trust_store(settings, lambda path: b"", SOON)
    assert store is not None
    assert store.certificates == (first.certificate, second.certificate, old.certificate)
    assert store.first_expiry == NOW + 5 * DAY
    settings = TlsSettings(truststore_location="/t", truststore_password=Secret("secret"))
    store = stores.read_trust_store(settings, lambda path: pkcs12_trust([first.certificate]), NOW)
    assert store is not None
    assert store.certificates == (first.certificate,)


def test_of_a_key_its_own_certificate_is_trusted_alone() -> None:
    issued = Authority("A", Authority("B")).issue()
    settings = TlsSettings(truststore_location="/t", truststore_password=Secret("secret"))
    store = stores.read_trust_store(settings, lambda path: issued.pkcs12(), NOW)
    assert store is not None
    assert store.certificates == (issued.certificate,)


def test_a_large_file_is_refused() -> None:
    settings = TlsSettings(truststore_type="PEM", truststore_location="/t")
    with pytest.raises(TlsProblem, match=r"ssl\.truststore\.location=/t: the file is larger than 4 MB"):
        stores.read_trust_store(settings, lambda path: b"-" * (MAX_STORE_BYTES + 1), NOW)


def test_a_path_that_is_none_is_refused() -> None:
    settings = TlsSettings(truststore_type="PEM", truststore_location="/t\0")
    with pytest.raises(TlsProblem, match="the file cannot be read: embedded null byte"):
        stores.read_trust_store(settings, StoreFiles().read, NOW)


@pytest.mark.parametrize(
    "content",
    [
        "-----BEGIN CERTIFICATE-----\nAAA\n-----END CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\n\u00e9\n-----END CERTIFICATE-----",
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
        "-----BEGIN CERTIFICATE-----\n" * 50_000,
        "",
    ],
)
def test_damaged_text_is_refused(content: str) -> None:
    for fields in (
        TlsSettings(truststore_type="PEM", truststore_certificates=Secret(content)),
        TlsSettings(keystore_type="PEM", keystore_key=Secret(content), keystore_certificate_chain=Secret(content)),
    ):
        read = stores.read_trust_store if fields.keystore_key is None else stores.read_key_store
        with pytest.raises(TlsProblem):
            read(fields, lambda path: b"", NOW)


FUZZED = Authority().issue()
STORES = {"PEM": FUZZED.pem().encode(), "PKCS12": FUZZED.pkcs12()}


@settings(max_examples=share(100), deadline=None)
@given(st.sampled_from(sorted(STORES)), st.floats(0, 1), st.binary(max_size=4), st.integers(0, 4))
def test_any_bytes_give_a_store_or_the_one_error(type_: str, where: float, inserted: bytes, removed: int) -> None:
    data = bytearray(STORES[type_])
    position = int(where * len(data))
    data[position : position + removed] = inserted
    password = None if type_ == "PEM" else Secret("secret")
    fields = TlsSettings(
        keystore_type=type_, keystore_location="/k", keystore_password=password,
        truststore_type=type_, truststore_location="/t", truststore_password=password,
    )  # fmt: skip
    for read in (stores.read_key_store, stores.read_trust_store):
        with contextlib.suppress(TlsProblem):
            assert read(fields, lambda path: bytes(data), NOW) is not None


@pytest.mark.slow
def test_a_key_of_rsa_is_read_in_every_form() -> None:
    issued = Authority().issue(key=rsa_key())
    assert key_store(issued) is not None
