"""Sessions that end: keys that an issuer has replaced, tokens that expire, and clients that renew their logins."""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, Message, Producer

from compat_tests.families.confluent import Confluent
from compat_tests.families.family import Family, FromStart
from compat_tests.families.java_client import JavaClient
from compat_tests.families.json_lines import FranzGo, Kafkajs, Sarama
from compat_tests.harness.broker import TARGET
from compat_tests.harness.records import Sent
from compat_tests.harness.waiting import until
from compat_tests.security.client_security import Login, Security, of_librdkafka
from compat_tests.security.mechanisms_broker import ALICE, LOGINS, MechanismsBroker

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="the broker is configured for SASL by its command line")
BEARER: Final = "OAUTHBEARER"
LIMIT_S: Final = 30.0
REAUTHENTICATION_MS: Final = 3000
LIFETIME_S: Final = 6
# Records that come for longer than two sessions, each larger than the buffer of a pipe
COUNT, PAUSE_S, VALUE_BYTES = 16, 0.5, 60_000
KINDS: Final[tuple[type[Family], ...]] = (Confluent, JavaClient, FranzGo, Sarama, Kafkajs)
# Who of them know another mechanism well enough for one test
MECHANISMS: Final = ("SCRAM-SHA-256", BEARER)


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[MechanismsBroker]:
    """A broker of its own: its issuer is changed, and only so many refusals of one address are logged."""
    broker = MechanismsBroker(tmp_path / "broker", None)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def renewing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MechanismsBroker]:
    broker = MechanismsBroker(tmp_path_factory.mktemp("renewing"), None, REAUTHENTICATION_MS)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


class TokenProducer:
    """A producer of librdkafka whose tokens a function gives; `errors` is what it was told."""

    def __init__(self, broker: MechanismsBroker, token: Callable[[], tuple[str, float]]) -> None:
        self.errors: list[str] = []
        self.tokens = 0
        self.topic = broker.new_topic(ALICE)
        security = Security(broker.certificates, login=Login(BEARER, ALICE, token="a signed one"))  # noqa: S106

        def give(_config: str) -> tuple[str, float]:
            self.tokens += 1
            return token()

        told: dict[str, Any] = {"error_cb": lambda error: self.errors.append(str(error)), "oauth_cb": give}
        quick = {"reconnect.backoff.max.ms": 200, "log_level": 0, "linger.ms": 0}
        settings = {"bootstrap.servers": broker.address(LOGINS), **of_librdkafka(security), **quick}
        self.producer = Producer({**settings, **told})

    def send(self, limit_s: float = LIMIT_S) -> str:
        """The error of a record; empty where the record was acknowledged, or not in time."""
        ends: list[str] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            ends.append("" if error is None else str(error))

        self.producer.produce(self.topic, b"value", on_delivery=delivered)
        deadline_s = time.monotonic() + limit_s
        while not ends and time.monotonic() < deadline_s:
            self.producer.poll(0.05)
        return ends[0] if ends else "not acknowledged"

    def close(self) -> None:
        self.producer.purge()


def until_logged(broker: MechanismsBroker, words: str) -> None:
    until(lambda: any(words in line for line in broker.error_lines()), f"the line {words!r}", LIMIT_S)


def test_a_new_key_is_found_and_an_old_one_forgotten(own_broker: MechanismsBroker) -> None:
    issuer = own_broker.issuer
    old = issuer.token(ALICE), time.time() + 3600
    first = TokenProducer(own_broker, lambda: old)
    assert first.send() == ""
    assert issuer.fetches == 1
    issuer.rotate("second")
    second = TokenProducer(own_broker, lambda: (issuer.token(ALICE), time.time() + 3600))
    assert second.send() == ""
    assert issuer.fetches == 2
    # The open session stays until its end; a new one is not begun
    assert first.send() == ""
    third = TokenProducer(own_broker, lambda: old)
    assert third.send(2) == "not acknowledged"
    until_logged(own_broker, "the key set has no key for a bearer token")
    for producer in (first, second, third):
        producer.close()


@pytest.mark.parametrize(
    "claims, reason",
    [
        ({"iss": "https://another.example"}, "issuer"),
        ({"aud": "another"}, "audience"),
        ({"exp": 1_700_000_000, "iat": 1_600_000_000}, "expired"),
        ({"sub": ""}, "sub"),
    ],
    ids=["issuer", "audience", "expired", "subject"],
)
def test_a_refused_token_has_a_reason_in_the_log(
    own_broker: MechanismsBroker, claims: dict[str, Any], reason: str
) -> None:
    token = own_broker.issuer.token(ALICE, claims=claims)
    producer = TokenProducer(own_broker, lambda: (token, time.time() + 3600))
    until(lambda: bool(producer.producer.poll(0.05)) or bool(producer.errors), "the refusal", LIMIT_S)
    producer.close()
    assert "invalid_token" in producer.errors[0]
    until_logged(own_broker, reason)
    assert token not in "\n".join(own_broker.error_lines())


def test_an_expired_token_ends_the_session(own_broker: MechanismsBroker) -> None:
    """A client without a new one is not served again; one that gets another goes on, without a failed record."""
    issuer = own_broker.issuer
    token, expires_s = issuer.token(ALICE, lifetime_s=LIFETIME_S), time.time() + LIFETIME_S
    # It is told of an hour, so it does not renew in time
    careless = TokenProducer(own_broker, lambda: (token, time.time() + 3600))
    # Kafka, and so this broker, allows a renewal a second after the last one alone: librdkafka gets tokens well before
    careful = TokenProducer(
        own_broker, lambda: (issuer.token(ALICE, lifetime_s=LIFETIME_S), time.time() + LIFETIME_S / 2)
    )
    assert careless.send() == ""
    while time.time() < expires_s + 2:
        assert careful.send() == ""
        careful.producer.poll(0.2)
    assert careful.tokens > 1
    assert careful.errors == []
    assert careless.send(3) == "not acknowledged"
    # Within the skew of clocks the token still begins sessions, of no length
    until_logged(own_broker, "the session of User:alice has expired")
    careful.close()
    careless.close()


def slow_records(count: int) -> Iterator[Sent]:
    """They come one by one."""
    for index in range(count):
        value = random.Random(index).randbytes(VALUE_BYTES)
        yield Sent(0, int(time.time() * 1000), b"key", value, ())
        time.sleep(PAUSE_S)


@pytest.mark.soak
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_a_client_renews_its_login_without_a_failed_record(
    renewing: MechanismsBroker, kind: type[Family], mechanism: str
) -> None:
    family = kind()
    family.check()
    topic = renewing.new_topic(ALICE)
    address, family.security = renewing.security(mechanism)
    before = len(renewing.error_lines())
    try:
        family.produce(address, topic, slow_records(COUNT), "none")
        found = copy.copy(Confluent())
        found.security = family.security
        assert len(found.consume(address, topic, FromStart(), {0: COUNT})) == COUNT
    finally:
        family.close()
    assert not [line for line in renewing.error_lines()[before:] if "session" in line or "closing" in line]
