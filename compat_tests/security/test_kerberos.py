"""What a real KDC shows: names by rules, tickets that are refused, and the line of the broker's log for each."""

from __future__ import annotations

import importlib
import os
import socket
import ssl
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from compat_tests.families.family import FromStart
from compat_tests.families.kcat import Kcat, kcat
from compat_tests.harness.broker import TARGET
from compat_tests.harness.records import assert_same, generate
from compat_tests.harness.waiting import until
from compat_tests.security import kdc
from compat_tests.security.client_security import GSSAPI, Login, Security
from compat_tests.security.kdc import LIBRARY, REALM, Kdc
from compat_tests.security.mechanisms_broker import (
    ALICE,
    BOB,
    LOGINS,
    RULES,
    SERVICE_PRINCIPAL,
    USERS,
    MechanismsBroker,
)

pytestmark = [
    pytest.mark.skipif(TARGET != "headgate", reason="the broker is configured for SASL by its command line"),
    pytest.mark.skipif(not kdc.is_installed(), reason=f"no KDC, or no {LIBRARY}: `make kerberos` as root"),
]
ADMIN: Final = "alice/admin"
OTHER_SERVICE: Final = "other/localhost"
LIMIT_S: Final = 10.0
TICKET_LIFE: Final = "2s"


@pytest.fixture
def own_realm(tmp_path: Path) -> Iterator[Kdc]:
    """A KDC whose keys a test may change."""
    own = Kdc(tmp_path / "kdc")
    own.start()
    try:
        own.add(SERVICE_PRINCIPAL, OTHER_SERVICE, ADMIN, *USERS)
        yield own
    finally:
        own.stop()


@pytest.fixture
def own_broker(own_realm: Kdc, tmp_path: Path) -> Iterator[MechanismsBroker]:
    """A broker for each mistake: it says a few times only what one address does wrong."""
    broker = MechanismsBroker(tmp_path / "broker", own_realm)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


@pytest.fixture
def tickets(own_realm: Kdc, monkeypatch: pytest.MonkeyPatch) -> Callable[..., bytes]:
    """The function that gets a ticket of alice for a service, and makes the first token of a login with it."""
    monkeypatch.syspath_prepend(str(LIBRARY))
    gssapi: Any = importlib.import_module("gssapi")

    def token(service: str = "kafka") -> bytes:
        own_realm.log_in(ALICE, "tickets")
        for name, value in own_realm.environment("tickets").items():
            monkeypatch.setenv(name, value)
        name = gssapi.Name(f"{service}@localhost", gssapi.NameType.hostbased_service)
        context = gssapi.SecurityContext(name=name, usage="initiate", mech=gssapi.MechType.kerberos)
        return bytes(context.step())

    return token


def answer_to(broker: MechanismsBroker, token: bytes) -> bytes:
    """The broker's answer to a bare token, as clients of Kafka 0.9 send it; nothing for a refusal."""
    host, port = broker.address(LOGINS).split(":")
    context = ssl.create_default_context(cafile=broker.certificates / "ca.pem")
    with (
        socket.create_connection((host, int(port)), LIMIT_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as stream,
    ):
        stream.sendall(struct.pack(">i", len(token)) + token)
        size = stream.recv(4)
        return stream.recv(struct.unpack(">i", size)[0]) if size else b""


def until_logged(broker: MechanismsBroker, words: str) -> None:
    until(lambda: any(words in line for line in broker.error_lines()), f"the line {words!r}", LIMIT_S)


def test_rules_make_users_of_names(own_broker: MechanismsBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bob's topic is open to alice/admin, and closed to alice, who has no name by the rules of this listener."""
    realm = own_broker.kdc
    assert realm is not None
    client, topic, began_ms = Kcat(), own_broker.new_topic(BOB), int(time.time() * 1000)
    client.check()
    sent = generate(5, 1, client.traits)
    address = own_broker.address(RULES)
    client.security = security_of(own_broker, realm, ADMIN, monkeypatch)
    client.produce(address, topic, sent, "none")
    assert_same(sent, client.consume(address, topic, FromStart(), {0: len(sent)}), began_ms)
    assert "SASL" in refusal_of(address, security_of(own_broker, realm, ALICE, monkeypatch))
    until_logged(own_broker, "(sasl.kerberos.principal.to.local.rules)")


def security_of(broker: MechanismsBroker, realm: Kdc, name: str, monkeypatch: pytest.MonkeyPatch) -> Security:
    """The settings of a client that runs `kinit` by itself."""
    keys, settings = str(realm.key_table(name)), str(realm.directory / "krb5.conf")
    login = Login(GSSAPI, f"{name}@{REALM}", key_table=keys, kerberos=settings)
    for variable, value in login.environment().items():
        monkeypatch.setenv(variable, value)
    return Security(broker.certificates, login=login)


def refusal_of(address: str, security: Security, *options: str) -> str:
    """What kcat says until it gives up."""
    words = [word for name, value in security.of_librdkafka().items() for word in ("-X", f"{name}={value}")]
    command = [kcat(), "-L", "-b", address, "-m", "5", *words, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=os.environ)
    assert done.returncode != 0, done.stdout
    return done.stderr


def test_a_client_with_a_wrong_service_name_says_so(
    own_broker: MechanismsBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert own_broker.kdc is not None
    security = security_of(own_broker, own_broker.kdc, ALICE, monkeypatch)
    said = refusal_of(own_broker.address(LOGINS), security, "-X", "sasl.kerberos.service.name=nobody")
    assert f"Server nobody/localhost@{REALM} not found in Kerberos database" in said


def test_a_ticket_for_another_service_is_named(own_broker: MechanismsBroker, tickets: Callable[..., bytes]) -> None:
    assert answer_to(own_broker, tickets("other")) == b""
    until_logged(own_broker, f"Kerberos: Cannot decrypt ticket for {OTHER_SERVICE}@{REALM}")


def test_a_token_counts_once(own_broker: MechanismsBroker, tickets: Callable[..., bytes]) -> None:
    token = tickets()
    assert answer_to(own_broker, token)
    assert answer_to(own_broker, token) == b""
    until_logged(own_broker, "Kerberos: Request is a replay")


def test_a_client_with_an_expired_ticket_says_so(own_broker: MechanismsBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    realm = own_broker.kdc
    assert realm is not None
    security = security_of(own_broker, realm, ALICE, monkeypatch)
    realm.log_in(ALICE, f"{ALICE}.keytab.tickets", "-l", TICKET_LIFE)
    command, environment = ["klist", "-s"], {**os.environ, **realm.environment(f"{ALICE}.keytab.tickets")}
    until(lambda: subprocess.run(command, env=environment, check=False).returncode != 0, "the ticket's end", LIMIT_S)
    # Otherwise it gets another ticket
    said = refusal_of(own_broker.address(LOGINS), security, "-X", "sasl.kerberos.kinit.cmd=true")
    assert "Ticket expired" in said


def test_a_key_table_that_is_too_old_or_gone_is_named(
    own_broker: MechanismsBroker, tickets: Callable[..., bytes]
) -> None:
    """A new one is used at once."""
    realm = own_broker.kdc
    assert realm is not None
    table = realm.key_table(SERVICE_PRINCIPAL)
    realm.run_admin(f"change_password -randkey {SERVICE_PRINCIPAL}")
    assert answer_to(own_broker, tickets()) == b""
    until_logged(own_broker, f"Kerberos: Cannot find key for {SERVICE_PRINCIPAL}@{REALM} kvno 2 in keytab")
    table.unlink()
    assert answer_to(own_broker, tickets()) == b""
    until_logged(own_broker, f"Kerberos: Key table file '{table}' not found")
    realm.run_admin(f"ktadd -k {table} -norandkey {SERVICE_PRINCIPAL}")
    assert answer_to(own_broker, tickets())
