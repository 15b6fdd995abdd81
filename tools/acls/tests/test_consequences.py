"""Who gains and who loses by a change of rules: samples stand for prefixes, for `*`, and for unnamed principals."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from headgate.protocol.acls import CLUSTER_NAME, AclBinding, AclOperation, AclPermission, AclResource, PatternType
from headgate.protocol.security.acls.decision import AclPolicy
from headgate.tools.acls import consequences
from headgate.tools.acls.consequences import RuleChange, denying_rule, is_super_user
from headgate.tools.acls.tests.acl_broker import acl

READ, WRITE, DESCRIBE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL
DENY, PREFIXED = AclPermission.DENY, PatternType.PREFIXED
CLOSED, OPEN = AclPolicy(frozenset({"User:admin"})), AclPolicy(allow_everyone=True)
EVERYBODY = "User:*"


def changes(before: Collection[AclBinding], after: Collection[AclBinding], policy: AclPolicy = CLOSED) -> list[str]:
    return [str(each) for each in RuleChange(before, after, policy).access_changes()]


def test_a_rule_that_goes_takes_what_it_implies() -> None:
    assert changes([acl()], []) == ["User:alice loses READ, DESCRIBE on TOPIC orders"]
    assert changes([], [acl()]) == ["User:alice gains READ, DESCRIBE on TOPIC orders"]


def test_another_rule_that_allows_the_same_keeps_access() -> None:
    wide = acl(name="ord", pattern=PREFIXED, operation=ALL)
    assert changes([acl(), wide], [wide]) == []


def test_a_prefix_is_told_apart_from_the_rules_below_it() -> None:
    wide = acl(name="ord", pattern=PREFIXED)
    assert changes([acl(), wide], [acl()]) == ["User:alice loses READ, DESCRIBE on TOPIC ord*"]


def test_the_order_of_the_answer_is_none_of_the_brokers() -> None:
    rules = [acl(f"User:{name}", name=f"t{name}") for name in "hgfedcba"]
    wide = acl("User:*", name="t", pattern=PREFIXED, permission=DENY)
    told = changes(rules, [*rules, wide])
    assert told == changes(rules[::-1], [wide, *rules[::-1]])
    assert told == [f"User:{name} loses READ on TOPIC t{name}" for name in "abcdefgh"]


def test_the_rules_beside_a_prefix_are_no_part_of_it() -> None:
    rules = [acl(f"User:{name}", name=name) for name in ("a", "ab", "ab1", "b")]
    other = acl("User:g", name="ab", resource=AclResource.GROUP)
    wide = acl("User:*", name="ab", pattern=PREFIXED, permission=DENY)
    told = changes([*rules, other], [*rules, other, wide])
    assert told == [f"User:{name} loses READ on TOPIC {name}" for name in ("ab", "ab1")]


def test_a_denial_takes_from_all_whom_others_allow() -> None:
    bob = acl("User:bob", WRITE)
    after = [acl(), bob, acl(EVERYBODY, name="*", permission=DENY)]
    assert changes([acl(), bob], after) == ["User:alice loses READ on TOPIC orders"]


def test_a_denial_that_goes_gives() -> None:
    rules = [acl(name="*"), acl(permission=DENY)]
    assert changes(rules, rules[:1]) == ["User:alice gains READ on TOPIC orders"]


def test_the_first_rule_of_an_open_resource_shuts_everybody_out() -> None:
    found = changes([], [acl(operation=ALL)], OPEN)
    assert len(found) == 1
    assert found[0].startswith("each principal without rules of its own loses READ, WRITE, CREATE")
    assert changes([acl(operation=ALL)], [], OPEN)[0].startswith("each principal without rules of its own gains READ")
    assert changes([], [acl(operation=ALL)]) != found, "a closed resource shuts nobody out"


def test_access_from_one_host_is_named() -> None:
    assert changes([acl(host="10.0.0.1")], []) == ["User:alice from 10.0.0.1 loses READ, DESCRIBE on TOPIC orders"]


def test_super_users_lose_nothing() -> None:
    rule = acl("User:admin")
    assert changes([rule], []) == []
    assert is_super_user(RuleChange([], [rule], CLOSED).after(rule))


def test_the_last_rule_that_allows_is_noticed() -> None:
    denial = acl("User:bob", permission=DENY)
    assert [*RuleChange([acl(), denial], [denial], CLOSED).closed()] == ["TOPIC orders"]
    assert [*RuleChange([acl()], [], OPEN).closed()] == [], "without a rule an open resource is open"
    assert [*RuleChange([acl(), denial], [denial], OPEN).closed()] == ["TOPIC orders"]
    assert [*RuleChange([acl(), acl("User:bob")], [acl()], CLOSED).closed()] == []


def test_the_denial_that_wins_is_named() -> None:
    denial = acl(EVERYBODY, name="*", permission=DENY)
    assert denying_rule(RuleChange([denial], [denial, acl()], CLOSED).after(acl())) == denial
    assert denying_rule(RuleChange([], [acl()], CLOSED).after(acl())) is None


def test_the_right_to_change_rules_is_lost_by_a_removal_and_by_a_denial() -> None:
    alter = acl(operation=AclOperation.ALTER, name=CLUSTER_NAME, resource=AclResource.CLUSTER)
    denial = alter._replace(principal=EVERYBODY, permission=DENY, host="10.0.0.1")
    assert RuleChange([alter], [], CLOSED).loses("User:alice", AclOperation.ALTER)
    assert RuleChange([alter], [alter, denial], CLOSED).loses("User:alice", AclOperation.ALTER)
    assert not RuleChange([alter], [], CLOSED).loses("User:admin", AclOperation.ALTER)
    assert not RuleChange([], [alter], CLOSED).loses("User:alice", AclOperation.ALTER)


def test_the_number_of_decisions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consequences, "MOST_DECISIONS", 2)
    rules = [acl(name=f"topic-{number}", operation=WRITE) for number in range(9)]
    change = RuleChange(rules, [], CLOSED)
    assert change.is_complete
    assert len(change.access_changes()) == 1
    assert not change.is_complete
    monkeypatch.setattr(consequences, "MOST_DECISIONS", 18)
    assert len(change.access_changes()) == 9
    assert change.is_complete
