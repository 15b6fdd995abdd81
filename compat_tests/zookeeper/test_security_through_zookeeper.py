"""Kafka's tools that write security into ZooKeeper, and Headgate's commands that ask a broker: one truth for both.

The same scenario passes on Kafka 3.9 with ZooKeeper (`HEADGATE_COMPAT_TARGET=kafka39`).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any, Final

import pytest

from compat_tests.harness.broker import TARGET, Broker, HeadgateBroker, installed_command
from compat_tests.harness.kafka_target import KafkaZooKeeperBroker
from compat_tests.harness.tool_jvm import tool_output
from compat_tests.harness.waiting import until
from compat_tests.harness.zookeeper import ZooKeeper

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.skipif(TARGET not in ("headgate", "kafka39"), reason="the brokers keep their metadata in ZooKeeper"),
]

ACLS, CONFIGS = "kafka.admin.AclCommand", "kafka.admin.ConfigCommand"
SETTINGS: Final = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
FOLLOWS_WITHIN_S: Final = 20


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeper]:
    with ZooKeeper() as server:
        yield server


@pytest.fixture(scope="module")
def broker(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker whose first user was added before its first start."""
    directory = tmp_path_factory.mktemp("broker")
    add_user(zookeeper, "first", "SCRAM-SHA-512")
    made: Broker
    if TARGET == "headgate":
        made = HeadgateBroker(directory, {"zookeeper.connect": zookeeper.connect, **SETTINGS})
    else:
        made = KafkaZooKeeperBroker(directory, zookeeper.connect, SETTINGS, "broker39")
    try:
        made.start()
        yield made
    finally:
        made.kill()


def run(*words: str, stdin: str = "") -> str:
    done = subprocess.run(
        [*installed_command(), *words], capture_output=True, text=True, timeout=60, check=False, input=stdin
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(broker: Broker, *words: str) -> list[dict[str, Any]]:
    printed = run(*words, "--bootstrap-server", broker.bootstrap)
    return [json.loads(line) for line in printed.splitlines()]


def add_user(zookeeper: ZooKeeper, user: str, *mechanisms: str) -> None:
    """Add a user by `headgate users`, without a broker."""
    named = [word for mechanism in mechanisms for word in ("--mechanism", mechanism)]
    run("users", "add", user, *named, "--zookeeper", zookeeper.connect, "--password-file", "-", stdin="secret")


def old_acls(zookeeper: ZooKeeper, *arguments: str) -> str:
    """`kafka-acls` of Kafka 2.8, which writes into ZooKeeper."""
    where = ("--authorizer-properties", f"zookeeper.connect={zookeeper.connect}")
    return tool_output(ACLS, *where, *arguments, jar_set="broker28")


def test_acls_written_into_zookeeper_are_those_of_the_broker(broker: Broker, zookeeper: ZooKeeper) -> None:
    old_acls(zookeeper, "--add", "--allow-principal", "User:alice", "--producer", "--topic", "a")
    until(lambda: len(rows(broker, "acls", "list")) == 3, "the rules of kafka-acls", FOLLOWS_WITHIN_S)
    added = rows(broker, "acls", "add", "--principal", "User:alice", "--producer", "--topic", "a")
    assert [row["added"] for row in added] == [False] * 3
    rows(broker, "acls", "add", "--principal", "User:bob", "--operation", "read", "--topic", "b", "--host", "10.0.0.1")
    prefixed = ("--group", "b-", "--resource-pattern-type", "prefixed")
    rows(broker, "acls", "add", "--principal", "User:bob", "--operation", "read", *prefixed)
    listed = old_acls(zookeeper, "--list", "--principal", "User:bob")
    assert "(principal=User:bob, host=10.0.0.1, operation=READ, permissionType=ALLOW)" in listed
    assert "name=b-, patternType=PREFIXED" in listed
    old_acls(zookeeper, "--remove", "--force", "--topic", "a")
    rows(broker, "acls", "remove", "--principal", "User:bob")
    until(lambda: rows(broker, "acls", "list") == [], "the removal of all rules", FOLLOWS_WITHIN_S)
    assert "principal=" not in old_acls(zookeeper, "--list")


def test_users_in_zookeeper_are_those_of_the_broker(broker: Broker, zookeeper: ZooKeeper) -> None:
    first = {"user": "first", "mechanism": "SCRAM-SHA-512", "iterations": 4096}
    assert rows(broker, "users", "list") == [first]
    add_user(zookeeper, "second", "SCRAM-SHA-256", "SCRAM-SHA-512")
    until(lambda: len(rows(broker, "users", "list")) == 3, "a user of a running broker", FOLLOWS_WITHIN_S)
    entity = ("--entity-type", "users", "--entity-name")
    where = ("--zookeeper", zookeeper.connect)
    described = tool_output(CONFIGS, *where, "--describe", *entity, "second", jar_set="broker28")
    assert "SCRAM-SHA-256=" in described
    assert "iterations=4096" in described
    change = ("--alter", *entity, "third", "--add-config", "SCRAM-SHA-512=[password=x]")
    tool_output(CONFIGS, *where, *change, jar_set="broker28")
    until(lambda: len(rows(broker, "users", "list")) == 4, "a user of kafka-configs", FOLLOWS_WITHIN_S)
    rows(broker, "users", "remove", "first", "second", "third")
    assert rows(broker, "users", "list") == []


def test_quotas_of_the_broker_are_those_in_zookeeper(broker: Broker, zookeeper: ZooKeeper) -> None:
    rows(broker, "quotas", "set", "--user", "alice", "--client-id", "c", "producer_byte_rate=1024")
    entity = ("--entity-type", "users", "--entity-name", "alice", "--entity-type", "clients", "--entity-name", "c")
    where = ("--zookeeper", zookeeper.connect, "--describe", *entity)
    assert "producer_byte_rate=1024" in tool_output(CONFIGS, *where, jar_set="broker28")
    rows(broker, "quotas", "remove", "--user", "alice", "--client-id", "c")
    assert rows(broker, "quotas", "list") == []
