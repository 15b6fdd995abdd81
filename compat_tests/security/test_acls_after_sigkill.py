"""A broker is killed while ACLs change: after each restart no request is allowed that acknowledged ACLs forbid.

An administrator allows and forbids topics as fast as the broker acknowledges. SIGKILL comes in the middle of a change,
whose outcome is unknown; every other topic has the state of its last acknowledged change. A client asks for the topics
from the first moment at which the broker accepts connections.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from compat_tests.harness.broker import TARGET, HeadgateBroker
from compat_tests.harness.soak import SOAK
from compat_tests.harness.waiting import until
from compat_tests.harness.zookeeper import ZooKeeper

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.skipif(TARGET != "headgate", reason="the listener, its users and the store are Headgate's"),
]

ROUNDS: Final = {"embedded": 20 if SOAK else 2, "zookeeper": 20 if SOAK else 1}
"""Kills by store. The second one meets what the first one left; nothing of it is a ZooKeeper's."""
TOPICS: Final = [f"t{number}" for number in range(6)]
LIMIT_S: Final = 60.0
USERS: Final = {"admin": "secret of admin", "alice": "secret of alice"}
_FORBIDDEN: Final = KafkaError.TOPIC_AUTHORIZATION_FAILED


class RuledBroker(HeadgateBroker):
    """A broker with one listener, which asks for a login; `admin` may do everything."""

    def command(self) -> list[str]:
        users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
        own = f'username="admin" password="{USERS["admin"]}"'
        jaas = f"org.apache.kafka.common.security.plain.PlainLoginModule required {own} {users};"
        self.settings |= {
            "listeners": f"SASL_PLAINTEXT://{self.bootstrap}",
            "security.inter.broker.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin",
        }
        return super().command()

    def client(self, user: str) -> AdminClient:
        return AdminClient(
            {
                "bootstrap.servers": self.bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": user,
                "sasl.password": USERS[user],
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )


class Administrator(threading.Thread):
    """Allows and forbids topics, one after another, until the broker is gone."""

    def __init__(self, broker: RuledBroker, allowed: dict[str, bool | None], seed: int) -> None:
        """`allowed`: by topic, as acknowledged; None while a change is on its way."""
        super().__init__(daemon=True)
        self.admin = broker.client("admin")
        self.allowed = allowed
        self.random = random.Random(seed)
        self.acknowledged = 0

    def run(self) -> None:
        try:
            for topic in [topic for topic, state in self.allowed.items() if state is None]:
                self.change(topic, allow=False)
            while True:
                topic = self.random.choice(TOPICS)
                self.change(topic, allow=not self.allowed[topic])
        except KafkaException:
            return

    def change(self, topic: str, *, allow: bool) -> None:
        """Raises KafkaException if the broker does not acknowledge."""
        rule = ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:alice", "*"
        kind = AclOperation.DESCRIBE, AclPermissionType.ALLOW
        self.allowed[topic] = None
        if allow:
            results = [*self.admin.create_acls([AclBinding(*rule, *kind)], request_timeout=10).values()]
        else:
            results = [*self.admin.delete_acls([AclBindingFilter(*rule, *kind)], request_timeout=10).values()]
        for result in results:
            result.result(20)
        self.allowed[topic] = allow
        self.acknowledged += 1


class Prober(threading.Thread):
    """Asks for each topic as alice, again and again. `allowed`: the topics that were; `answers`: how many of each."""

    def __init__(self, broker: RuledBroker) -> None:
        super().__init__(daemon=True)
        self.client = broker.client("alice")
        self.is_over = threading.Event()
        self.allowed: set[str] = set()
        self.answers = dict.fromkeys(TOPICS, 0)

    def run(self) -> None:
        while not self.is_over.is_set():
            for topic in TOPICS:
                try:
                    error = self.client.list_topics(topic, 1).topics[topic].error
                except KafkaException:
                    continue
                if error is None:
                    self.allowed.add(topic)
                if error is None or error.code() == _FORBIDDEN:
                    self.answers[topic] += 1

    @contextmanager
    def asking(self) -> Iterator[None]:
        self.start()
        try:
            yield
        finally:
            self.is_over.set()
            self.join(LIMIT_S)


def create_topics(broker: RuledBroker) -> None:
    admin = broker.client("admin")
    for result in admin.create_topics([NewTopic(topic, 1, 1) for topic in TOPICS]).values():
        result.result(30)


def kill_and_check(broker: RuledBroker, allowed: dict[str, bool | None], seed: int) -> int:
    """One round: changes, SIGKILL, and what a client may after the restart. Returns the number of changes."""
    administrator = Administrator(broker, allowed, seed)
    administrator.start()
    wanted = random.Random(seed).randrange(10, 60)
    until(lambda: administrator.acknowledged >= wanted, f"{wanted} changes of ACLs", LIMIT_S)
    broker.kill()
    administrator.join(LIMIT_S)
    prober = Prober(broker)
    with prober.asking():
        broker.start()
        until(lambda: min(prober.answers.values()) >= 3, "answers about each topic", LIMIT_S)
        missing = {topic for topic, state in allowed.items() if state}
        until(lambda: missing <= prober.allowed, "the topics that acknowledged ACLs allow", LIMIT_S)
    forbidden = {topic for topic, state in allowed.items() if state is False}
    assert not forbidden & prober.allowed, f"round {seed}: {allowed}"
    return administrator.acknowledged


@pytest.mark.parametrize("store", ROUNDS)
def test_no_kill_allows_what_acknowledged_acls_forbid(tmp_path: Path, store: str) -> None:
    with keeper(store) as settings:
        broker = RuledBroker(tmp_path, settings)
        broker.start()
        try:
            create_topics(broker)
            allowed: dict[str, bool | None] = dict.fromkeys(TOPICS, False)
            changes = sum(kill_and_check(broker, allowed, seed) for seed in range(ROUNDS[store]))
            assert changes >= 10 * ROUNDS[store]
        finally:
            broker.kill()


@contextmanager
def keeper(store: str) -> Iterator[dict[str, str]]:
    """The settings that choose the store."""
    if store == "embedded":
        yield {}
        return
    with ZooKeeper() as server:
        yield {"zookeeper.connect": server.connect, "zookeeper.session.timeout.ms": "1500"}
