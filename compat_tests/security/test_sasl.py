"""Stock clients log in over TLS: each family of today and old clients, by each mechanism that they know."""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from compat_tests.families.aiokafka_client import Aiokafka
from compat_tests.families.confluent import Confluent
from compat_tests.families.family import Family, FromStart
from compat_tests.families.java_client import JavaClient
from compat_tests.families.json_lines import FranzGo, Kafkajs, Sarama
from compat_tests.families.kafka_python import KafkaPython
from compat_tests.harness.broker import TARGET
from compat_tests.harness.records import assert_same, generate
from compat_tests.harness.tool_jvm import ToolJvm
from compat_tests.harness.topics import new_topic
from compat_tests.matrix.carried import assert_carried, records_of
from compat_tests.matrix.client import Client
from compat_tests.matrix.rows import ROWS
from compat_tests.security.client_security import Login, Security
from compat_tests.security.login_broker import NARROW, PASSWORD, SIGNED, USER, LoginBroker
from compat_tests.security.test_tls_clients import ends_of, now_ms
from compat_tests.tools.kafka_tools import CONFIGS

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="the broker is configured for SASL by its command line")
COUNT = 20
KINDS: tuple[type[Family], ...] = (Confluent, KafkaPython, Aiokafka, JavaClient, FranzGo, Sarama, Kafkajs)
# It writes with the one, and reads with the other
PAIRS = (("PLAIN", "SCRAM-SHA-256"), ("SCRAM-SHA-512", "OAUTHBEARER"), (SIGNED, SIGNED))
# Java reads bearer tokens by a library that its jars of these tests do not have
KINDS_OF_PAIRS = [(kind, pair) for kind in KINDS for pair in (PAIRS[:1] if kind is JavaClient else PAIRS)]
OLD = {
    "librdkafka 0.11.6": PAIRS[:1],
    "librdkafka 1.9.2": PAIRS[:2],
    "java 0.10.2.2": (("PLAIN", "PLAIN"),),
    "java 2.8.2": PAIRS[:1],
    "java 3.9.1": PAIRS[:1],
}
OLD_ROWS = [(row, pair) for row in ROWS for pair in OLD.get(row.name, ())]
WRONG = "no secret of alice"
REFUSAL_LIMIT_S = 5.0
REFUSED = {
    Confluent: r"Authentication failed",
    # It drops an answer that it reads together with the end of the connection
    KafkaPython: r"Authentication failed: Invalid username or password|socket disconnected",
    Aiokafka: r"Authentication failed",
    JavaClient: r"SaslAuthenticationException",
    FranzGo: r"SASL_AUTHENTICATION_FAILED",
    Sarama: r"SASL Authentication failed|invalid credentials|Authentication failed",
    Kafkajs: r"SASL PLAIN authentication failed",
}
UNKNOWN = {
    Confluent: r"mechanism|mechanisms",
    KafkaPython: r"UnsupportedSaslMechanism|mechanism|socket disconnected",
    Aiokafka: r"UnsupportedSaslMechanism|mechanism",
    JavaClient: r"UnsupportedSaslMechanismException",
    FranzGo: r"UNSUPPORTED_SASL_MECHANISM",
    Sarama: r"client has run out of available brokers",
    Kafkajs: r"mechanism",
}


@pytest.mark.parametrize(
    "kind, pair", KINDS_OF_PAIRS, ids=[f"{kind.name}-{'+'.join(dict.fromkeys(pair))}" for kind, pair in KINDS_OF_PAIRS]
)
def test_a_family_logs_in(logins: LoginBroker, kind: type[Family], pair: tuple[str, str]) -> None:
    family = kind()
    family.check()
    name, began_ms = new_topic(logins.bootstrap, 1), now_ms()
    sent = generate(COUNT, 1, family.traits)
    try:
        address, family.security = logins.security(pair[0])
        family.produce(address, name, sent, "none")
        family.close()
        address, family.security = logins.security(pair[1])
        assert_same(sent, family.consume(address, name, FromStart(), ends_of(logins, name)), began_ms)
    finally:
        family.close()


@pytest.mark.parametrize(
    "row, pair", OLD_ROWS, ids=[f"{row.name}-{'+'.join(pair)}".replace(" ", "-") for row, pair in OLD_ROWS]
)
def test_an_old_client_logs_in(logins: LoginBroker, row: Client, pair: tuple[str, str]) -> None:
    client = copy.copy(row)
    client.command()
    name, began_ms = new_topic(logins.bootstrap, 2), now_ms()
    sent = records_of(client.abilities, COUNT, seed=1)
    address, client.security = logins.security(pair[0])
    client.produce_each(address, name, {"none": sent})
    address, client.security = logins.security(pair[1])
    found = client.read_in_group(address, name, f"{name}-group", len(sent))
    assert_carried(sent, found, client.abilities, client.abilities, began_ms)


@pytest.fixture
def refusal(caplog: pytest.LogCaptureFixture) -> Callable[[Family, str], str]:
    """What a client says that is not let in, in its log too; it must say so in time."""

    def tell(family: Family, address: str) -> str:
        return f"{refusal_of(family, address)} {caplog.text}"

    return tell


def refusal_of(family: Family, address: str) -> str:
    family.check()
    began = time.monotonic()
    tell = {Confluent: librdkafkas_refusal, KafkaPython: kafka_pythons_refusal}.get(type(family), failure)
    said = tell(family, address)
    took_s = time.monotonic() - began
    assert took_s < REFUSAL_LIMIT_S, f"it took {took_s:.1f} s to say {said}"
    return said


def kafka_pythons_refusal(family: Family, address: str) -> str:
    """It tells by its log, and tries again for so long."""
    from kafka import KafkaConsumer

    assert isinstance(family, KafkaPython)
    try:
        KafkaConsumer(bootstrap_servers=address, bootstrap_timeout_ms=1000, **family.settings()).topics()
    except Exception as error:  # noqa: BLE001  each client has its own
        return repr(error)
    return "the client was let in"


def failure(family: Family, address: str) -> str:
    try:
        family.produce(address, "unseen", generate(1, 1, family.traits), "none")
    except (Exception, AssertionError) as error:  # noqa: BLE001  each client has its own
        return f"{error!r} {error}"
    finally:
        family.close()
    return "the client was let in"


def librdkafkas_refusal(family: Family, address: str) -> str:
    """It tells by a callback, and tries again for ever."""
    from confluent_kafka import Consumer

    from compat_tests.security.client_security import of_confluent

    told: list[str] = []
    settings = {"bootstrap.servers": address, "group.id": "unused", "error_cb": lambda error: told.append(str(error))}
    consumer = Consumer({**settings, "log_level": 0, **of_confluent(family.security)})
    deadline = time.monotonic() + REFUSAL_LIMIT_S
    while time.monotonic() < deadline and not any("_AUTHENTICATION" in text for text in told):
        consumer.poll(0.1)
    consumer.close()
    return " ".join(told)


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_a_wrong_password_is_told(
    logins: LoginBroker, refusal: Callable[[Family, str], str], kind: type[Family]
) -> None:
    family = kind()
    address, family.security = logins.security("PLAIN", password=WRONG)
    assert re.search(REFUSED[kind], refusal(family, address))


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_an_unknown_mechanism_is_told(
    logins: LoginBroker, refusal: Callable[[Family, str], str], kind: type[Family]
) -> None:
    family = kind()
    family.security = Security(logins.certificates, login=Login("PLAIN", USER, PASSWORD))
    assert re.search(UNKNOWN[kind], refusal(family, logins.address(NARROW)))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", SIGNED])
def test_librdkafka_is_told_of_every_refusal(logins: LoginBroker, mechanism: str) -> None:
    family = Confluent()
    address, family.security = logins.security(mechanism, password=WRONG)
    if mechanism == SIGNED:
        login = Login("OAUTHBEARER", USER, token=logins.token(audience="another"))
        family.security = Security(logins.certificates, login=login)
    assert ("invalid_token" if mechanism == SIGNED else "Authentication failed") in librdkafkas_refusal(family, address)


def test_no_log_has_a_password_or_a_token(logins: LoginBroker) -> None:
    address, security = logins.security("PLAIN", password=WRONG)
    family = Confluent()
    family.security = security
    assert "Authentication failed" in librdkafkas_refusal(family, address)
    log = "\n".join(logins.error_lines())
    assert "Invalid username or password" in log
    assert not [secret for secret in (PASSWORD, WRONG) if secret in log]


def test_kafka_configs_makes_users_that_log_in_at_once(logins: LoginBroker) -> None:
    names = ("--bootstrap-server", logins.bootstrap, "--entity-type", "users", "--entity-name", "carol")
    mechanism, hers = "SCRAM-SHA-512", "hers"
    jvm = ToolJvm("broker")

    def configs(*arguments: str) -> str:
        said = jvm.run(CONFIGS, *names, *arguments)
        assert said.status == 0, said
        return said.output

    try:
        told = configs("--alter", "--add-config", f"{mechanism}=[iterations=4096,password={hers}]")
        assert "Completed updating config for user carol" in told
        address, security = logins.security(mechanism, "carol", hers)
        assert is_let_in(address, security)
        admin = AdminClient({"bootstrap.servers": logins.bootstrap})
        described: Any = admin.describe_user_scram_credentials(["carol"])
        credentials = described["carol"].result(10).scram_credential_infos
        assert [one.iterations for one in credentials] == [4096]
        configs("--alter", "--delete-config", mechanism)
        assert not is_let_in(address, security)
    finally:
        jvm.close()


def is_let_in(address: str, security: Security) -> bool:
    from confluent_kafka import KafkaException

    from compat_tests.security.client_security import of_confluent

    try:
        AdminClient({"bootstrap.servers": address, "log_level": 0, **of_confluent(security)}).list_topics(timeout=2)
    except KafkaException:
        return False
    return True
