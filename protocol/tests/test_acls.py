"""ACLs as values: filters mean what Kafka's do, and numbers of newer versions are UNKNOWN."""

from __future__ import annotations

import pytest

from headgate.protocol.acls import AclBinding, AclFilter, AclOperation, AclPermission, AclResource, PatternType

TOPIC, GROUP = AclResource.TOPIC, AclResource.GROUP
LITERAL, PREFIXED, MATCH = PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH
ALL = AclFilter(AclResource.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, AclPermission.ANY)


def acl(name: str, pattern_type: PatternType = LITERAL) -> AclBinding:
    return AclBinding(TOPIC, name, pattern_type, "User:a", "*", AclOperation.READ, AclPermission.ALLOW)


@pytest.mark.parametrize("kind", [AclOperation, AclResource, PatternType, AclPermission])
def test_a_number_of_a_newer_version_is_unknown(kind: type[AclOperation]) -> None:
    assert kind(99) is kind.UNKNOWN
    assert kind(0) is kind.UNKNOWN
    assert [member.value for member in kind] == [*range(len(kind))]


@pytest.mark.parametrize(
    "pattern_type, name, matched",
    [
        (PatternType.ANY, None, {"ab", "a", "*", "abc"}),
        (PatternType.ANY, "ab", {"ab"}),
        (PatternType.ANY, "a", {"a"}),
        (LITERAL, None, {"ab", "*"}),
        (LITERAL, "*", {"*"}),
        (PREFIXED, None, {"a", "abc"}),
        (PREFIXED, "ab", set()),
        (MATCH, "ab", {"ab", "a", "*"}),
        (MATCH, "abcd", {"a", "*", "abc"}),
        (MATCH, None, {"ab", "a", "*", "abc"}),
        (PatternType.UNKNOWN, None, set()),
    ],
)
def test_a_filter_of_patterns(pattern_type: PatternType, name: str | None, matched: set[str]) -> None:
    every = [acl("ab"), acl("a", PREFIXED), acl("*"), acl("abc", PREFIXED)]
    wanted = ALL._replace(resource_type=TOPIC, resource_name=name, pattern_type=pattern_type)
    assert {binding.resource_name for binding in every if wanted.matches(binding)} == matched
    assert not any(wanted._replace(resource_type=GROUP).matches(binding) for binding in every)


@pytest.mark.parametrize(
    "field, same, other",
    [
        ("principal", "User:a", "User:*"),
        ("host", "*", "10.0.0.1"),
        ("operation", AclOperation.READ, AclOperation.ALL),
        ("permission", AclPermission.ALLOW, AclPermission.DENY),
    ],
)
def test_a_filter_of_entries_is_exact(field: str, same: object, other: object) -> None:
    assert ALL._replace(**{field: same}).matches(acl("t"))  # type: ignore[arg-type]
    assert not ALL._replace(**{field: other}).matches(acl("t"))  # type: ignore[arg-type]


def test_an_acl_reads_as_a_sentence() -> None:
    assert str(acl("t", PREFIXED)) == "ALLOW READ on TOPIC:PREFIXED:t to User:a from *"
    assert not acl("t").is_unknown
    assert acl("t")._replace(operation=AclOperation.UNKNOWN).is_unknown
