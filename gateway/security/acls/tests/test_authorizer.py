"""The authorizer remembers within bounds, forgets with each change, and denies without ACLs (also `test_model.py`)."""

from __future__ import annotations

import pytest

from headgate.gateway.security.acls import authorizer as module
from headgate.gateway.security.acls.acls_image import AclsImage, image_of
from headgate.gateway.security.acls.authorizer import Asked, ClusterMetadataAuthorizer
from headgate.protocol.security.acls.decision import AclPolicy, DecisionReason
from headgate.protocol.security.acls.index import AclIndex
from headgate.protocol.security.acls.tests.made import ALICE, PREFIXED, READ, TOPIC, Somebody, acl


class Node:
    """An authorizer whose ACLs a test changes; `computed` counts the decisions that were not remembered."""

    def __init__(self, patch: pytest.MonkeyPatch, *, policy: AclPolicy | None = None) -> None:
        self.acls: AclsImage | None = image_of([acl("a", PREFIXED)])
        self.authorizer = ClusterMetadataAuthorizer(lambda: self.acls, policy or AclPolicy())
        self.computed = 0
        of_resource = AclIndex.of_resource

        def counted(index: AclIndex, *asked: object) -> object:
            self.computed += 1
            return of_resource(index, *asked)  # type: ignore[arg-type]

        patch.setattr(AclIndex, "of_resource", counted)

    def allows(self, name: str, client: Somebody = ALICE) -> bool:
        return self.authorizer.allows(client, READ, TOPIC, name)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(monkeypatch)


def test_a_decision_is_computed_once_until_an_acl_changes(node: Node) -> None:
    assert [node.allows("a") for _ in range(3)] == [True] * 3
    assert node.computed == 1
    node.acls = image_of([acl("b")])
    assert not node.allows("a")
    assert node.computed == 2


def test_memory_is_bounded_and_keeps_what_is_used(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REMEMBERED", 10)
    for number in range(1000):
        node.allows("a")
        node.allows(f"x{number}")
    assert node.computed == 1001
    node.allows("x0")
    assert node.computed == 1002, "the oldest decision is forgotten"


def test_a_long_name_is_not_remembered(node: Node) -> None:
    name = "a" * module.MAX_REMEMBERED_LENGTH
    assert [node.allows(name) for _ in range(3)] == [True] * 3
    assert node.computed == 3


def test_clients_with_the_same_acls_have_one_viewpoint(node: Node) -> None:
    other, third = Somebody(remote_host="10.0.0.2"), Somebody(remote_host="192.0.2.1")
    assert node.authorizer.viewpoint(ALICE) == node.authorizer.viewpoint(other)
    node.acls = image_of([acl(host="10.0.0.0/8"), acl("x", host="10.0.0.1")])
    viewpoints = [node.authorizer.viewpoint(client) for client in (ALICE, other, third)]
    assert len(set(viewpoints)) == 3


def test_without_acls_only_super_users_may(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    strict = Node(monkeypatch, policy=AclPolicy(frozenset({"User:root"}), allow_everyone=True))
    strict.acls = None
    assert strict.allows("t", Somebody("User:root"))
    assert strict.authorizer.allows_any(Somebody("User:root"), READ, TOPIC)
    assert not strict.allows("t")
    decision = strict.authorizer.decide(*Asked("User:alice", "10.0.0.1", READ, TOPIC, None))
    assert decision.reason is DecisionReason.NOT_LOADED
    strict.acls = image_of([])
    assert strict.allows("t")


def test_hosts_are_remembered_within_a_bound(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_HOSTS", 4)
    for number in range(20):
        assert node.allows("a", Somebody(remote_host=f"10.0.0.{number}"))
