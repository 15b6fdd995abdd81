"""Decisions name the rule that decides; `test_answers_of_kafka.py` compares them with Kafka's."""

from __future__ import annotations

import pytest

from headgate.protocol.acls import AclBinding, AclOperation
from headgate.protocol.security.acls.decision import AclDecision, AclPolicy, DecisionReason, decide, decide_any
from headgate.protocol.security.acls.index import AclIndex
from headgate.protocol.security.acls.tests.made import DENY, PREFIXED, READ, TOPIC, WRITE, acl

NO_POLICY = AclPolicy()


def decided(*bindings: AclBinding, operation: AclOperation = READ, policy: AclPolicy = NO_POLICY) -> AclDecision:
    index = AclIndex.empty().changed((), bindings)
    return decide(index, policy, "User:alice", index.hosts_of("10.0.0.1"), operation, TOPIC, "t")


def decided_any(*bindings: AclBinding, policy: AclPolicy = NO_POLICY) -> AclDecision:
    index = AclIndex.empty().changed((), bindings)
    return decide_any(index, policy, "User:alice", index.hosts_of("10.0.0.1"), READ, TOPIC)


def test_a_denial_wins_and_is_named() -> None:
    denial = acl("*", permission=DENY)
    decision = decided(acl(), denial)
    assert decision == AclDecision(False, DecisionReason.DENYING_ACL, denial)
    assert str(decision) == "denied, as an ACL denies it: DENY READ on TOPIC:LITERAL:* to User:alice from *"


def test_the_allowing_acl_is_named() -> None:
    assert decided(acl("t", PREFIXED), acl()).binding == acl()
    assert str(decided(acl())).startswith("allowed, as an ACL allows it: ALLOW READ on TOPIC:LITERAL:t")


@pytest.mark.parametrize("implying", [AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER])
def test_a_permission_to_use_is_one_to_describe(implying: AclOperation) -> None:
    assert decided(acl(operation=implying), operation=AclOperation.DESCRIBE).is_allowed
    refused = decided(
        acl(operation=AclOperation.DESCRIBE), acl(operation=implying, permission=DENY), operation=implying
    )
    assert not refused.is_allowed


def test_super_users_need_no_acl() -> None:
    policy = AclPolicy(frozenset({"User:alice"}))
    assert decided(acl(permission=DENY), policy=policy).reason is DecisionReason.SUPER_USER
    assert decided_any(acl("*", permission=DENY), policy=policy).reason is DecisionReason.SUPER_USER


def test_everyone_is_allowed_only_without_any_acl() -> None:
    policy = AclPolicy(allow_everyone=True)
    assert decided(acl("x"), policy=policy) == AclDecision(True, DecisionReason.NO_ACL)
    assert decided(acl(principal="User:bob"), policy=policy) == AclDecision(False, DecisionReason.NO_MATCHING_ACL)
    assert decided() == AclDecision(False, DecisionReason.NO_ACL)


def test_any_resource_is_one_that_no_denial_covers() -> None:
    assert decided_any(acl("ab")).binding == acl("ab")
    denial = acl("a", PREFIXED, permission=DENY)
    assert decided_any(acl("ab"), acl("abc", PREFIXED), denial) == AclDecision(
        False, DecisionReason.DENYING_ACL, denial
    )
    assert decided_any(acl("ab"), acl("b"), denial).is_allowed
    assert not decided_any(acl("b", operation=WRITE)).is_allowed


def test_the_two_authorizers_differ_about_everyone() -> None:
    policy, others = AclPolicy(allow_everyone=True), acl("*", principal="User:bob")
    assert not decided_any(others, policy=policy).is_allowed
    assert decided_any(others, policy=policy._replace(as_acl_authorizer=True)).is_allowed
