"""The rules that allow what brokers with `headgate.authorizer.mode=observe` have seen. Pure.

A rule has exactly one name of a resource, or a prefix that the caller names, and exactly one operation. An operation
that another rule implies has no rule of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from headgate.protocol.acls import (
    CLUSTER_NAME,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclBinding,
    AclOperation,
    AclPermission,
    AclResource,
    PatternType,
)
from headgate.protocol.security.acls.decision import ALLOWING, AclPolicy, decide, decide_any
from headgate.protocol.security.acls.index import AclIndex
from headgate.tools.acls.roles import SPARK_GROUP_PREFIXES

OBSERVED_EVENT = "would_be_refused"
DEFAULT_PREFIXES: Mapping[AclResource, Sequence[str]] = {AclResource.GROUP: SPARK_GROUP_PREFIXES}
"""Spark names a new group in each query."""


class ObservedAccess(NamedTuple):
    """An operation that the ACLs would refuse. `name` None: on any resource of the type."""

    principal: str
    host: str
    operation: AclOperation
    resource_type: AclResource
    name: str | None

    def __str__(self) -> str:
        name = "any" if self.name is None else repr(self.name)
        return f"{self.operation.name} on {self.resource_type.name} {name} by {self.principal}"


class AuditLines(NamedTuple):
    """The accesses in lines of an audit log, and the number of lines that are no events."""

    accesses: list[ObservedAccess]
    unreadable: int


def read_lines(lines: Iterable[str]) -> AuditLines:
    """The observed accesses, each once; a torn line of a full disk is counted."""
    accesses: dict[ObservedAccess, None] = {}
    unreadable = 0
    for line in lines:
        if not line.strip():
            continue
        try:
            event = json.loads(line)
            if event["event"] == OBSERVED_EVENT:
                accesses[_access(event)] = None
        except (ValueError, KeyError, TypeError, RecursionError):
            unreadable += 1
    return AuditLines([*accesses], unreadable)


def _access(event: Mapping[str, Any]) -> ObservedAccess:
    """Raises KeyError, TypeError."""
    name = event["resource_name"]
    principal, host = event["principal"], event["address"]
    if not all(isinstance(text, str) for text in (principal, host, name or "")):
        raise TypeError("a field is no text")
    return ObservedAccess(principal, host, AclOperation[event["operation"]], AclResource[event["resource_type"]], name)


def still_refused(accesses: Iterable[ObservedAccess], index: AclIndex, policy: AclPolicy) -> Iterator[ObservedAccess]:
    """The accesses that these ACLs do not allow."""
    for access in accesses:
        hosts = index.hosts_of(access.host)
        if access.name is None:
            decision = decide_any(index, policy, access.principal, hosts, access.operation, access.resource_type)
        else:
            decision = decide(
                index, policy, access.principal, hosts, access.operation, access.resource_type, access.name
            )
        if not decision.is_allowed:
            yield access


class Suggestions(NamedTuple):
    """Rules, and the accesses that no rule may allow alone: their names would be wildcards."""

    rules: list[AclBinding]
    left_out: list[ObservedAccess]


def suggest(
    accesses: Iterable[ObservedAccess], prefixes: Mapping[AclResource, Sequence[str]], *, by_host: bool
) -> Suggestions:
    """The rules that allow these accesses. `by_host`: from the seen addresses alone, otherwise from all hosts."""
    rules: dict[AclBinding, None] = {}
    left_out: list[ObservedAccess] = []
    unnamed: list[ObservedAccess] = []
    for access in accesses:
        if access.name == WILDCARD or access.principal == WILDCARD_PRINCIPAL:
            left_out.append(access)
        elif access.name is None:
            unnamed.append(access)
        else:
            rules[_rule(access, access.name, prefixes, by_host=by_host)] = None
    for access in unnamed:
        if not any(_bears_on(rule, access) for rule in rules):
            rules[_unnamed_rule(access, by_host=by_host)] = None
    return Suggestions([rule for rule in rules if not _is_implied(rule, rules)], left_out)


def _rule(
    access: ObservedAccess, name: str, prefixes: Mapping[AclResource, Sequence[str]], *, by_host: bool
) -> AclBinding:
    prefix = next((prefix for prefix in prefixes.get(access.resource_type, ()) if name.startswith(prefix)), None)
    return AclBinding(
        access.resource_type,
        name if prefix is None else prefix,
        PatternType.LITERAL if prefix is None else PatternType.PREFIXED,
        access.principal,
        access.host if by_host else WILDCARD,
        access.operation,
        AclPermission.ALLOW,
    )


def _unnamed_rule(access: ObservedAccess, *, by_host: bool) -> AclBinding:
    """A rule for an operation on any resource: an idempotent producer that has written nothing yet (KIP-679)."""
    host = access.host if by_host else WILDCARD
    resource, name, operation = access.resource_type, WILDCARD, access.operation
    if (operation, resource) == (AclOperation.WRITE, AclResource.TOPIC):
        resource, name, operation = AclResource.CLUSTER, CLUSTER_NAME, AclOperation.IDEMPOTENT_WRITE
    return AclBinding(resource, name, PatternType.LITERAL, access.principal, host, operation, AclPermission.ALLOW)


def _bears_on(rule: AclBinding, access: ObservedAccess) -> bool:
    return (
        (rule.principal, rule.operation, rule.resource_type)
        == (access.principal, access.operation, access.resource_type)
    ) and rule.host in (WILDCARD, access.host)


def _is_implied(rule: AclBinding, rules: Mapping[AclBinding, None]) -> bool:
    implying = ALLOWING[rule.operation] - {rule.operation, AclOperation.ALL}
    return any(rule._replace(operation=operation) in rules for operation in implying)
