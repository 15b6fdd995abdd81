"""What a client meets on its way to a Headgate: for each fault the right row is wrong, and nothing on a sound one."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from compat_tests.doctor.examination import SHIFTED, Examination, examine
from compat_tests.doctor.secured import ADMIN, ELSEWHERE, LOGIN, NOBODY, SecuredBroker
from compat_tests.doctor.tls_front import TlsFront, write_certificate, write_chain
from compat_tests.harness.broker import TARGET, HeadgateBroker
from compat_tests.security.client_security import write_properties
from compat_tests.security.secure_broker import MUTUAL, PLAIN, TLS

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="the brokers are configured by their command line")

TEN_MINUTES_S: Final = "600"


def dial(address: str, config: str = "", *more: str) -> Examination:
    options = ("--command-config", config) if config else ()
    return examine("--bootstrap-server", address, *options, "--timeout", "3", *more)


@contextmanager
def started(directory: Path, settings: dict[str, str]) -> Iterator[HeadgateBroker]:
    broker = HeadgateBroker(directory, settings)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


# Sound brokers


def test_a_sound_broker_without_security(plain: HeadgateBroker) -> None:
    dialled = dial(plain.bootstrap, "", "--canary", "canary", "--create-canary")
    dialled.is_sound()
    checks = {row.check for row in dialled.rows if row.state == "ok"}
    wanted = {"name", "connection", "protocol", "login", "versions", "controller", "brokers", "replicas", "disk"}
    assert checks >= wanted | {"health", "canary", "clock"}


def test_a_sound_broker_with_tls_and_logins(secured: SecuredBroker) -> None:
    config = secured.config(login=ADMIN)
    dialled = dial(secured.address(LOGIN), config, "--canary", "canary", "--create-canary")
    dialled.is_sound()
    assert {"certificate", "tls", "login", "canary", "clock"} <= {row.check for row in dialled.rows}
    dial(secured.address(TLS), secured.config()).is_sound()
    with_certificate = dial(secured.address(MUTUAL), secured.config("client"))
    with_certificate.is_sound()
    assert "client certificate" in {row.check for row in with_certificate.rows}


# Names and ports


def test_a_name_without_an_address() -> None:
    dial("no-such-host.invalid:9092").fails_alone("name", "no-such-host.invalid has no address", "/etc/hosts")


def test_a_port_where_nothing_listens() -> None:
    dial("127.0.0.1:1").fails_alone("connection", "nothing listens", "start the broker")


def test_the_port_of_http(plain: HeadgateBroker) -> None:
    address = (plain.http() or "").removeprefix("http://")
    dial(address).fails_alone("protocol", "speaks HTTP", "port of a Kafka listener")


@pytest.mark.parametrize("greeting, words", [(b"SSH-2.0-x\r\n", "another protocol"), (b"", "nothing: it hangs up")])
def test_the_port_of_another_service(greeting: bytes, words: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, serving(listener, greeting):
        dial(f"127.0.0.1:{listener.getsockname()[1]}").fails_alone("protocol", words)


@contextmanager
def serving(listener: socket.socket, greeting: bytes) -> Iterator[None]:
    """Send the same to each connection, and hang up."""

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(greeting)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield
    listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)


# TLS and logins


def test_a_plain_client_at_a_port_with_tls(secured: SecuredBroker) -> None:
    dial(secured.address(TLS)).fails_alone("protocol", "speaks TLS", "security.protocol=SSL")


def test_a_tls_client_at_a_plain_port(secured: SecuredBroker) -> None:
    address = secured.address(PLAIN)
    dial(address, secured.config()).fails_alone("protocol", "Kafka without TLS", "security.protocol=PLAINTEXT")


def test_a_foreign_authority(secured: SecuredBroker) -> None:
    dial(secured.address(TLS), secured.foreign_config()).fails_alone("tls", "not trusted", "ssl.truststore.location")


def test_a_certificate_of_another_name(secured: SecuredBroker) -> None:
    dialled = dial(secured.address(ELSEWHERE), secured.config())
    dialled.fails_alone("tls", "for other names", "connect by a name in the certificate")
    assert "for elsewhere.example" in {row.check: row.found for row in dialled.rows}["certificate"]


def test_an_expired_certificate_of_a_broker(plain: HeadgateBroker, tmp_path: Path) -> None:
    certificate, authority = write_certificate(tmp_path / "expired.pem", days=-1)
    config = write_properties(tmp_path / "client.properties", trusting(authority))
    with TlsFront(certificate, plain.port) as front:
        dial(front.address, config).fails_alone("certificate", "expired", "get a new certificate")


def test_a_certificate_that_expires_soon_is_a_note(plain: HeadgateBroker, tmp_path: Path) -> None:
    certificate, authority = write_certificate(tmp_path / "soon.pem", days=10)
    config = write_properties(tmp_path / "client.properties", trusting(authority))
    with TlsFront(certificate, plain.port) as front:
        rows = {row.check: row for row in dial(front.address, config).rows}
    assert rows["certificate"].state == "note"
    assert "expires in 9 days" in rows["certificate"].found


def test_an_intermediate_that_expires_soon_is_a_note(plain: HeadgateBroker, tmp_path: Path) -> None:
    certificate, authority = write_chain(tmp_path / "chain.pem", days=10)
    config = write_properties(tmp_path / "client.properties", trusting(authority))
    with TlsFront(certificate, plain.port) as front:
        rows = dial(front.address, config).rows
    [row] = [row for row in rows if row.check == "chain"]
    assert row.state == "note"
    assert "CN=intermediate" in row.found
    assert "expires in 9 days" in row.found


def test_a_chain_without_its_intermediate(plain: HeadgateBroker, tmp_path: Path) -> None:
    certificate, authority = write_chain(tmp_path / "chain.pem", days=100, is_whole=False)
    config = write_properties(tmp_path / "client.properties", trusting(authority))
    with TlsFront(certificate, plain.port) as front:
        dialled = dial(front.address, config)
    dialled.fails_alone("tls", "not trusted")
    rows = {row.check: row for row in dialled.rows}
    assert "sends no certificate of CN=intermediate" in rows["chain"].found


def trusting(authority: Path) -> dict[str, str]:
    return {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority),
    }


def test_no_certificate_of_the_client(secured: SecuredBroker) -> None:
    dial(secured.address(MUTUAL), secured.config()).fails_alone("tls", "certificate of the client", "ssl.keystore")


def test_an_expired_certificate_of_the_client(secured: SecuredBroker, tmp_path: Path) -> None:
    certificate, authority = write_certificate(tmp_path / "expired.pem", days=-1)
    settings = {**trusting(authority), "ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificate)}
    config = write_properties(tmp_path / "client.properties", settings)
    dial(secured.address(MUTUAL), config).fails_alone("client certificate", "expired")


def test_a_mechanism_that_the_listener_does_not_offer(secured: SecuredBroker) -> None:
    config = secured.config(login=ADMIN, mechanism="SCRAM-SHA-256")
    dial(secured.address(LOGIN), config).fails_alone("login", "offers PLAIN, not SCRAM-SHA-256", "sasl.mechanism")


def test_a_wrong_password(secured: SecuredBroker) -> None:
    config = secured.config(login=(ADMIN[0], "wrong"))
    row = dial(secured.address(LOGIN), config).fails_alone("login", "refuses the login by PLAIN", "sasl.jaas.config")
    assert "wrong" not in row.found.split("PLAIN")[1]


def test_no_login_where_one_is_needed(secured: SecuredBroker) -> None:
    dial(secured.address(LOGIN), secured.config()).fails_alone("login", "asks for a login by PLAIN", "SASL_SSL")


def test_a_login_where_none_is_taken(secured: SecuredBroker) -> None:
    dial(secured.address(TLS), secured.config(login=ADMIN)).fails_alone("login", "asks for no login", "SSL")


def test_a_user_without_rights(secured: SecuredBroker) -> None:
    row = dial(secured.address(LOGIN), secured.config(login=NOBODY)).fails_alone("access", "sees no topic")
    assert "headgate acls add" in (row.cure or "")


# Advertised addresses


def test_an_advertised_name_without_an_address(tmp_path: Path) -> None:
    with started(tmp_path, {"advertised.listeners": "PLAINTEXT://no-such-host.invalid:0"}) as broker:
        dialled = dial(broker.bootstrap)
        found = dialled.fails_alone("advertised", "broker 0 at no-such-host.invalid", "Name or service not known")
    assert found.cure == (
        f"127.0.0.1:{broker.port} answers: set advertised.listeners=PLAINTEXT://127.0.0.1:{broker.port} of broker 0"
    )


def test_an_advertised_port_where_nothing_listens(tmp_path: Path) -> None:
    with started(tmp_path, {"advertised.listeners": "PLAINTEXT://127.0.0.1:1"}) as broker:
        wanted = f"set advertised.listeners=PLAINTEXT://127.0.0.1:{broker.port} of broker 0"
        dial(broker.bootstrap).fails_alone("advertised", "127.0.0.1:1", wanted)


def test_an_advertised_address_of_another_broker(plain: HeadgateBroker, tmp_path: Path) -> None:
    advertised = {"advertised.listeners": f"PLAINTEXT://{plain.bootstrap}", "node.id": "7"}
    with started(tmp_path, advertised) as broker:
        dial(broker.bootstrap).fails_alone("advertised", "where a broker of another cluster answers")


def test_bootstrap_addresses_of_two_clusters(plain: HeadgateBroker, tmp_path: Path) -> None:
    with started(tmp_path, {}) as other:
        dialled = dial(f"{plain.bootstrap},{other.bootstrap}")
        dialled.fails_alone("bootstrap", "different clusters", "each has a broker with node.id 0")


# Clocks, canaries, disks


class ShiftedBroker(HeadgateBroker):
    """A broker whose clock is ten minutes ahead."""

    def command(self) -> list[str]:
        return [sys.executable, "-c", SHIFTED, TEN_MINUTES_S, *super().command()[1:]]


def test_a_clock_that_is_ten_minutes_ahead(tmp_path: Path) -> None:
    broker = ShiftedBroker(tmp_path)
    broker.start()
    try:
        dialled = dial(broker.bootstrap, "", "--canary", "canary", "--create-canary")
    finally:
        broker.stop()
    dialled.fails_alone("clock", "broker 0 is 10 minutes ahead", "NTP")


def test_a_canary_without_a_topic(plain: HeadgateBroker) -> None:
    dial(plain.bootstrap, "", "--canary", "missing").fails_alone("canary", "no topic missing", "--create-canary")


def test_a_canary_that_may_not_write(secured: SecuredBroker) -> None:
    dialled = dial(secured.address(LOGIN), secured.config(login=NOBODY), "--canary", "private")
    dialled.fails("canary", "private")
    assert set(dialled.wrong()) == {"access", "canary"}
