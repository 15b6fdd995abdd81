"""TLS of one listener: reloads, expiry, principals."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from headgate.gateway.config import BrokerConfig, ConfigError
from headgate.gateway.security.tls.listener_tls import ListenerTls, open_all
from headgate.gateway.security.tls.principal_mapping import PrincipalProblem
from headgate.protocol.security.secret import Secret
from headgate.protocol.security.tls.settings import TlsProblem, TlsSettings
from headgate.protocol.security.tls.tests.certificates import NOW, Authority, Issued, write_files
from headgate.protocol.security.tls.tests.handshakes import client, connect

ROOT = Authority("Root", days=300)
BROKER = ROOT.issue("broker", days=(-1, 30))
NOW_MS = int(NOW.timestamp() * 1000)
DAY_MS = 86_400_000


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.ms = NOW_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> float:
        return float(self.ms)


class Listener:
    """A listener with its stores in files."""

    def __init__(self, directory: Path, **fields: Any) -> None:
        self.clock = Clock()
        self.key_file, self.trust_file = directory / "broker.pem", directory / "ca.pem"
        self.key_file.write_text(BROKER.pem())
        self.trust_file.write_text(ROOT.pem())
        self.settings = TlsSettings(
            listener="EXTERNAL",
            keystore_type="PEM",
            keystore_location=str(self.key_file),
            truststore_type="PEM",
            truststore_location=str(self.trust_file),
            **fields,
        )
        self.tls = ListenerTls(self.settings, self.clock)

    def replace(self, issued: Issued) -> None:
        new = self.key_file.with_suffix(".new")
        new.write_text(issued.pem())
        new.replace(self.key_file)

    def serial_number(self) -> int:
        """The serial number of the certificate that a client sees."""
        connection = connect(self.tls.context, client(None, ROOT))
        certificate = connection.client.getpeercert(binary_form=True)
        assert certificate is not None
        return x509.load_der_x509_certificate(certificate).serial_number


@pytest.fixture
def listener(tmp_path: Path) -> Listener:
    return Listener(tmp_path)


def test_new_connections_have_the_new_certificate(listener: Listener) -> None:
    old = listener.tls.context
    assert listener.serial_number() == BROKER.certificate.serial_number
    assert not listener.tls.is_reload_due()
    new = ROOT.issue("broker", days=(-1, 60))
    listener.replace(new)
    assert listener.tls.is_reload_due()
    listener.tls.reload()
    assert not listener.tls.is_reload_due()
    assert listener.serial_number() == new.certificate.serial_number
    assert listener.tls.context is not old
    assert round(listener.tls.days_to_expiry()) == 60


@pytest.mark.parametrize(
    "issued, sentence",
    [
        (Issued(ROOT.key, BROKER.chain), "the private key does not fit the certificate CN=broker"),
        (ROOT.issue("broker", days=(-9, -1)), "the certificate CN=broker expired on "),
        (ROOT.issue("other"), "the new certificate has the name 'CN=other' in place of 'CN=broker'; set ssl.allow.dn"),
        (ROOT.issue("broker", hosts=["localhost"]), "the new certificate lacks 127.0.0.1, which the old one has; set"),
    ],
)
def test_what_cannot_be_used_leaves_everything_as_it_was(listener: Listener, issued: Issued, sentence: str) -> None:
    context = listener.tls.context
    listener.replace(issued)
    with pytest.raises(TlsProblem) as refused:
        listener.tls.reload()
    assert str(refused.value).startswith("listener EXTERNAL: ")
    assert sentence in str(refused.value)
    assert listener.tls.context is context
    assert listener.serial_number() == BROKER.certificate.serial_number
    assert not listener.tls.is_reload_due(), "the same files would be refused again"
    listener.replace(BROKER)
    assert listener.tls.is_reload_due()
    listener.tls.reload()


@pytest.mark.parametrize(
    "fields, name, hosts",
    [
        ({"allow_dn_changes": True}, "other", ("localhost", "127.0.0.1", "more.example")),
        ({"allow_san_changes": True}, "broker", ()),
    ],
)
def test_names_may_change_if_that_is_allowed(
    tmp_path: Path, fields: dict[str, bool], name: str, hosts: Sequence[str]
) -> None:
    listener = Listener(tmp_path, **fields)
    listener.replace(ROOT.issue(name, hosts=hosts))
    listener.tls.reload()


def test_a_reload_may_have_new_settings(listener: Listener) -> None:
    elsewhere = listener.key_file.with_name("elsewhere.p12")
    new = ROOT.issue("broker")
    elsewhere.write_bytes(new.pkcs12())
    settings = listener.settings._replace(
        keystore_type="PKCS12", keystore_location=str(elsewhere), keystore_password=Secret("secret"), is_optional=True
    )
    listener.tls.reload(settings)
    assert listener.tls.settings is settings
    assert listener.tls.is_optional
    assert listener.serial_number() == new.certificate.serial_number
    for wrong in ({"keystore_password": Secret("hush")}, {"keystore_location": None, "keystore_password": None}):
        with pytest.raises(TlsProblem) as refused:
            listener.tls.reload(settings._replace(**wrong))
        assert "hush" not in str(refused.value)
        assert listener.tls.settings is settings


def test_a_missing_file_is_waited_for(listener: Listener) -> None:
    listener.key_file.unlink()
    assert not listener.tls.is_reload_due()
    with pytest.raises(TlsProblem, match=r"broker\.pem: there is no such file"):
        listener.tls.reload()


def test_days_to_expiry_follow_the_clock(listener: Listener, tmp_path: Path) -> None:
    assert (listener.tls.days_to_expiry(), listener.tls.days_to_trust_expiry()) == (30, 300)
    listener.clock.ms += 30 * DAY_MS + DAY_MS // 2
    assert (listener.tls.days_to_expiry(), listener.tls.days_to_trust_expiry()) == (-0.5, 269.5)
    settings = listener.settings._replace(truststore_location=None)
    listener.clock.ms = NOW_MS
    assert ListenerTls(settings, listener.clock).days_to_trust_expiry() is None


def test_a_broker_does_not_start_with_an_expired_certificate(listener: Listener) -> None:
    listener.clock.ms += 31 * DAY_MS
    with pytest.raises(TlsProblem, match=r"the certificate CN=broker expired on .* UTC; replace it"):
        ListenerTls(listener.settings, listener.clock)


def test_the_principal_is_the_name_of_the_certificate(listener: Listener) -> None:
    name = x509.Name([x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"), x509.NameAttribute(NameOID.COMMON_NAME, "a, b")])
    assert listener.tls.principal_of(None) == "User:ANONYMOUS"
    assert listener.tls.principal_of(ROOT.issue(name).der) == "User:CN=a\\, b,C=DE"
    assert listener.tls.principal_of(ROOT.issue(x509.Name([])).der) == "User:"
    with pytest.raises(PrincipalProblem, match="the subject of the client's certificate cannot be read"):
        listener.tls.principal_of(b"x")


def test_rules_make_principals_and_may_make_none(tmp_path: Path) -> None:
    listener = Listener(tmp_path, principal_mapping_rules="RULE:^CN=(.*?),.*$/$1/L")
    name = x509.Name([x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"), x509.NameAttribute(NameOID.COMMON_NAME, "Kafka")])
    assert listener.tls.principal_of(ROOT.issue(name).der) == "User:kafka"
    assert listener.tls.principal_of(None) == "User:ANONYMOUS"
    with pytest.raises(PrincipalProblem, match=r"no rule of ssl\.principal\.mapping\.rules matches 'CN=kafka'"):
        listener.tls.principal_of(ROOT.issue("kafka").der)


def test_each_listener_over_tls_has_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path)
    text = (
        "listeners=PLAINTEXT://:9092,SSL://:9093,OUT://:9094\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,OUT:SASL_SSL\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={tmp_path}/broker.pem\n"
        f"listener.name.out.ssl.keystore.location={tmp_path}/client.pem\n"
    )
    opened = open_all(BrokerConfig.load(text), Clock())
    assert {name: tls.settings.keystore_location for name, tls in opened.items()} == {
        "SSL": f"{tmp_path}/broker.pem",
        "OUT": f"{tmp_path}/client.pem",
    }
    assert {name: tls.security_protocol for name, tls in opened.items()} == {"SSL": "SSL", "OUT": "SASL_SSL"}
    text += "ssl.principal.mapping.rules=x\nlistener.name.out.ssl.enabled.protocols=x"
    with pytest.raises(ConfigError) as refused:
        open_all(BrokerConfig.load(text), Clock())
    assert [problem[:70] for problem in refused.value.problems] == [
        "listener SSL: ssl.principal.mapping.rules: 'x': a rule is RULE:pattern",
        "listener OUT: ssl.enabled.protocols has x, which does not exist; serve",
    ]


def test_other_brokers_are_reached_with_the_listeners_stores(tmp_path: Path) -> None:
    listener = Listener(tmp_path, client_auth="required")
    assert listener.tls.client_context is None
    tls = ListenerTls(listener.settings, listener.clock, is_inter_broker=True)
    assert tls.client_context is not None
    assert connect(tls.context, tls.client_context).certificate == BROKER.der
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        connect(tls.context, tls.client_context, "other.example")
    old = tls.client_context
    listener.replace(ROOT.issue("broker"))
    tls.reload()
    assert tls.client_context is not old
    listener.trust_file.write_text(Authority("Other").pem())
    with pytest.raises(TlsProblem, match="listener EXTERNAL: other brokers with these settings refuse the certificate"):
        tls.reload()


def test_the_listener_between_brokers_has_a_clients_context(tmp_path: Path) -> None:
    write_files(tmp_path)
    text = (
        "listeners=SSL://h:9093,OUT://h:9094\nlistener.security.protocol.map=SSL:SSL,OUT:SSL\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={tmp_path}/broker.pem\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={tmp_path}/ca.pem\ninter.broker.listener.name=OUT\n"
    )
    for more, expected in (("", [True, True]), ("zookeeper.connect=h", [True, False])):
        opened = open_all(BrokerConfig.load(text + more), Clock())
        assert [opened[name].client_context is None for name in ("SSL", "OUT")] == expected


def test_a_representation_has_no_secret(listener: Listener) -> None:
    assert "PRIVATE" not in repr((listener.settings._replace(keystore_key=Secret(BROKER.key_pem())), listener.tls))
