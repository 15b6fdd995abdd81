"""Stock clients are told of refused logins, and a new user logs in at once: what `test_mechanisms` leaves."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
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
from compat_tests.harness.waiting import until
from compat_tests.security.client_security import Login, Security
from compat_tests.security.login_broker import NARROW, PASSWORD, SIGNED, USER, LoginBroker
from compat_tests.security.test_tls_clients import ends_of, now_ms
from compat_tests.tools.kafka_tools import CONFIGS

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="the broker is configured for SASL by its command line")
COUNT = 20
KINDS: tuple[type[Family], ...] = (Confluent, KafkaPython, Aiokafka, JavaClient, FranzGo, Sarama, Kafkajs)
WRONG = "no secret of alice"
REFUSAL_LIMIT_S = 5.0
UNKNOWN = {
    Confluent: r"mechanism|mechanisms",
    KafkaPython: r"UnsupportedSaslMechanism|mechanism",
    Aiokafka: r"UnsupportedSaslMechanism|mechanism",
    JavaClient: r"UnsupportedSaslMechanismException",
    FranzGo: r"UNSUPPORTED_SASL_MECHANISM",
    Sarama: r"client has run out of available brokers",
    Kafkajs: r"mechanism",
}


def test_tokens_without_a_signature_are_for_tests(logins: LoginBroker) -> None:
    family = Confluent()
    name, began_ms = new_topic(logins.bootstrap, 1), now_ms()
    sent = generate(COUNT, 1, family.traits)
    address, family.security = logins.security("OAUTHBEARER")
    family.produce(address, name, sent, "none")
    assert_same(sent, family.consume(address, name, FromStart(), ends_of(logins, name)), began_ms)


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


def test_no_log_has_a_password_or_a_token(tmp_path: Path) -> None:
    """A broker of its own: only so many refusals of one address are logged."""
    broker = LoginBroker(tmp_path)
    broker.start()
    try:
        family = Confluent()
        address, family.security = broker.security("PLAIN", password=WRONG)
        assert "Authentication failed" in librdkafkas_refusal(family, address)
        until(lambda: "Invalid username or password" in "\n".join(broker.error_lines()), "the line of the refusal", 5)
        log = "\n".join(broker.error_lines())
        assert not [secret for secret in (PASSWORD, WRONG) if secret in log]
    finally:
        broker.stop()


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
