"""ACLs in ZooKeeper: the bytes are those of ResourceZNode and ZkAclChangeStore of Kafka 3.9.1."""

from __future__ import annotations

import pytest

from headgate.gateway.zookeeper.layout.acls import AclChange, AclNode, acl_path, pattern_of
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.protocol.acls import AclBinding, AclOperation, AclPermission, AclResource, PatternType, ResourcePattern

TOPIC = ResourcePattern(AclResource.TOPIC, "na:me é", PatternType.LITERAL)
ID = ResourcePattern(AclResource.TRANSACTIONAL_ID, "na:me é", PatternType.PREFIXED)
ALICE = AclBinding(*TOPIC, 'User:alice é"', "*", AclOperation.DESCRIBE_CONFIGS, AclPermission.ALLOW)
EVERYBODY = AclBinding(*TOPIC, "User:*", "10.0.0.1", AclOperation.ALL, AclPermission.DENY)
OF_KAFKA = (
    '{"acls":[{"principal":"User:alice é\\"","permissionType":"Allow","host":"*","operation":"DescribeConfigs"},'
    '{"principal":"User:*","permissionType":"Deny","host":"10.0.0.1","operation":"All"}],"version":1}'
).encode()


def test_a_node_has_the_bytes_of_kafka() -> None:
    assert AclNode((ALICE, EVERYBODY)).encode() == OF_KAFKA
    assert AclNode.decode(TOPIC, OF_KAFKA) == AclNode((ALICE, EVERYBODY))


@pytest.mark.parametrize(
    "pattern, path, changes, data",
    [
        (TOPIC, "/kafka-acl/Topic/na:me é", "/kafka-acl-changes/acl_changes_", "TOPIC:na:me é"),
        (
            ID,
            "/kafka-acl-extended/prefixed/TransactionalId/na:me é",
            "/kafka-acl-extended-changes/acl_changes_",
            '{"version":1,"resourceType":"TRANSACTIONAL_ID","name":"na:me é","patternType":"PREFIXED"}',
        ),
    ],
)
def test_paths_and_notifications_are_those_of_kafka(
    pattern: ResourcePattern, path: str, changes: str, data: str
) -> None:
    change = AclChange(pattern)
    assert (acl_path(pattern), change.path(), change.encode()) == (path, changes, data.encode())
    assert pattern_of(path) == pattern
    assert AclChange.decode(f"{changes}0000000001", data.encode()) == change


@pytest.mark.parametrize("resource_type", [each for each in AclResource if each > AclResource.ANY])
@pytest.mark.parametrize("pattern_type", [PatternType.LITERAL, PatternType.PREFIXED])
def test_every_pattern_comes_back(resource_type: AclResource, pattern_type: PatternType) -> None:
    pattern = ResourcePattern(resource_type, "x", pattern_type)
    assert pattern_of(acl_path(pattern)) == pattern
    change = AclChange(pattern)
    assert AclChange.decode(f"{change.path()}0000000001", change.encode()) == change


def test_an_old_notification_is_read() -> None:
    path = "/kafka-acl-changes/acl_changes_0000000001"
    assert AclChange.decode(path, b"Topic:t").pattern == ResourcePattern(AclResource.TOPIC, "t", PatternType.LITERAL)
    assert AclChange.decode(path, b"TransactionalId:t").pattern.resource_type is AclResource.TRANSACTIONAL_ID


def test_entries_of_a_newer_kafka_stay_in_the_node() -> None:
    newer = OF_KAFKA.replace(b'"DescribeConfigs"', b'"Brew"')
    node = AclNode.decode(TOPIC, newer)
    assert node.bindings == (EVERYBODY,)
    assert b'"operation":"Brew"' in node.encode()


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b'{"acls":[]}', b'{"acls":[{}],"version":1}', OF_KAFKA.replace(b"User:*", b"all")]
)
def test_other_data_are_no_acls(data: bytes) -> None:
    with pytest.raises(InvalidNode, match="/kafka-acl/Topic/na:me"):
        AclNode.decode(TOPIC, data)


@pytest.mark.parametrize("data", [b"", b"Topic:", b"x", b"Brew:x", None, b"\xff"])
def test_other_data_are_no_notification(data: bytes | None) -> None:
    with pytest.raises(InvalidNode, match="acl_changes_"):
        AclChange.decode("/kafka-acl-changes/acl_changes_0000000001", data)


def test_a_name_that_zookeeper_cannot_have_is_refused() -> None:
    with pytest.raises(InvalidNode, match="cannot be in ZooKeeper"):
        acl_path(TOPIC._replace(name="a/b"))
    assert pattern_of("/kafka-acl/Topic") is pattern_of("/kafka-acl/Brew/x") is pattern_of("/config/topics/x") is None
