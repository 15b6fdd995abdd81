"""Kafka's security tools and Headgate's commands, in turn on one broker: each sees what the other has written.

The same scenario passes on Apache Kafka (`HEADGATE_COMPAT_TARGET=kafka`).
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from compat_tests.harness.broker import Broker, installed_command, running
from compat_tests.harness.tool_jvm import tool_output

pytestmark = pytest.mark.sockets

ACLS: Final = "org.apache.kafka.tools.AclCommand"
CONFIGS: Final = "kafka.admin.ConfigCommand"
_RULE: Final = re.compile(r"\(principal=(\S+), host=(\S+), operation=(\w+), permissionType=(\w+)\)")
_PATTERN: Final = re.compile(r"ResourcePattern\(resourceType=(\w+), name=(\S+), patternType=(\w+)\)")
Rule = tuple[str, ...]


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that obeys ACLs, with everybody as its administrator."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with running(tmp_path_factory.mktemp("ruled"), settings) as broker:
        yield broker


def kafka_acls(broker: Broker, *arguments: str) -> list[Rule]:
    """What `kafka-acls` prints: type, name, pattern type, principal, host, operation, permission of each rule."""
    printed = tool_output(ACLS, "--bootstrap-server", broker.bootstrap, *arguments)
    rules, pattern = list[Rule](), tuple[str, ...]()
    for line in printed.splitlines():
        found = _PATTERN.search(line)
        if found is not None:
            pattern = found.groups()
        rule = _RULE.search(line)
        if rule is not None:
            rules.append((*pattern, *rule.groups()))
    return sorted(set(rules))


def headgate(broker: Broker, *words: str, stdin: str = "") -> list[dict[str, Any]]:
    """The rows of a command."""
    command = [*installed_command(), *words, "--bootstrap-server", broker.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, input=stdin)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def rules_of(rows: list[dict[str, Any]]) -> list[Rule]:
    names = "resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission"
    return sorted(tuple(row[name] for name in names) for row in rows)


ROLES: Final = [
    (("--producer", "--topic", "a", "--transactional-id", "x", "--idempotent"), ()),
    (("--consumer", "--topic", "a", "--group", "g"), ("--resource-pattern-type", "prefixed")),
    (("--operation", "Alter", "--cluster"), ()),
]


@pytest.mark.parametrize("role, pattern", ROLES)
def test_roles_are_the_rules_of_kafkas_tool(ruled: Broker, role: tuple[str, ...], pattern: tuple[str, ...]) -> None:
    kafka_acls(ruled, "--add", "--allow-principal", "User:alice", *role, *pattern)
    listed = kafka_acls(ruled, "--list")
    again = headgate(ruled, "acls", "add", "--principal", "User:alice", *role, *pattern)
    assert [row["added"] for row in again] == [False] * len(listed)
    assert rules_of(headgate(ruled, "acls", "list")) == listed
    assert len(headgate(ruled, "acls", "remove", "--principal", "User:alice")) == len(listed)
    assert kafka_acls(ruled, "--list") == []


def test_rules_of_headgate_are_shown_and_removed_by_kafkas_tool(ruled: Broker) -> None:
    deny = ("--principal", "User:eve", "--deny", "--host", "10.0.0.1", "--operation", "Write", "--topic", "b")
    headgate(ruled, "acls", "add", *deny)
    headgate(ruled, "acls", "add", "--principal", "User:job", "--spark", "--topic", "b")
    listed = kafka_acls(ruled, "--list")
    assert ("TOPIC", "b", "LITERAL", "User:eve", "10.0.0.1", "WRITE", "DENY") in listed
    assert ("GROUP", "spark-kafka-source", "PREFIXED", "User:job", "*", "READ", "ALLOW") in listed
    assert len(listed) == 5
    [why] = headgate(
        ruled, "acls", "why", "--principal", "User:eve", "--operation", "write", "--topic", "b", "--host", "10.0.0.1"
    )
    assert (why["allowed"], why["acl"]["permission"]) == (False, "DENY")
    [why] = headgate(ruled, "acls", "why", "--principal", "User:job", "--operation", "describe", "--topic", "b")
    assert why["allowed"]
    kafka_acls(ruled, "--remove", "--force", "--topic", "b")
    for prefix in ("spark-kafka-source", "spark-kafka-relation"):
        kafka_acls(ruled, "--remove", "--force", "--group", prefix, "--resource-pattern-type", "prefixed")
    assert headgate(ruled, "acls", "list") == []


def kafka_configs(broker: Broker, *arguments: str) -> str:
    return tool_output(CONFIGS, "--bootstrap-server", broker.bootstrap, *arguments)


def test_users_of_both_tools_are_the_same(ruled: Broker) -> None:
    entity = ("--entity-type", "users", "--entity-name")
    kafka_configs(ruled, "--alter", *entity, "alice", "--add-config", "SCRAM-SHA-512=[iterations=8192,password=x]")
    headgate(ruled, "users", "add", "bob", "--password-file", "-", "--mechanism", "SCRAM-SHA-256", stdin="secret\n")
    assert headgate(ruled, "users", "list") == [
        {"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 8192},
        {"user": "bob", "mechanism": "SCRAM-SHA-256", "iterations": 4096},
    ]
    assert "SCRAM-SHA-256=iterations=4096" in kafka_configs(ruled, "--describe", *entity, "bob")
    kafka_configs(ruled, "--alter", *entity, "bob", "--delete-config", "SCRAM-SHA-256")
    headgate(ruled, "users", "remove", "alice")
    assert headgate(ruled, "users", "list") == []


def test_quotas_of_both_tools_are_the_same(ruled: Broker) -> None:
    entity = ("--entity-type", "users", "--entity-name", "alice", "--entity-type", "clients", "--entity-default")
    kafka_configs(ruled, "--alter", *entity, "--add-config", "producer_byte_rate=1024")
    headgate(ruled, "quotas", "set", "--ip", "10.0.0.1", "connection_creation_rate=5")
    owner = {"user": "alice", "client_id": "<default>", "ip": None}
    assert headgate(ruled, "quotas", "list", "--user", "alice") == [{**owner, "producer_byte_rate": 1024}]
    described = kafka_configs(ruled, "--describe", "--entity-type", "ips", "--entity-name", "10.0.0.1")
    assert "connection_creation_rate=5" in described
    [changed] = headgate(ruled, "quotas", "set", "--user", "alice", "--client-id-default", "producer_byte_rate=1")
    assert (changed["before"], changed["after"]) == (1024, 1)
    headgate(ruled, "quotas", "remove", "--user", "alice", "--client-id-default")
    headgate(ruled, "quotas", "remove", "--ip", "10.0.0.1", "connection_creation_rate")
    assert "alice" not in kafka_configs(ruled, "--describe", *entity)
    assert headgate(ruled, "quotas", "list") == []


def test_a_dry_run_of_headgate_changes_nothing(ruled: Broker, tmp_path: Path) -> None:
    headgate(ruled, "acls", "add", "--principal", "User:a", "--topic", "t", "--dry-run")
    headgate(ruled, "quotas", "set", "--user", "a", "producer_byte_rate=1", "--dry-run")
    headgate(ruled, "users", "add", "a", "--password-file", "-", "--dry-run", stdin="secret")
    assert [headgate(ruled, *words) for words in (("acls", "list"), ("quotas", "list"), ("users", "list"))] == [[]] * 3
