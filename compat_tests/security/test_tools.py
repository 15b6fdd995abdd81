"""Headgate's commands over TLS and SASL: `--command-config`, and one sentence with the cure for each mistake."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from compat_tests.harness import toolchain
from compat_tests.harness.broker import TARGET, installed_command
from compat_tests.security.client_security import make_certificates, write_properties
from compat_tests.security.kdc import REALM, Kdc
from compat_tests.security.login_broker import EVERY, NARROW, PASSWORD, SCRAM, SIGNED, USER, LoginBroker
from compat_tests.security.mechanisms_broker import ALICE, LOGINS, MechanismsBroker
from compat_tests.security.secure_broker import MUTUAL, PLAIN, TLS, SecureBroker
from compat_tests.security.secure_kafka import SecureKafka

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="the broker is configured by its command line")
MODULES = "org.apache.kafka.common.security"
REFUSAL_LIMIT_S = 5.0
WRONG = "no secret of alice"


def trusted(certificates: Path, ca: str = "ca.pem") -> dict[str, str]:
    return {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates / ca),
        "client.id": "of another purpose",
    }


def login(certificates: Path, mechanism: str, password: str = PASSWORD, protocol: str = "SASL_SSL") -> dict[str, str]:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    options = f'username="{USER}" password="{password}"'
    if mechanism == "OAUTHBEARER":
        module, options = "oauthbearer.OAuthBearerLoginModule", f'unsecuredLoginStringClaim_sub="{USER}"'
    line = f"{MODULES}.{module} required {options};"
    return {
        **trusted(certificates),
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": line,
    }


def run(
    directory: Path, address: str, settings: Mapping[str, str], *words: str, variables: Mapping[str, str] | None = None
) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    config = write_properties(directory / "client.properties", settings)
    command = [*installed_command(), *words, "--bootstrap-server", address, "--command-config", config]
    env = {**os.environ, **(variables or {})}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def rows_of(output: str) -> list[Any]:
    return [json.loads(line) for line in output.splitlines()]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_a_command_logs_in(logins: LoginBroker, tmp_path: Path, mechanism: str) -> None:
    name = f"of-{mechanism.lower()}"
    settings = login(logins.certificates, mechanism)
    code, _, errors = run(tmp_path, logins.address(EVERY), settings, "topics", "create", name)
    assert (code, errors) == (0, "")
    code, output, _ = run(tmp_path, logins.address(EVERY), settings, "topics", "describe", name, "--json")
    assert [row["topic"] for row in rows_of(output)] == [name]


def test_a_signed_token_of_a_file_logs_in(logins: LoginBroker, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(logins.token())
    settings = {
        **login(logins.certificates, "OAUTHBEARER"),
        "sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;",
        "sasl.oauthbearer.token.endpoint.url": (tmp_path / "token").as_uri(),
    }
    assert run(tmp_path, logins.address(SIGNED), settings, "topics", "list")[0] == 0


def test_a_command_logs_in_by_kerberos(mechanisms: MechanismsBroker, realm: Kdc | None, tmp_path: Path) -> None:
    """By a key table, and by the tickets of kinit; without either the error names what shows why."""
    if realm is None:
        toolchain.missing("there is no KDC: run `make kerberos` as root")
    assert realm is not None
    topic, table = mechanisms.new_topic(ALICE), realm.key_table(ALICE)
    tickets, none = realm.directory / f"{ALICE}.keytab.tickets", tmp_path / "none"
    for options, found in (
        (f'useKeyTab=true keyTab="{table}" principal="{ALICE}@{REALM}"', [topic]),
        (f'useTicketCache=true ticketCache="{tickets}"', [topic]),
        (f'useTicketCache=true ticketCache="{none}"', "get a ticket with kinit"),
        (f'useKeyTab=true keyTab="{none}" principal="{ALICE}@{REALM}"', f"`klist -k {none}` shows whether"),
    ):
        line = f"com.sun.security.auth.module.Krb5LoginModule required {options};"
        settings = {
            **trusted(mechanisms.certificates),
            "security.protocol": "SASL_SSL",
            "sasl.jaas.config": line,
            "sasl.kerberos.service.name": "kafka",
        }
        variables = realm.broker_environment()
        words = ("topics", "list", "--json")
        code, output, errors = run(tmp_path, mechanisms.address(LOGINS), settings, *words, variables=variables)
        if isinstance(found, str):
            assert (code, found in errors) == (1, True), errors
        else:
            assert set(found) <= {row["topic"] for row in rows_of(output)}, errors


def test_a_command_logs_in_by_a_delegation_token(logins: LoginBroker, tmp_path: Path) -> None:
    code, output, errors = run(
        tmp_path, logins.address(EVERY), login(logins.certificates, "SCRAM-SHA-256"), "tokens", "create", "--json"
    )
    assert code == 0, errors
    (token,) = rows_of(output)
    words = f'username="{token["token_id"]}" password="{token["hmac"]}" tokenauth="true"'
    for mechanism in SCRAM:
        line = f"{MODULES}.scram.ScramLoginModule required {words};"
        settings = {**login(logins.certificates, mechanism), "sasl.jaas.config": line}
        assert run(tmp_path, logins.address(EVERY), settings, "topics", "list")[0] == 0
    lost = {**settings, "sasl.jaas.config": line.replace(token["hmac"], WRONG)}
    assert "refuses the login by SCRAM-SHA-512: " in refused(tmp_path, logins.address(EVERY), lost)


@pytest.mark.parametrize("command", ["groups", "txn", "acls", "quotas", "users"])
def test_every_kind_of_command_logs_in(logins: LoginBroker, tmp_path: Path, command: str) -> None:
    code, _, errors = run(tmp_path, logins.address(EVERY), login(logins.certificates, "SCRAM-SHA-256"), command, "list")
    assert "broker refuses" not in errors
    assert code == 0 or "SECURITY_DISABLED" in errors


def test_a_command_shows_its_certificate(secure: SecureBroker, tmp_path: Path) -> None:
    settings = trusted(secure.certificates)
    own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(secure.certificates / "client.pem")}
    assert run(tmp_path, secure.address(MUTUAL), {**settings, **own}, "topics", "list")[0] == 0
    code, _, errors = run(tmp_path, secure.address(MUTUAL), settings, "topics", "list")
    assert code == 1
    assert "asks for a certificate of the client" in errors


def refused(directory: Path, address: str, settings: Mapping[str, str], code: int = 1) -> str:
    """The one line of a command that is refused in time."""
    began_s = time.monotonic()
    found, _, errors = run(directory, address, settings, "groups", "list")
    assert found == code, errors
    assert time.monotonic() - began_s < REFUSAL_LIMIT_S
    assert WRONG not in errors
    assert PASSWORD not in errors
    line = errors.splitlines()[-1]
    assert code == 2 or line == errors.strip()
    return line


def test_each_mistake_of_tls_has_its_cure(secure: SecureBroker, tmp_path: Path) -> None:
    good = trusted(secure.certificates)
    other = make_certificates(tmp_path / "other", "x")
    ip = f"127.0.0.1:{secure.ports()[TLS]}"
    assert run(tmp_path, ip, good, "topics", "list")[0] == 0
    for address, settings, sentence in (
        (secure.address(TLS), trusted(other), "is not trusted: .*; set ssl.truststore.location"),
        (secure.address(TLS), {}, "a port with TLS needs security.protocol=SSL or SASL_SSL"),
        (secure.address(PLAIN), good, r"does not speak TLS there \(set security.protocol=PLAINTEXT"),
    ):
        assert re.search(sentence, refused(tmp_path, address, settings))


def test_each_mistake_of_a_login_has_its_cure(logins: LoginBroker, tmp_path: Path) -> None:
    scram = login(logins.certificates, "SCRAM-SHA-256")
    for address, settings, sentence in (
        (EVERY, login(logins.certificates, "PLAIN", WRONG), "refuses the login by PLAIN: .*[Ii]nvalid"),
        (EVERY, login(logins.certificates, "SCRAM-SHA-512", WRONG), "refuses the login by SCRAM-SHA-512: .*invalid"),
        (NARROW, login(logins.certificates, "PLAIN"), "the broker offers SCRAM-SHA-256, not PLAIN; set sasl.mechanism"),
        (EVERY, trusted(logins.certificates), "a port with SASL needs a login: security.protocol=SASL_SSL"),
        (PLAIN, {**scram, "security.protocol": "SASL_PLAINTEXT"}, "asks for no login on this port; set security"),
        (
            EVERY,
            {**scram, "security.protocol": "SASL_PLAINTEXT"},
            "a port with TLS needs security.protocol=SSL or SASL_SSL",
        ),
    ):
        assert re.search(sentence, refused(tmp_path, logins.address(address), settings))


def test_a_wrong_file_is_refused_before_any_connection(tmp_path: Path) -> None:
    line = refused(tmp_path, "127.0.0.1:1", {"ssl.truststore.locaton": "/x"}, 2)
    assert line.endswith("is no setting of clients; the nearest name is ssl.truststore.location")
    line = refused(tmp_path, "127.0.0.1:1", {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, 2)
    assert "sasl.jaas.config is missing; write" in line


@pytest.mark.soak
@pytest.mark.parametrize("jar_set", ["broker", "broker39"])
def test_commands_log_in_at_apache_kafka(tmp_path: Path, jar_set: str) -> None:
    """The same files and sentences at Kafka 4.1 and 3.9; a broker of Java resets or answers where ours advises."""
    with SecureKafka(tmp_path / "kafka", jar_set) as kafka:
        (tmp_path / "password").write_text(PASSWORD)
        password = ("--password-file", str(tmp_path / "password"))
        for mechanism in SCRAM:
            words = ("users", "add", USER, *password, "--mechanism", mechanism)
            assert run(tmp_path, kafka.address(PLAIN), {}, *words)[0] == 0
        for mechanism in ("PLAIN", *SCRAM, "OAUTHBEARER"):
            settings = login(kafka.certificates, mechanism)
            for command in ("topics", "groups", "txn", "quotas", "users"):
                assert run(tmp_path, kafka.address(EVERY), settings, command, "list")[0] == 0
        own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(kafka.certificates / "client.pem")}
        tls = trusted(kafka.certificates)
        assert run(tmp_path, kafka.address(MUTUAL), {**tls, **own}, "topics", "list")[0] == 0
        other = make_certificates(tmp_path / "other", "x")
        for listener, settings, sentence in (
            (EVERY, login(kafka.certificates, "PLAIN", WRONG), "refuses the login by PLAIN: .*[Ii]nvalid username"),
            (EVERY, login(kafka.certificates, "SCRAM-SHA-512", WRONG), "refuses the login by SCRAM-SHA-512: .*invalid"),
            (EVERY, tls, "a port with SASL needs a login: security.protocol=SASL_SSL"),
            (EVERY, trusted(other), "is not trusted: .*; set ssl.truststore.location"),
            (MUTUAL, tls, "asks for a certificate of the client"),
            (MUTUAL, {}, "speaks TLS; set security.protocol|a port with TLS needs security.protocol=SSL"),
            (PLAIN, tls, "does not speak TLS: set security.protocol=PLAINTEXT"),
            (PLAIN, login(kafka.certificates, "PLAIN", protocol="SASL_PLAINTEXT"), "asks for no login on this port"),
        ):
            assert re.search(sentence, refused(tmp_path, kafka.address(listener), settings))
