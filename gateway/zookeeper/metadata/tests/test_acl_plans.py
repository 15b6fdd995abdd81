"""Plans of ACLs in ZooKeeper: one conditional write for each pattern, then its notification."""

from __future__ import annotations

import pytest

from headgate.gateway.metadata.image import Image
from headgate.gateway.security.acls.acls_image import image_of
from headgate.gateway.zookeeper.layout.acls import AclChange, AclNode, acl_path
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.layout.tree import ClusterTree, ZNode, read_cluster
from headgate.gateway.zookeeper.metadata.acl_plans import change_acls
from headgate.gateway.zookeeper.session import Create, Delete, Operation, SetData
from headgate.protocol.acls import AclBinding, AclOperation, AclPermission, AclResource, PatternType, ResourcePattern

TOPIC = ResourcePattern(AclResource.TOPIC, "t", PatternType.LITERAL)
PREFIX = ResourcePattern(AclResource.GROUP, "g", PatternType.PREFIXED)


def acl(pattern: ResourcePattern, principal: str = "User:a") -> AclBinding:
    return AclBinding(*pattern, principal, "*", AclOperation.READ, AclPermission.ALLOW)


def cluster(*nodes: tuple[ResourcePattern, AclNode], version: int = 7) -> ClusterTree:
    return read_cluster({acl_path(pattern): ZNode(node.encode(), version) for pattern, node in nodes}, bytes)


def notified(pattern: ResourcePattern) -> Operation:
    return Create(AclChange(pattern).path(), AclChange(pattern).encode(), is_sequential=True)


def planned(before: ClusterTree, *bindings: AclBinding) -> list[Operation]:
    return [*change_acls(before, Image.empty()._replace(acls=image_of(bindings)))]


def test_a_new_pattern_is_created() -> None:
    node = AclNode((acl(PREFIX),))
    assert planned(cluster(), acl(PREFIX)) == [Create(acl_path(PREFIX), node.encode()), notified(PREFIX)]


def test_a_known_pattern_is_written_on_condition_of_its_version() -> None:
    before = cluster((TOPIC, AclNode((acl(TOPIC),))), (PREFIX, AclNode((acl(PREFIX),))))
    both = AclNode((acl(TOPIC), acl(TOPIC, "User:b")))
    assert planned(before, acl(TOPIC), acl(TOPIC, "User:b"), acl(PREFIX)) == [
        SetData(acl_path(TOPIC), both.encode(), 7),
        notified(TOPIC),
    ]


def test_a_pattern_without_acls_is_deleted_unless_others_need_it() -> None:
    unknown = ({"principal": "User:a", "permissionType": "Allow", "host": "*", "operation": "Brew"},)
    before = cluster((TOPIC, AclNode((acl(TOPIC),))), (PREFIX, AclNode((acl(PREFIX),), unknown)))
    assert planned(before) == [
        Delete(acl_path(TOPIC), 7),
        notified(TOPIC),
        SetData(acl_path(PREFIX), AclNode((), unknown).encode(), 7),
        notified(PREFIX),
    ]


def test_what_is_there_is_not_written() -> None:
    before = cluster((TOPIC, AclNode((acl(TOPIC),))))
    assert planned(before, acl(TOPIC)) == []
    gone = before._replace(acls={})
    assert planned(gone) == [], "the node is gone already"


def test_a_name_that_zookeeper_cannot_have_is_refused() -> None:
    with pytest.raises(InvalidNode):
        planned(cluster(), acl(TOPIC._replace(name="a/b")))
