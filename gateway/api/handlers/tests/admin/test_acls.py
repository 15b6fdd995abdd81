"""CreateAcls, DeleteAcls and DescribeAcls, over the wire of each version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.gateway.api.authorization import Authorization
from headgate.gateway.api.context import CloseConnection
from headgate.gateway.security.acls.authorizer import ClusterMetadataAuthorizer
from headgate.gateway.security.acls.observing import ObservingAuthorizer
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.acls import AclFilter, AclOperation, AclPermission, AclResource, PatternType
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from headgate.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from headgate.protocol.messages.describe_acls import DescribeAclsRequest
from headgate.protocol.messages.describe_cluster import DescribeClusterRequest
from headgate.protocol.security.acls.decision import AclPolicy

TOPIC, GROUP, CLUSTER = AclResource.TOPIC, AclResource.GROUP, AclResource.CLUSTER
READ, ANY, ALLOW, DENY = AclOperation.READ, 1, AclPermission.ALLOW, AclPermission.DENY
LITERAL, PREFIXED, MATCH = PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ALL = AclFilter(AclResource.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, AclPermission.ANY)
CREATED = (0, "")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[HandlerBroker]:
    made = HandlerBroker(tmp_path, authorizer_class_name=STANDARD)
    yield made
    made.close()


def acl(
    name: str = "t",
    pattern_type: int = LITERAL,
    resource: int = TOPIC,
    principal: str = "User:a",
    host: str = "*",
    operation: int = READ,
    permission: int = ALLOW,
) -> AclCreation:
    return AclCreation(resource, name, pattern_type, principal, host, operation, permission)


def create(node: HandlerBroker, *creations: AclCreation, version: int = 3) -> list[tuple[int, str | None]]:
    response = node.ask(CreateAclsRequest([*creations]), version)
    return [(row.error_code, row.error_message) for row in response.results]


def names(node: HandlerBroker, wanted: AclFilter = ALL, version: int = 3) -> set[tuple[str, int]]:
    """The names and pattern types of the resources with a matching ACL."""
    response = node.ask(DescribeAclsRequest(*wanted), version)
    assert response.error_code == ErrorCode.NONE
    return {(row.resource_name, row.pattern_type) for row in response.resources}


def delete(node: HandlerBroker, *filters: AclFilter, version: int = 3) -> list[tuple[int, list[str]]]:
    response = node.ask(DeleteAclsRequest([DeleteAclsFilter(*wanted) for wanted in filters]), version)
    return [(row.error_code, sorted(one.resource_name for one in row.matching_acls)) for row in response.filter_results]


@pytest.mark.parametrize("version", range(4))
def test_a_created_acl_is_described_and_deleted(node: HandlerBroker, version: int) -> None:
    assert create(node, acl(), version=version) == [CREATED]
    response = node.ask(DescribeAclsRequest(*ALL), version)
    (resource,) = response.resources
    assert (resource.resource_type, resource.resource_name, resource.pattern_type) == (TOPIC, "t", LITERAL)
    (rule,) = resource.acls
    assert (rule.principal, rule.host, rule.operation, rule.permission_type) == ("User:a", "*", READ, ALLOW)
    assert delete(node, ALL, version=version) == [(0, ["t"])]
    assert names(node) == set()


def test_acls_outlive_a_restart_and_decide_after_it(node: HandlerBroker) -> None:
    create(node, acl(), acl("x", PREFIXED, permission=DENY), acl("xy"))
    delete(node, ALL._replace(resource_name="t"))
    node.restart()
    assert names(node) == {("x", PREFIXED), ("xy", LITERAL)}
    authorizer = node.parts.dispatcher.authorizer
    assert authorizer is not None
    node.client.principal = "User:a"
    assert not authorizer.allows(node.client, READ, TOPIC, "xy")
    delete(node, ALL._replace(pattern_type=PREFIXED))
    assert authorizer.allows(node.client, READ, TOPIC, "xy")


def test_a_repeated_acl_succeeds_and_is_there_once(node: HandlerBroker) -> None:
    assert create(node, acl(), acl()) == create(node, acl(), acl()) == [CREATED] * 2
    assert delete(node, ALL) == [(0, ["t"])]
    assert delete(node, ALL) == [(0, [])]


REFUSALS = [
    (acl("k", resource=CLUSTER), "The only valid name for the CLUSTER resource is kafka-cluster"),
    (acl(""), "Invalid empty resource name"),
    (acl(resource=1), "Invalid resourceType ANY"),
    (acl(resource=99), "Invalid resourceType UNKNOWN"),
    (acl(pattern_type=MATCH), "Invalid patternType MATCH"),
    (acl(pattern_type=1), "Invalid patternType ANY"),
    (acl(operation=1), "Invalid operation ANY"),
    (acl(operation=99), "Invalid operation UNKNOWN"),
    (acl(permission=1), "Invalid permissionType ANY"),
    (acl(principal="a"), "Could not parse principal from `a` (no colon is present separating the principal type from "),
    (acl(host="10.0.0.0/33"), "Invalid host 10.0.0.0/33: a network is written as address/bits"),
]


@pytest.mark.parametrize("creation, sentence", REFUSALS)
def test_an_acl_without_a_meaning_is_refused_alone(node: HandlerBroker, creation: AclCreation, sentence: str) -> None:
    refused, created = create(node, creation, acl("good"))
    assert refused[0] == ErrorCode.INVALID_REQUEST
    assert (refused[1] or "").startswith(sentence)
    assert created == CREATED
    assert names(node) == {("good", LITERAL)}


def test_match_finds_prefixes_and_wildcards(node: HandlerBroker) -> None:
    create(node, acl("ab"), acl("a", PREFIXED), acl("*"), acl("abc", PREFIXED), acl("ab", resource=GROUP))
    of_topics = ALL._replace(resource_type=TOPIC, resource_name="ab", pattern_type=MATCH)
    assert names(node, of_topics) == {("ab", LITERAL), ("a", PREFIXED), ("*", LITERAL)}
    assert names(node, of_topics._replace(pattern_type=PatternType.ANY)) == {("ab", LITERAL)}
    assert delete(node, of_topics) == [(0, ["*", "a", "ab"])]
    assert names(node) == {("abc", PREFIXED), ("ab", LITERAL)}


@pytest.mark.parametrize(
    "field, value", [("principal", "User:b"), ("host", "::1"), ("operation", AclOperation.WRITE), ("permission", DENY)]
)
def test_every_field_of_a_filter_counts(node: HandlerBroker, field: str, value: str | int) -> None:
    create(node, acl("plain"), acl("other", **{field: value}))  # type: ignore[arg-type]
    assert names(node, ALL._replace(**{field: value})) == {("other", LITERAL)}  # type: ignore[arg-type]
    assert delete(node, ALL._replace(**{field: value})) == [(0, ["other"])]  # type: ignore[arg-type]


def test_version_0_means_literal_patterns(node: HandlerBroker) -> None:
    create(node, acl("a", PREFIXED), acl("b"))
    assert names(node, version=0) == {("b", LITERAL)}
    assert delete(node, ALL, version=0) == [(0, ["b"])]


def test_a_filter_with_unknown_numbers_is_refused_alone(node: HandlerBroker) -> None:
    create(node, acl())
    unknown = DeleteAclsFilter(99, None, LITERAL, None, None, ANY, ANY), DeleteAclsFilter(2, None, 1, None, None, 99, 1)
    response = node.ask(DeleteAclsRequest([*unknown, DeleteAclsFilter(*ALL)]), 3)
    assert [(row.error_code, row.error_message) for row in response.filter_results] == [
        (ErrorCode.INVALID_REQUEST, "Unknown patternFilter."),
        (ErrorCode.INVALID_REQUEST, "Unknown entryFilter."),
        (0, None),
    ]
    assert names(node) == set()


def test_two_filters_may_mean_one_acl(node: HandlerBroker) -> None:
    create(node, acl())
    assert delete(node, ALL, ALL._replace(resource_name="t")) == [(0, ["t"]), (0, ["t"])]


@pytest.mark.parametrize(
    "request_", [CreateAclsRequest([acl(operation=0)]), DescribeAclsRequest(0, None, 3, None, None, 1, 1)]
)
def test_the_number_of_unknown_closes_the_connection(node: HandlerBroker, request_: CreateAclsRequest) -> None:
    with pytest.raises(CloseConnection, match="number 0"):
        node.ask(request_, 3)


def test_without_an_authorizer_security_is_disabled(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path)
    created = create(node, acl())
    assert created == [(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")]
    described = node.ask(DescribeAclsRequest(*ALL), 3)
    assert (described.error_code, described.error_message) == (
        ErrorCode.SECURITY_DISABLED,
        "No Authorizer is configured on the broker",
    )
    assert delete(node, ALL) == [(ErrorCode.SECURITY_DISABLED, [])]
    node.close()


def test_too_many_acls_are_refused_as_a_whole(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.gateway.metadata.planning.acls.MAX_CHANGES", 2)
    codes = [code for code, _ in create(node, acl("a"), acl("b"), acl("c"))]
    assert codes == [ErrorCode.POLICY_VIOLATION] * 3
    assert names(node) == set()


@pytest.mark.slow
def test_a_thousand_acls_are_created_in_steps(node: HandlerBroker) -> None:
    assert create(node, *(acl(f"t{number}") for number in range(1000))) == [CREATED] * 1000
    assert len(names(node)) == 1000
    assert len(delete(node, ALL)[0][1]) == 1000


def test_observing_lists_every_operation_and_notes_none(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path, authorizer_class_name=STANDARD, headgate_authorizer_mode="observe")
    observing = node.parts.dispatcher.authorizer
    assert isinstance(observing, ObservingAuthorizer)
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    authorization = Authorization(observing, request, node.context(0))
    assert authorization.operations(TOPIC, "t", 1 << READ) == 1 << READ
    assert not observing.observed
    assert authorization.allows(READ, TOPIC, "t")
    assert observing.observed.total() == 1
    assert node.services.metrics.read("authorizer.observed")
    node.close()


def test_super_users_may_while_acls_are_not_loaded(node: HandlerBroker) -> None:
    authorizer = ClusterMetadataAuthorizer(lambda: None, AclPolicy(frozenset({"User:root"}), allow_everyone=True))
    node.client.principal = "User:root"
    assert authorizer.allows(node.client, READ, TOPIC, "t")
    assert authorizer.allows_any(node.client, READ, TOPIC)
    node.client.principal = "User:a"
    assert not authorizer.allows(node.client, READ, TOPIC, "t")
    assert not authorizer.allows_any(node.client, READ, TOPIC)
