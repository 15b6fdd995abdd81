"""What each client says of a wrong password, of an unknown authority and of a missing ACL: its own words, in time."""

from __future__ import annotations

import copy
import os
import re
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from confluent_kafka import KafkaError, Message, Producer

from compat_tests.families.aiokafka_client import Aiokafka
from compat_tests.families.family import Family
from compat_tests.families.java_client import JavaClient
from compat_tests.families.json_lines import FranzGo, Sarama
from compat_tests.harness.broker import TARGET
from compat_tests.harness.records import generate
from compat_tests.matrix.carried import records_of
from compat_tests.matrix.client import Client
from compat_tests.matrix.rows import ROWS
from compat_tests.matrix.rows.jvm import Call, Jvm
from compat_tests.security.client_security import Security, make_certificates, of_librdkafka
from compat_tests.security.mechanisms_broker import ALICE, BOB, MechanismsBroker

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="the broker is configured for SASL by its command line")
# A client that says why says so at once; a quiet machine holds it to five seconds
LIMIT_S: Final = 5.0 if "HEADGATE_SOAK" in os.environ else 30.0
MECHANISM: Final = "SCRAM-SHA-512"
WRONG: Final = "no secret"
PASSWORD, AUTHORITY, ACL = "wrong-password", "unknown-authority", "missing-acl"
INVALID: Final = "invalid credentials with SASL mechanism SCRAM-SHA-512"


class Attempt(NamedTuple):
    """A record that is refused."""

    address: str
    security: Security
    topic: str


def of_librdkafka_now(attempt: Attempt) -> str:
    """It tells by callbacks, and tries again for ever."""
    said: list[str] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        said.append(str(error))

    settings = {"bootstrap.servers": attempt.address, "log_level": 0, **of_librdkafka(attempt.security)}
    producer = Producer({**settings, "error_cb": lambda error: said.append(str(error))})
    producer.produce(attempt.topic, b"value", on_delivery=delivered)
    deadline_s = time.monotonic() + LIMIT_S
    while not said and time.monotonic() < deadline_s:
        producer.poll(0.1)
    producer.purge()
    return " ".join(said)


def of_kafka_python(attempt: Attempt) -> str:
    """It tells by its log, and tries again for so long as it is told."""
    try:
        producer = KafkaProducer(
            bootstrap_servers=attempt.address, bootstrap_timeout_ms=1000, **attempt.security.of_kafka_python()
        )
        try:
            producer.send(attempt.topic, b"value").get(LIMIT_S)
        finally:
            producer.close(1)
    except Exception as error:  # noqa: BLE001  each refusal has its own
        return repr(error)
    return "the client was let in"


def of_family(kind: Callable[[], Family]) -> Callable[[Attempt], str]:
    def tell(attempt: Attempt) -> str:
        family = kind()
        family.check()
        family.security = attempt.security
        try:
            family.produce(attempt.address, attempt.topic, generate(1, 1, family.traits), "none")
        except (Exception, AssertionError) as error:  # noqa: BLE001  each client has its own
            return f"{error!r} {error}"
        finally:
            family.close()
        return "the client was let in"

    return tell


def of_row(name: str) -> Callable[[Attempt], str]:
    def tell(attempt: Attempt) -> str:
        client = copy.copy(next(row for row in ROWS if row.name == name))
        client.security = attempt.security
        records = [record._replace(partition=0) for record in records_of(client.abilities, 1)]
        try:
            client.produce_each(attempt.address, attempt.topic, {"none": records})
        except AssertionError as error:
            return str(error)
        return "the client was let in"

    return tell


OF_GO: Final = "certificate signed by unknown authority"
OF_OPENSSL: Final = "unable to get local issuer certificate"
CLIENTS: Final[dict[str, tuple[Callable[[Attempt], str], dict[str, str]]]] = {
    "librdkafka": (
        of_librdkafka_now,
        {PASSWORD: INVALID, AUTHORITY: "certificate verify failed", ACL: "Topic authorization failed"},
    ),
    "kafka-python": (
        of_kafka_python,
        {PASSWORD: INVALID, AUTHORITY: OF_OPENSSL, ACL: "TopicAuthorizationFailedError"},
    ),
    "aiokafka": (of_family(Aiokafka), {PASSWORD: INVALID, AUTHORITY: OF_OPENSSL, ACL: "TopicAuthorizationFailedError"}),
    "java-4.4": (
        of_family(JavaClient),
        {
            PASSWORD: f"SaslAuthenticationException: .*{INVALID}",
            AUTHORITY: "SslAuthenticationException",
            ACL: r"TopicAuthorizationException: Not authorized to access topics: \[bob-",
        },
    ),
    "franz-go": (
        of_family(FranzGo),
        {PASSWORD: f"SASL_AUTHENTICATION_FAILED.*{INVALID}", AUTHORITY: OF_GO, ACL: "TOPIC_AUTHORIZATION_FAILED"},
    ),
    "sarama": (
        of_family(Sarama),
        {PASSWORD: INVALID, AUTHORITY: OF_GO, ACL: "The client is not authorized to access this topic"},
    ),
    # It asks for all topics, of which a broker shows those that it may know of
    "kafka-go": (of_row("kafka-go v0.4.51"), {PASSWORD: INVALID, AUTHORITY: OF_GO, ACL: "Unknown Topic Or Partition"}),
    "kafkajs": (
        of_row("kafkajs 2.2.4"),
        {
            PASSWORD: f"KafkaJSSASLAuthenticationError.*{INVALID}",
            AUTHORITY: "unable to verify the first certificate",
            ACL: "Not authorized to access topics",
        },
    ),
    "librdkafka-1.9.2": (
        of_row("librdkafka 1.9.2"),
        {PASSWORD: INVALID, AUTHORITY: "certificate verify failed", ACL: "Topic authorization failed"},
    ),
    "librdkafka-0.11.6": (
        of_row("librdkafka 0.11.6"),
        # It speaks of raw tokens, without errors, and waits for a topic that it may not know of for minutes
        {PASSWORD: "check client SCRAM-SHA-512 credentials and broker logs", AUTHORITY: f"{OF_OPENSSL}|verify failed"},
    ),
}
CASES: Final = [(client, mistake) for client, (_, wanted) in CLIENTS.items() for mistake in wanted]
OLD_JAVA: Final = [row for row in ROWS if row.name in {"java 1.1.1", "java 2.8.2", "java 3.9.1"}]
OF_OLD_JAVA: Final = {
    PASSWORD: f"SaslAuthenticationException: .*{INVALID}",
    AUTHORITY: "unable to find valid certification path to requested target",
    ACL: r"TopicAuthorizationException: Not authorized to access topics: \[bob-",
}


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority that has not signed the broker's certificate."""
    return make_certificates(tmp_path_factory.mktemp("foreign"), "client")


@pytest.fixture
def attempts(mechanisms: MechanismsBroker, foreign: Path) -> dict[str, Attempt]:
    address, security = mechanisms.security(MECHANISM)
    _, wrong = mechanisms.security(MECHANISM, password=WRONG)
    own = mechanisms.new_topic(ALICE)
    return {
        PASSWORD: Attempt(address, wrong, own),
        AUTHORITY: Attempt(address, security._replace(directory=foreign), own),
        ACL: Attempt(address, security, mechanisms.new_topic(BOB)),
    }


@pytest.mark.parametrize("client, mistake", CASES)
def test_a_client_says_why(
    attempts: dict[str, Attempt], caplog: pytest.LogCaptureFixture, client: str, mistake: str
) -> None:
    tell, wanted = CLIENTS[client]
    began_s = time.monotonic()
    said = f"{tell(attempts[mistake])} {caplog.text}"
    took_s = time.monotonic() - began_s
    assert re.search(wanted[mistake], said), said
    assert took_s < LIMIT_S


@pytest.mark.soak
@pytest.mark.parametrize("mistake", OF_OLD_JAVA)
@pytest.mark.parametrize("row", OLD_JAVA, ids=[row.name.replace(" ", "-") for row in OLD_JAVA])
def test_an_old_java_client_says_why(attempts: dict[str, Attempt], tmp_path: Path, row: Client, mistake: str) -> None:
    assert isinstance(row, Jvm)
    records = [record._replace(partition=0) for record in records_of(row.abilities, 1)]
    began_s = time.monotonic()
    with pytest.raises(AssertionError, match=OF_OLD_JAVA[mistake]):
        row.each([Call(*attempts[mistake], records)], tmp_path)
    assert time.monotonic() - began_s < LIMIT_S
