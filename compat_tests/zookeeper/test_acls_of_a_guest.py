"""A guest of Kafka 3.9 with AclAuthorizer: both obey the same ACLs, which Kafka's tool writes into ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from compat_tests.harness.apache_kafka import run_tool
from compat_tests.harness.broker import TARGET, Broker, HeadgateBroker
from compat_tests.harness.kafka_target import KafkaZooKeeperBroker
from compat_tests.harness.topics import placed_topic
from compat_tests.harness.waiting import until
from compat_tests.harness.zookeeper import ZooKeeper
from compat_tests.zookeeper.test_start import refusal

pytestmark = [
    pytest.mark.soak,
    pytest.mark.sockets,
    pytest.mark.skipif(TARGET != "headgate", reason="the guest is Headgate"),
]

ACL_COMMAND: Final = "kafka.admin.AclCommand"
AUTHORIZER: Final = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
OPEN, CLOSED = "open", "closed"
FOLLOWS_WITHIN_S: Final = 10
KAFKA, GUEST = 1, 2


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeper]:
    with ZooKeeper() as server:
        change_acls(server, "--add", "--cluster", "--topic", OPEN, "--operation", "All")
        yield server


@pytest.fixture(scope="module")
def brokers(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[int, Broker]]:
    """Kafka, which is the controller, and its guest; each leads a partition of both topics."""
    directory = tmp_path_factory.mktemp("brokers")
    settings = {"zookeeper.connect": zookeeper.connect, "broker.id": str(GUEST), **AUTHORIZER}
    made: dict[int, Broker] = {
        KAFKA: KafkaZooKeeperBroker(directory / "kafka", zookeeper.connect, AUTHORIZER, "broker39", KAFKA),
        GUEST: HeadgateBroker(directory / "guest", settings),
    }
    try:
        for broker in made.values():
            broker.start()
        for topic in (OPEN, CLOSED):
            placed_topic(made[KAFKA].bootstrap, [(KAFKA,), (GUEST,)], {}, topic)
        yield made
    finally:
        for broker in made.values():
            broker.kill()


def change_acls(zookeeper: ZooKeeper, *arguments: str) -> None:
    """`kafka-acls` of Kafka 3.9, which writes into ZooKeeper, for everybody without a login."""
    properties = f"zookeeper.connect={zookeeper.connect}"
    principal = "--allow-principal", "User:ANONYMOUS"
    run_tool(ACL_COMMAND, "--authorizer-properties", properties, *arguments, *principal, jar_set="broker39")


def is_allowed(broker: Broker, topic: str) -> bool:
    """Whether a broker describes a topic to a client without a login."""
    error = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(topic, 10).topics[topic].error
    assert error is None or error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, error
    return error is None


def await_acls(broker: Broker, topic: str, *, allowed: bool) -> None:
    until(lambda: is_allowed(broker, topic) is allowed, f"ACLs by which allowed is {allowed}", FOLLOWS_WITHIN_S)


def test_both_obey_and_follow_the_acls_in_zookeeper(brokers: Mapping[int, Broker], zookeeper: ZooKeeper) -> None:
    for broker in brokers.values():
        await_acls(broker, OPEN, allowed=True)
        assert not is_allowed(broker, CLOSED)
    change_acls(zookeeper, "--add", "--topic", CLOSED, "--operation", "Read")
    for broker in brokers.values():
        await_acls(broker, CLOSED, allowed=True)
    change_acls(zookeeper, "--remove", "--force", "--topic", CLOSED, "--operation", "Read")
    for broker in brokers.values():
        await_acls(broker, CLOSED, allowed=False)


def test_a_guest_enforces_the_acls_from_its_first_request(brokers: Mapping[int, Broker]) -> None:
    guest = brokers[GUEST]
    guest.stop()
    guest.start()
    assert not is_allowed(guest, CLOSED)
    await_acls(guest, OPEN, allowed=True)


def test_a_guest_without_an_authorizer_does_not_join(
    brokers: Mapping[int, Broker], zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    assert brokers
    line = refusal(tmp_path, {"zookeeper.connect": zookeeper.connect, "broker.id": "3"})
    assert "has ACLs, and this broker would serve everybody: set authorizer.class.name and super.users" in line
