"""The model: any ACLs decide as a naive reading of the rules, remembered or not, while ACLs change.

Beside it stand planted mistakes: a short history finds each, and so does a search in `make soak`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from ipaddress import ip_address, ip_network
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from headgate.gateway.security.acls import authorizer as authorizer_module
from headgate.gateway.security.acls.acls_image import NO_ACLS, AclsDraft, AclsImage
from headgate.gateway.security.acls.authorizer import Asked, ClusterMetadataAuthorizer
from headgate.protocol.acls import AclBinding, AclOperation, AclPermission, AclResource, PatternType
from headgate.protocol.security.acls import decision as decision_module
from headgate.protocol.security.acls.decision import AclPolicy
from headgate.protocol.security.acls.index import AclIndex
from headgate.protocol.tests.examples import share

IMPLYING = {
    AclOperation.DESCRIBE: ["READ", "WRITE", "DELETE", "ALTER"],
    AclOperation.DESCRIBE_CONFIGS: ["ALTER_CONFIGS"],
}


# The naive reading


def means_host(of_acl: str, client: str) -> bool:
    return of_acl in ("*", client) or ip_address(client) in ip_network(of_acl, strict=False)


def means(binding: AclBinding, asked: Asked) -> bool:
    return (
        binding.resource_type is asked.resource
        and binding.principal in (asked.principal, "User:*")
        and means_host(binding.host, asked.host)
    )


def has_resource(binding: AclBinding, name: str) -> bool:
    if binding.pattern_type is PatternType.PREFIXED:
        return name.startswith(binding.resource_name)
    return binding.resource_name in ("*", name)


def naive(bindings: Iterable[AclBinding], policy: AclPolicy, asked: Asked) -> bool:
    """The answer by the rules, with no index and no memory."""
    if asked.principal in policy.super_users:
        return True
    if asked.name is None:
        return naive_any(bindings, policy, asked)
    of_resource = [one for one in bindings if one.resource_type is asked.resource and has_resource(one, asked.name)]
    if not of_resource:
        return policy.allow_everyone
    mine = [one for one in of_resource if means(one, asked)]
    same = {asked.operation.name, "ALL"}
    if any(one.permission is AclPermission.DENY and one.operation.name in same for one in mine):
        return False
    enough = same.union(IMPLYING.get(asked.operation, ()))
    return any(one.permission is AclPermission.ALLOW and one.operation.name in enough for one in mine)


def naive_any(bindings: Iterable[AclBinding], policy: AclPolicy, asked: Asked) -> bool:
    if naive(bindings, policy, asked._replace(name="hardcode")):
        return True
    mine = [one for one in bindings if means(one, asked) and one.operation in (asked.operation, AclOperation.ALL)]
    denied = [one for one in mine if one.permission is AclPermission.DENY]
    allowed = [one for one in mine if one.permission is AclPermission.ALLOW]
    if any(one.resource_name == "*" and one.pattern_type is PatternType.LITERAL for one in denied):
        return False
    return any(not any(covers(no, yes) for no in denied) for yes in allowed)


def covers(denied: AclBinding, allowed: AclBinding) -> bool:
    if allowed.pattern_type is PatternType.LITERAL and allowed.resource_name == "*":
        return False
    if denied.pattern_type is PatternType.PREFIXED:
        return allowed.resource_name.startswith(denied.resource_name)
    return denied.pattern == allowed.pattern


# Histories


class Step(NamedTuple):
    """One change of the ACLs, and the questions afterwards."""

    toggled: Sequence[AclBinding]
    asked: Sequence[Asked]


class History(NamedTuple):
    """The settings of an authorizer, and what happens to it."""

    policy: AclPolicy
    steps: Sequence[Step]


TYPES = st.sampled_from([AclResource.TOPIC, AclResource.GROUP])
OPERATIONS = st.sampled_from(
    [AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS]
)
ADDRESSES = st.sampled_from(["10.0.0.1", "10.0.1.1", "2001:db8::1"])
BINDINGS = st.builds(
    AclBinding,
    TYPES,
    st.sampled_from(["*", "a", "ab", "abc", "b", "h"]),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    st.sampled_from(["User:alice", "User:bob", "User:*"]),
    st.sampled_from(["*", "10.0.0.1", "10.0.0.0/24", "10.0.0.0/8", "2001:db8::1", "2001:db8::/32"]),
    st.sampled_from([AclOperation.ALL, AclOperation.READ, AclOperation.DESCRIBE, AclOperation.ALTER_CONFIGS]),
    st.sampled_from([AclPermission.ALLOW, AclPermission.DENY]),
)
ASKED = st.builds(
    Asked,
    st.sampled_from(["User:alice", "User:bob", "User:root"]),
    ADDRESSES,
    OPERATIONS,
    TYPES,
    st.sampled_from([None, "a", "ab", "abcd", "b", "c"]),
)
HISTORIES = st.builds(
    History,
    st.builds(AclPolicy, st.sampled_from([frozenset(), frozenset({"User:root"})]), st.booleans(), st.just(False)),
    st.lists(st.builds(Step, st.lists(BINDINGS, max_size=4), st.lists(ASKED, min_size=1, max_size=4)), max_size=5),
)


def differing(history: History) -> tuple[Asked, list[AclBinding]] | None:
    """The first question that is answered otherwise than by the naive reading, with the ACLs of that moment."""
    image, number = NO_ACLS, 0
    authorizer = ClusterMetadataAuthorizer(lambda: image, history.policy)
    every: dict[Asked, None] = {}
    for step in history.steps:
        draft = AclsDraft(image)
        for binding in dict.fromkeys(step.toggled):
            number += 1
            acl_id = image.ids.get(binding)
            if acl_id is None:
                draft.add(number.to_bytes(16, "big"), binding)
            else:
                draft.remove(acl_id)
        image = draft.finish()
        every.update(dict.fromkeys(step.asked))
        for asked in (*every, *every):  # also the earlier questions, and each once more
            if authorizer.decide(*asked).is_allowed != naive(image.ids, history.policy, asked):
                return asked, [*image.ids]
    return None


@pytest.mark.slow
@settings(max_examples=share(300, soak=2_000))
@given(HISTORIES)
def test_acls_decide_as_the_rules_read(history: History) -> None:
    assert differing(history) is None


@pytest.mark.slow
@settings(max_examples=share(150, soak=1_000))
@given(st.lists(st.lists(BINDINGS, max_size=6), max_size=5))
def test_a_changed_index_equals_a_new_one(changes: list[list[AclBinding]]) -> None:
    present, index = dict[AclBinding, None](), AclIndex.empty()
    for toggled in map(dict.fromkeys, changes):
        removed = [one for one in toggled if one in present]
        before, kept = index, AclIndex.empty().changed((), present)
        index = index.changed(removed, [one for one in toggled if one not in present])
        present = {one: None for one in {**present, **toggled} if not (one in present and one in toggled)}
        assert index == AclIndex.empty().changed((), present)
        assert before == kept, "a change must leave the index before it alone"


# Planted mistakes


def forgets_nothing(patch: pytest.MonkeyPatch) -> None:
    decide, remembered = ClusterMetadataAuthorizer.decide, dict[Any, Any]()

    def decided(self: ClusterMetadataAuthorizer, *asked: Any) -> Any:
        return remembered.setdefault((self, asked), decide(self, *asked))  # by the object: an id may come again

    patch.setattr(ClusterMetadataAuthorizer, "decide", decided)


def remembers_without_the_host(patch: pytest.MonkeyPatch) -> None:
    decide = ClusterMetadataAuthorizer.decide
    patch.setattr(ClusterMetadataAuthorizer, "decide", lambda self, who, _, *what: decide(self, who, "10.0.0.1", *what))


def denies_what_is_implied(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decision_module, "DENYING", decision_module.ALLOWING)


def implies_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decision_module, "ALLOWING", decision_module.DENYING)


def _without(attribute: str, is_left_out: Callable[[Any, str], bool]) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(patch: pytest.MonkeyPatch) -> None:
        def of_resource(self: AclIndex, resource: AclResource, name: str) -> Any:
            found = original(self, resource, name)
            return [rows for rows in found if not is_left_out(rows, name)]

        original = getattr(AclIndex, attribute)
        patch.setattr(AclIndex, attribute, of_resource)

    return plant


def _is_wildcard(rows: Any, _name: str) -> bool:
    return bool(next(iter(next(iter(rows.values())))).resource_name == "*")


def _is_shorter_prefix(rows: Any, name: str) -> bool:
    binding = next(iter(next(iter(rows.values()))))
    return binding.pattern_type is PatternType.PREFIXED and len(binding.resource_name) < min(2, len(name))


def sees_no_network(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AclIndex, "hosts_of", lambda _, host: ("*", host))


def everyone_by_any_acl(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decision_module, "NO_MATCHING_ACL", decision_module.SUPER_USER)


def covers_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decision_module, "covering", lambda *_: None)


def denies_everywhere_by_no_wildcard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decision_module, "WILDCARD", "**")


def removes_nothing(patch: pytest.MonkeyPatch) -> None:
    changed = AclIndex.changed
    patch.setattr(AclIndex, "changed", lambda self, _removed, added: changed(self, (), added))


def acl(
    name: str,
    operation: AclOperation = AclOperation.ALL,
    permission: AclPermission = AclPermission.ALLOW,
    pattern_type: PatternType = PatternType.LITERAL,
    host: str = "*",
) -> AclBinding:
    return AclBinding(AclResource.TOPIC, name, pattern_type, "User:alice", host, operation, permission)


def asks(name: str | None, operation: AclOperation = AclOperation.READ, host: str = "10.0.0.1") -> list[Asked]:
    return [Asked("User:alice", host, operation, AclResource.TOPIC, name)]


class Mistake(NamedTuple):
    """A mistake, and the shortest history that finds it."""

    plant: Callable[[pytest.MonkeyPatch], None]
    steps: Sequence[Step]


DENY, PREFIXED = AclPermission.DENY, PatternType.PREFIXED
MISTAKES = {
    "forgets nothing": Mistake(forgets_nothing, [Step([], asks("a")), Step([acl("a")], asks("a"))]),
    "remembers without the host": Mistake(
        remembers_without_the_host, [Step([acl("a", host="10.0.0.1")], asks("a", host="10.0.1.1"))]
    ),
    "denies what is implied": Mistake(
        denies_what_is_implied,
        [Step([acl("a"), acl("a", AclOperation.READ, DENY)], asks("a", AclOperation.DESCRIBE))],
    ),
    "implies nothing": Mistake(
        implies_nothing, [Step([acl("a", AclOperation.READ)], asks("a", AclOperation.DESCRIBE))]
    ),
    "sees no wildcard": Mistake(_without("of_resource", _is_wildcard), [Step([acl("*")], asks("a"))]),
    "sees no shorter prefix": Mistake(
        _without("of_resource", _is_shorter_prefix), [Step([acl("a", pattern_type=PREFIXED)], asks("ab"))]
    ),
    "sees no network": Mistake(sees_no_network, [Step([acl("a", host="10.0.0.0/24")], asks("a"))]),
    "everyone by any ACL": Mistake(everyone_by_any_acl, [Step([acl("a", AclOperation.DESCRIBE)], asks("a"))]),
    "covers nothing": Mistake(covers_nothing, [Step([acl("a"), acl("a", permission=DENY)], asks(None))]),
    "denies everywhere by no wildcard": Mistake(
        denies_everywhere_by_no_wildcard, [Step([acl("a"), acl("*", permission=DENY)], asks(None))]
    ),
    "removes nothing": Mistake(removes_nothing, [Step([acl("a")], []), Step([acl("a")], asks("a"))]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_history_finds_a_planted_mistake(name: str) -> None:
    history = History(AclPolicy(), MISTAKES[name].steps)
    assert differing(history) is None
    with pytest.MonkeyPatch.context() as patch:
        MISTAKES[name].plant(patch)
        assert differing(history) is not None


@pytest.mark.soak
@pytest.mark.parametrize("name", MISTAKES)
def test_a_search_finds_a_planted_mistake(name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        MISTAKES[name].plant(patch)
        tried = settings(max_examples=20_000, phases=[Phase.generate])
        assert find(HISTORIES, lambda history: differing(history) is not None, settings=tried)


def test_a_memory_without_room_decides_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorizer_module, "MAX_REMEMBERED", 1)
    read = AclBinding(
        AclResource.TOPIC, "a", PatternType.PREFIXED, "User:alice", "*", AclOperation.READ, AclPermission.ALLOW
    )
    draft = AclsDraft(NO_ACLS)
    draft.add(bytes(16), read)
    image: AclsImage | None = draft.finish()
    authorizer = ClusterMetadataAuthorizer(lambda: image, AclPolicy())
    for name in ("a", "b", "abc", "a", "b"):
        asked = Asked("User:alice", "10.0.0.1", AclOperation.READ, AclResource.TOPIC, name)
        assert authorizer.decide(*asked).is_allowed == name.startswith("a")
