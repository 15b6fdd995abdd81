"""Apache Kafka 4.1, and 2.8 with its ZooKeeper: the same faults, the same rows."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.doctor.examination import SHIFTED, Examination, examine
from compat_tests.doctor.tls_front import TlsFront, write_certificate
from compat_tests.harness import toolchain
from compat_tests.harness.apache_kafka import QUICK_START, ApacheKafka, KafkaAndZooKeeper
from compat_tests.security.client_security import Login, Security, make_certificates, write_properties
from compat_tests.security.login_broker import EVERY, PASSWORD, USER
from compat_tests.security.secure_broker import MUTUAL, PLAIN
from compat_tests.security.secure_kafka import SecureKafka

pytestmark = pytest.mark.soak


class NarrowKafka(SecureKafka):
    """`EVERY` has two mechanisms."""

    def _format(self) -> None:
        super()._format()
        with self.properties.open("a") as lines:
            lines.write("listener.name.every.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512\n")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    toolchain.jars("broker")
    with NarrowKafka(tmp_path_factory.mktemp("kafka"), "broker") as made:
        yield made


def dial(address: str, config: str = "", *more: str) -> Examination:
    options = ("--command-config", config) if config else ()
    return examine("--bootstrap-server", address, *options, "--timeout", "5", *more)


def config(kafka: SecureKafka, certificate: str = "", login: Login | None = None) -> str:
    return Security(kafka.certificates, certificate, login=login).java_file()


def test_a_sound_broker(kafka: SecureKafka) -> None:
    dialled = dial(kafka.address(PLAIN), "", "--canary", "canary", "--create-canary")
    dialled.is_sound()
    found = {row.check: row.found for row in dialled.rows}
    assert "broker 1 is Kafka 4.1; clients of Kafka 0.11 and newer can use it" in found["versions"]
    assert "agrees" in found["clock"]


def test_a_sound_broker_with_tls_and_a_login(kafka: SecureKafka) -> None:
    dial(kafka.address(EVERY), config(kafka, login=Login("PLAIN", USER, PASSWORD))).is_sound()
    dial(kafka.address(MUTUAL), config(kafka, "client")).is_sound()


def test_a_broker_of_2_8_and_its_zookeeper() -> None:
    toolchain.jars("broker28")
    with KafkaAndZooKeeper(options=QUICK_START) as old:
        dialled = dial(old.bootstrap, "", "--zookeeper", f"127.0.0.1:{old.zookeeper_port}")
        wrong = dial(f"127.0.0.1:{old.zookeeper_port}")
    dialled.is_sound()
    found = [row.found for row in dialled.rows]
    assert any("broker 1 is Kafka 2.8; clients of Kafka 0.8 and newer" in text for text in found)
    assert any("brokers 1, controller 1" in text for text in found)
    wrong.fails_alone("protocol", "speaks ZooKeeper")


@pytest.mark.parametrize(
    "listener, certificate, login, check, words",
    [
        (EVERY, "", None, "login", "asks for a login by PLAIN, SCRAM-SHA-512"),
        (EVERY, "", Login("PLAIN", USER, "wrong"), "login", "refuses the login by PLAIN"),
        (EVERY, "", Login("SCRAM-SHA-512", USER, "wrong"), "login", "refuses the login by SCRAM-SHA-512"),
        (MUTUAL, "client", Login("PLAIN", USER, PASSWORD), "login", "asks for no login"),
        (MUTUAL, "", None, "tls", "certificate of the client"),
        (PLAIN, "", None, "protocol", "Kafka without TLS"),
    ],
)
def test_security_that_does_not_fit(
    kafka: SecureKafka, listener: str, certificate: str, login: Login | None, check: str, words: str
) -> None:
    dial(kafka.address(listener), config(kafka, certificate, login)).fails_alone(check, words)


def test_a_mechanism_that_is_not_offered(kafka: SecureKafka) -> None:
    login = Login("SCRAM-SHA-256", USER, PASSWORD)
    dial(kafka.address(EVERY), config(kafka, login=login)).fails_alone("login", "not SCRAM-SHA-256", "sasl.mechanism")


def test_a_plain_client_at_a_port_with_tls(kafka: SecureKafka) -> None:
    dial(kafka.address(MUTUAL)).fails_alone("protocol", "speaks TLS")


def test_a_foreign_authority(kafka: SecureKafka, tmp_path: Path) -> None:
    other = make_certificates(tmp_path / "other", "client")
    dial(kafka.address(EVERY), Security(other).java_file()).fails_alone("tls", "not trusted")


def test_certificates_of_another_name_and_expired_ones(kafka: SecureKafka, tmp_path: Path) -> None:
    certificate, authority = write_certificate(tmp_path / "expired.pem", days=-1)
    settings = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority), "security.protocol": "SSL"}
    file = write_properties(tmp_path / "client.properties", settings)
    with TlsFront(certificate, kafka.port) as front:
        dial(front.address, file).fails_alone("certificate", "expired")
    certificate, authority = write_certificate(tmp_path / "good.pem", days=100)
    file = write_properties(tmp_path / "client.properties", {**settings, "ssl.truststore.location": str(authority)})
    with TlsFront(certificate, kafka.port) as front:
        dial(front.address.replace("localhost", "127.0.0.1"), file).fails_alone("tls", "for other names")


def test_a_clock_that_differs_by_ten_minutes(kafka: SecureKafka) -> None:
    options = ("--bootstrap-server", kafka.address(PLAIN), "--canary", "canary", "--create-canary")
    dialled = examine(*options, headgate=(sys.executable, "-c", SHIFTED, "-600"))
    dialled.fails_alone("clock", "broker 1 is 10 minutes ahead of")


def test_a_canary_without_a_topic(kafka: SecureKafka) -> None:
    dial(kafka.address(PLAIN), "", "--canary", "missing").fails_alone("canary", "no topic missing")


@pytest.mark.parametrize(
    "advertised, words",
    [("no-such-host.invalid:9092", "Name or service not known"), ("127.0.0.1:1", "refused")],
)
def test_a_wrong_advertised_address(advertised: str, words: str) -> None:
    toolchain.jars("broker")
    with ApacheKafka({"advertised.listeners": f"PLAINTEXT://{advertised}"}, options=QUICK_START) as wrong:
        dial(wrong.bootstrap).fails_alone("advertised", f"broker 1 at {advertised}", words)
