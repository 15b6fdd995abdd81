"""What a client is told where TLS does not fit, within five seconds, and the line of the broker's log with the cure."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from confluent_kafka import Producer

from compat_tests.harness.broker import TARGET
from compat_tests.harness.tool_jvm import ToolJvm
from compat_tests.harness.waiting import until
from compat_tests.security.client_security import Security, make_certificates, of_librdkafka, write_properties
from compat_tests.security.secure_broker import HOST, MUTUAL, OPTIONAL, PLAIN, TLS, SecureBroker
from compat_tests.tools.kafka_tools import TOPICS

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer
    from kafka.errors import KafkaError

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="the broker is configured for TLS by its command line")
LIMIT_S: Final = 5.0
# The listener whose certificate is for another host
ELSEWHERE: Final = OPTIONAL
# Java ends by itself where the connection is lost without a reason
JAVA_LIMITS: Final = {"request.timeout.ms": "2000", "default.api.timeout.ms": "3000"}


Ask = Callable[[str, Security | None, str], str]
"""(bootstrap.servers, security, text that is waited for) -> all that the client says."""


class Mistake(NamedTuple):
    """`said` is a part of what each client says, by its name; `logged` a part of the broker's line."""

    listener: str
    trusts: str
    said: dict[str, str]
    logged: str


MISTAKES = {
    "unknown-ca": Mistake(
        TLS,
        "other",
        {
            "librdkafka": "verify that ssl.ca.location is correctly configured",
            "java": "unable to find valid certification path to requested target",
            "kafka-python": "unable to get local issuer certificate",
        },
        "trust",
    ),
    "no-certificate": Mistake(
        MUTUAL,
        "own",
        {
            "librdkafka": "certificate required",
            "java": "certificate_required",
            "kafka-python": "certificate required",
        },
        "the client sent no certificate, and ssl.client.auth=required asks for one",
    ),
    "another-host-name": Mistake(
        ELSEWHERE,
        "own",
        {
            "librdkafka": "certificate verify failed",
            "java": "No subject alternative DNS name matching localhost found",
            "kafka-python": "Hostname mismatch",
        },
        "does not accept this broker's certificate",
    ),
    "plain-client": Mistake(
        TLS,
        "",
        {
            "librdkafka": "in state APIVERSION_QUERY",
            "java": "Timed out waiting for a node assignment",
            "kafka-python": "Unable to bootstrap",
        },
        "the client does not begin with TLS, as this listener needs: set security.protocol=SSL in the client",
    ),
    "tls-client": Mistake(
        PLAIN,
        "own",
        {
            "librdkafka": "SSL handshake failed",
            "java": "SSL handshake failed",
            "kafka-python": "Handshake failed",
        },
        "the client speaks TLS, which this listener does not: set security.protocol=PLAINTEXT in the client",
    ),
}


@pytest.fixture(scope="module")
def jvm() -> Iterator[ToolJvm]:
    """A JVM that is running: its start may take seconds."""
    jvm = ToolJvm("broker")
    jvm.run(TOPICS, "--version")
    yield jvm
    jvm.close()


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of an authority that the broker does not know."""
    return make_certificates(tmp_path_factory.mktemp("foreign"), "client")


@pytest.fixture
def own_broker(secure: SecureBroker, tmp_path: Path) -> Iterator[SecureBroker]:
    """A broker for each mistake: it says a few times only what one address does wrong."""
    elsewhere = {"listener.name.optional.ssl.keystore.location": str(secure.certificates / "elsewhere.pem")}
    broker = SecureBroker(tmp_path / "broker", elsewhere, certificates=secure.certificates)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def librdkafka(bootstrap: str, security: Security | None, wanted: str) -> str:
    said: list[str] = []
    logger = logging.getLogger(f"librdkafka.{bootstrap}")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(Kept(said))
    settings = {"bootstrap.servers": bootstrap, "error_cb": lambda error: said.append(str(error))}
    producer = Producer({**settings, **of_librdkafka(security)}, logger=logger)
    deadline_s = time.monotonic() + LIMIT_S
    while not any(wanted in text for text in said) and time.monotonic() < deadline_s:
        producer.poll(0.05)
    return "; ".join(said)


def kafka_python(bootstrap: str, security: Security | None, _: str) -> str:
    settings = {} if security is None else security.of_kafka_python()
    said: list[str] = []
    handler, logger = Kept(said), logging.getLogger("kafka")
    logger.addHandler(handler)
    try:
        with pytest.raises(KafkaError) as error:
            KafkaConsumer(bootstrap_servers=bootstrap, bootstrap_timeout_ms=1000, **settings)
    finally:
        logger.removeHandler(handler)
    return "; ".join([*said, str(error.value)])


class Kept(logging.Handler):
    """Keeps what is logged."""

    def __init__(self, said: list[str]) -> None:
        super().__init__()
        self.said = said

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


@pytest.fixture
def java(jvm: ToolJvm, tmp_path: Path) -> Ask:
    """`kafka-topics --list`."""

    def ask(bootstrap: str, security: Security | None, _: str) -> str:
        settings = {**JAVA_LIMITS, **({} if security is None else security.of_java())}
        path = write_properties(tmp_path / "client.properties", settings)
        said = jvm.run(TOPICS, "--bootstrap-server", bootstrap, "--list", "--command-config", path)
        assert said.status != 0, said
        return said.output + said.errors

    return ask


@pytest.fixture
def clients(java: Ask) -> dict[str, Ask]:
    return {"librdkafka": librdkafka, "kafka-python": kafka_python, "java": java}


@pytest.mark.parametrize("client", ["librdkafka", "java", "kafka-python"])
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_at_both_ends(
    own_broker: SecureBroker, foreign: Path, clients: dict[str, Ask], client: str, name: str
) -> None:
    mistake = MISTAKES[name]
    security = {"": None, "own": Security(own_broker.certificates), "other": Security(foreign)}[mistake.trusts]
    began_s = time.monotonic()
    said = clients[client](f"{HOST}:{own_broker.ports()[mistake.listener]}", security, mistake.said[client])
    took_s = time.monotonic() - began_s
    assert mistake.said[client] in said
    assert took_s < LIMIT_S
    until(lambda: any(mistake.logged in line for line in own_broker.error_lines()), "the line of the broker", 5)
