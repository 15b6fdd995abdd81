"""ACLs in ZooKeeper: written as Kafka's authorizer writes them, and followed when others write them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headgate.gateway.security.acls.acls_image import NO_ACLS
from headgate.gateway.security.acls.authorizer import ClusterMetadataAuthorizer
from headgate.gateway.zookeeper.layout.acls import (
    ACL_CHANGES_PATH,
    CHANGES_PATHS,
    EXTENDED_ACL_CHANGES_PATH,
    TYPE_PATHS,
    AclChange,
    AclNode,
    acl_path,
)
from headgate.gateway.zookeeper.session import Create, Delete
from headgate.gateway.zookeeper.tests.store_world import StoreWorld
from headgate.protocol.acls import AclBinding, AclOperation, AclPermission, AclResource, PatternType, ResourcePattern
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.security.acls.decision import AclPolicy

SETTINGS = "authorizer.class.name=kafka.security.authorizer.AclAuthorizer"
TOPIC = ResourcePattern(AclResource.TOPIC, "t", PatternType.LITERAL)
PREFIX = ResourcePattern(AclResource.GROUP, "g", PatternType.PREFIXED)
READ, WRITE = AclOperation.READ, AclOperation.WRITE


def acl(
    pattern: ResourcePattern = TOPIC, principal: str = "User:a", operation: AclOperation = READ, host: str = "*"
) -> AclBinding:
    return AclBinding(*pattern, principal, host, operation, AclPermission.ALLOW)


@pytest.fixture
def world() -> Iterator[StoreWorld]:
    made = StoreWorld(settings=SETTINGS)
    made.settle()
    yield made
    made.check()


def by_another(world: StoreWorld, pattern: ResourcePattern, *bindings: AclBinding, notify: bool = True) -> None:
    """Another broker writes the ACLs of a pattern."""
    path = acl_path(pattern)
    if bindings:
        world.tool.put(path, AclNode(bindings).encode())
    else:
        world.tool.do(Delete(path))
    if notify:
        change = AclChange(pattern)
        world.tool.do(Create(change.path(), change.encode(), is_sequential=True))


def nodes_below(world: StoreWorld, path: str) -> list[str]:
    return sorted(each.rpartition("/")[2] for each in world.nodes_there if each.startswith(f"{path}/"))


def test_the_directories_are_those_of_kafka(world: StoreWorld) -> None:
    assert {*CHANGES_PATHS, *TYPE_PATHS} <= world.nodes_there.keys()
    assert len(TYPE_PATHS) == 12
    assert "/kafka-acl/DelegationToken" in TYPE_PATHS


def test_created_acls_are_nodes_with_notifications(world: StoreWorld) -> None:
    world.change(lambda: world.metadata.create_acls([acl(), acl(principal="User:b"), acl(PREFIX)]))
    assert AclNode.decode(TOPIC, world.nodes_there[acl_path(TOPIC)].data).bindings == (acl(), acl(principal="User:b"))
    assert nodes_below(world, ACL_CHANGES_PATH) == ["acl_changes_0000000000"]
    assert nodes_below(world, EXTENDED_ACL_CHANGES_PATH) == ["acl_changes_0000000000"]
    assert world.nodes_there[f"{ACL_CHANGES_PATH}/acl_changes_0000000000"].data == b"TOPIC:t"


def test_the_last_acl_of_a_pattern_takes_the_node_with_it(world: StoreWorld) -> None:
    world.change(lambda: world.metadata.create_acls([acl(), acl(operation=WRITE)]))
    world.change(lambda: world.metadata.delete_acls([acl()]))
    assert world.nodes_there[acl_path(TOPIC)].version == 1
    world.change(lambda: world.metadata.delete_acls([acl(operation=WRITE)]))
    assert acl_path(TOPIC) not in world.nodes_there
    assert world.image.acls.ids == {}


def test_acls_of_another_broker_are_followed(world: StoreWorld) -> None:
    by_another(world, TOPIC, acl(), acl(operation=WRITE))
    by_another(world, PREFIX, acl(PREFIX))
    world.settle()
    assert set(world.image.acls.ids) == {acl(), acl(operation=WRITE), acl(PREFIX)}
    by_another(world, TOPIC, acl(operation=WRITE))
    by_another(world, PREFIX)
    world.settle()
    assert set(world.image.acls.ids) == {acl(operation=WRITE)}


def test_decisions_follow_the_notification(world: StoreWorld) -> None:
    authorizer = ClusterMetadataAuthorizer(lambda: world.image.acls, AclPolicy())
    asked = "User:a", "10.0.0.1", READ, AclResource.TOPIC, "t"
    for bindings in ([acl()], [], [acl()]):
        by_another(world, TOPIC, *bindings)
        world.settle()
        assert authorizer.decide(*asked).is_allowed == bool(bindings)


def test_a_write_upon_an_older_version_is_repeated_upon_the_newer(world: StoreWorld) -> None:
    world.change(lambda: world.metadata.create_acls([acl()]))
    by_another(world, TOPIC, acl(), acl(principal="User:b"), notify=False)
    world.change(lambda: world.metadata.create_acls([acl(principal="User:c")]))
    world.settle()
    found = {binding.principal for binding in world.image.acls.ids}
    assert found == {"User:a", "User:b", "User:c"}


def test_two_brokers_may_create_the_same_acl(world: StoreWorld) -> None:
    by_another(world, TOPIC, acl(), notify=False)
    change = world.change(lambda: world.metadata.create_acls([acl(), acl(PREFIX)]))
    assert change.error is None
    assert set(world.image.acls.ids) == {acl(), acl(PREFIX)}


def test_two_brokers_may_delete_the_same_acl(world: StoreWorld) -> None:
    world.change(lambda: world.metadata.create_acls([acl(), acl(PREFIX)]))
    by_another(world, TOPIC, notify=False)
    change = world.change(lambda: world.metadata.delete_acls([acl(), acl(PREFIX)]))
    assert change.error is None
    assert world.image.acls.ids == {}


def test_a_change_without_a_notification_is_found_after_a_lost_connection(world: StoreWorld) -> None:
    world.change(lambda: world.metadata.create_acls([acl(PREFIX)]))
    by_another(world, TOPIC, acl(), notify=False)
    by_another(world, PREFIX, notify=False)
    world.settle()
    assert set(world.image.acls.ids) == {acl(PREFIX)}
    world.metadata.resume()
    world.settle()
    assert set(world.image.acls.ids) == {acl()}


def test_a_start_reads_all_acls(world: StoreWorld) -> None:
    world.change(lambda: world.metadata.create_acls([acl(), acl(PREFIX)]))
    world.kill()
    world.start()
    assert set(world.image.acls.ids) == {acl(), acl(PREFIX)}
    world.settle()


def test_a_name_that_zookeeper_cannot_have_is_refused(world: StoreWorld) -> None:
    with pytest.raises(KafkaError, match="Failed to create ACL") as refused:
        world.metadata.check_new_acl(acl(TOPIC._replace(name="a/b")))
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_old_notifications_are_deleted(world: StoreWorld) -> None:
    by_another(world, TOPIC, acl())
    world.settle()
    world.settle(16 * 60 * 1000)
    by_another(world, PREFIX, acl(PREFIX))
    by_another(world, TOPIC, acl())
    world.settle()
    assert nodes_below(world, ACL_CHANGES_PATH) == ["acl_changes_0000000001"]


@pytest.mark.parametrize("data", [b"{", b'{"version":2,"acls":[]}'])
def test_an_unreadable_node_keeps_its_known_acls(data: bytes) -> None:
    world = StoreWorld(settings=SETTINGS)
    world.settle()
    world.change(lambda: world.metadata.create_acls([acl()]))
    world.tool.put(acl_path(TOPIC), data)
    world.tool.do(Create(AclChange(TOPIC).path(), AclChange(TOPIC).encode(), is_sequential=True))
    world.settle()
    assert set(world.image.acls.ids) == {acl()}


def test_a_broker_without_an_authorizer_reads_no_acls() -> None:
    world = StoreWorld()
    world.settle()
    world.tool.put("/kafka-acl", b"")
    world.tool.put("/kafka-acl/Topic", b"")
    by_another(world, TOPIC, acl(), notify=False)
    world.metadata.resume()
    world.settle()
    assert world.image.acls is NO_ACLS
