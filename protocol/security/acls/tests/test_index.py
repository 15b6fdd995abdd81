"""The index finds the ACLs that bear on a request, and a change leaves the index before it alone."""

from __future__ import annotations

import pytest

from headgate.protocol.acls import AclBinding, AclResource
from headgate.protocol.security.acls.index import AclIndex, keys
from headgate.protocol.security.acls.tests.made import DENY, PREFIXED, TOPIC, acl


def found(index: AclIndex, name: str) -> list[AclBinding]:
    return [binding for rows in index.of_resource(TOPIC, name) for each in rows.values() for binding in each]


def test_the_most_specific_pattern_comes_first() -> None:
    made = [acl("abc"), acl("abc", PREFIXED), acl("a", PREFIXED), acl("*")]
    index = AclIndex.empty().changed((), [acl("abcd", PREFIXED), acl("x"), *reversed(made)])
    assert found(index, "abc") == made
    assert found(index, "b") == [acl("*")]
    assert index.of_resource(AclResource.GROUP, "abc") == []


def test_the_resource_named_star_has_each_acl_once() -> None:
    assert found(AclIndex.empty().changed((), [acl("*")]), "*") == [acl("*")]


def test_nothing_is_left_of_removed_acls() -> None:
    made = [acl("a", PREFIXED), acl("a", host="10.0.0.0/8"), acl("b", permission=DENY), acl("a", principal="User:b")]
    assert AclIndex.empty().changed((), made).changed(made, ()) == AclIndex.empty()


def test_a_change_copies_only_what_it_touches() -> None:
    group = acl("g", resource=AclResource.GROUP)
    before = AclIndex.empty().changed((), [acl("a"), acl("b"), group])
    after = before.changed([acl("a")], [acl("c")])
    assert found(before, "a") == [acl("a")]
    literal = group.resource_type, group.pattern_type
    assert after.patterns[literal] is before.patterns[literal]
    of_topics = TOPIC, acl().pattern_type
    assert after.patterns[of_topics]["b"] is before.patterns[of_topics]["b"]


def test_hosts_are_all_that_mean_an_address() -> None:
    index = AclIndex.empty().changed(
        (), [acl(host=host) for host in ("::1", "10.0.0.1", "10.0.0.0/8", "10.0.0.0/24", "::/0")]
    )
    assert index.hosts_of("10.0.0.1") == ("*", "10.0.0.1", "10.0.0.0/24", "10.0.0.0/8")
    assert index.hosts_of("::1") == ("*", "::1", "::/0")
    assert index.hosts_of("*") == ("*",)


def test_the_wildcard_principal_is_looked_up_once() -> None:
    assert keys("User:*", ["*"]) == [("User:*", "*")]
    assert keys("User:a", ["*"]) == [("User:a", "*"), ("User:*", "*")]


@pytest.mark.slow
def test_a_change_among_ten_thousand_shares_the_others() -> None:
    many = [acl(f"t{number}", PREFIXED if number % 2 else acl().pattern_type) for number in range(10_000)]
    index = AclIndex.empty().changed((), many)
    changed = index.changed(many[:1], [acl("new", PREFIXED)])
    shared = changed.patterns[TOPIC, PREFIXED]
    assert all(shared[name] is rows for name, rows in index.patterns[TOPIC, PREFIXED].items())
    assert found(changed, "new1") == [acl("new", PREFIXED)]
