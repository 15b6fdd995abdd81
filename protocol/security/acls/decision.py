"""The decision about a request by ACLs, and the rule that decides. Pure.

A denial wins over any permission. READ, WRITE, DELETE and ALTER allow DESCRIBE as well, ALTER_CONFIGS allows
DESCRIBE_CONFIGS; a denial of one denies no other. A resource without any ACL is open to super users only, or with
`allow.everyone.if.no.acl.found` to all. Source: StandardAuthorizerData of Apache Kafka 4.1, AclAuthorizer of 3.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple, TypeAlias

from headgate.protocol.acls import WILDCARD, AclBinding, AclOperation, AclPermission, AclResource, PatternType
from headgate.protocol.security.acls.index import AclIndex, keys


class DecisionReason(Enum):
    """The kind of rule that decided; the text completes the sentence "allowed, as ..."."""

    SUPER_USER = "the principal is in super.users"
    DENYING_ACL = "an ACL denies it"
    ALLOWING_ACL = "an ACL allows it"
    NO_MATCHING_ACL = "the resource has ACLs, and none of them allows it"
    NO_ACL = "the resource has no ACL, and allow.everyone.if.no.acl.found decides"
    NOT_LOADED = "the ACLs are not loaded yet"


class AclDecision(NamedTuple):
    """An answer and its reason. `binding`: the ACL that decides, if one does."""

    is_allowed: bool
    reason: DecisionReason
    binding: AclBinding | None = None

    def __str__(self) -> str:
        rule = self.reason.value if self.binding is None else f"{self.reason.value}: {self.binding}"
        return f"{'allowed' if self.is_allowed else 'denied'}, as {rule}"


_Denials: TypeAlias = Mapping[tuple[PatternType, str], AclBinding]


class AclPolicy(NamedTuple):
    """The settings of an authorizer.

    `as_acl_authorizer`: whether `decide_any` is that of AclAuthorizer, which differs from StandardAuthorizer's.
    """

    super_users: frozenset[str] = frozenset()
    allow_everyone: bool = False
    as_acl_authorizer: bool = False


SUPER_USER = AclDecision(True, DecisionReason.SUPER_USER)
NO_MATCHING_ACL = AclDecision(False, DecisionReason.NO_MATCHING_ACL)
NOT_LOADED = AclDecision(False, DecisionReason.NOT_LOADED)

_IMPLYING = {
    AclOperation.DESCRIBE: {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER},
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}
DENYING: Mapping[AclOperation, frozenset[AclOperation]] = {
    operation: frozenset((operation, AclOperation.ALL)) for operation in AclOperation
}
"""The operations of a denying ACL that deny an operation."""
ALLOWING: Mapping[AclOperation, frozenset[AclOperation]] = {
    operation: same.union(_IMPLYING.get(operation, ())) for operation, same in DENYING.items()
}
"""The operations of an allowing ACL that allow an operation."""


def decide(
    index: AclIndex,
    policy: AclPolicy,
    principal: str,
    hosts: Iterable[str],
    operation: AclOperation,
    resource: AclResource,
    name: str,
) -> AclDecision:
    """Whether a principal may do the operation on a resource. `hosts`: `AclIndex.hosts_of` of the client's address."""
    if principal in policy.super_users:
        return SUPER_USER
    patterns = index.of_resource(resource, name)
    if not patterns:
        return AclDecision(policy.allow_everyone, DecisionReason.NO_ACL)
    allowing = None
    wanted = keys(principal, hosts)
    for rows in patterns:
        for key in wanted:
            for binding in rows.get(key, ()):
                if binding.permission is AclPermission.DENY:
                    if binding.operation in DENYING[operation]:
                        return AclDecision(False, DecisionReason.DENYING_ACL, binding)
                elif (
                    allowing is None
                    and binding.permission is AclPermission.ALLOW
                    and binding.operation in ALLOWING[operation]
                ):
                    allowing = binding
    return NO_MATCHING_ACL if allowing is None else AclDecision(True, DecisionReason.ALLOWING_ACL, allowing)


ANY_NAME = "hardcode"
"""Kafka asks for this name first: its answer allows super users, and what a wildcard allows."""


def decide_any(
    index: AclIndex,
    policy: AclPolicy,
    principal: str,
    hosts: Iterable[str],
    operation: AclOperation,
    resource: AclResource,
) -> AclDecision:
    """Whether a principal may do the operation on some resource of the type, which need not exist.

    An allowing pattern counts unless a denying one covers all of it. Implied operations do not count. Source:
    `authorizeByResourceType` of Authorizer and AclAuthorizer (KIP-679).
    """
    hosts = tuple(hosts)
    if policy.as_acl_authorizer:
        if principal in policy.super_users:
            return SUPER_USER
    else:
        decision = decide(index, policy, principal, hosts, operation, resource, ANY_NAME)
        if decision.is_allowed:
            return decision
    bearing = [
        binding for binding in index.of_type(resource, principal, hosts) if binding.operation in DENYING[operation]
    ]
    denying = {
        (binding.pattern_type, binding.resource_name): binding
        for binding in bearing
        if binding.permission is AclPermission.DENY
    }
    everywhere = denying.get((PatternType.LITERAL, WILDCARD))
    if everywhere is not None:
        return AclDecision(False, DecisionReason.DENYING_ACL, everywhere)
    if policy.as_acl_authorizer and policy.allow_everyone:
        return AclDecision(True, DecisionReason.NO_ACL)
    return _first_open(bearing, denying)


def _first_open(bearing: Iterable[AclBinding], denying: _Denials) -> AclDecision:
    """The first allowing ACL whose pattern no denial covers, or the denial that covers the last one."""
    lengths = {len(name) for pattern_type, name in denying if pattern_type is PatternType.PREFIXED}
    denied_by = None
    for binding in bearing:
        if binding.permission is AclPermission.ALLOW:
            denial = covering(binding, denying, lengths)
            if denial is None:
                return AclDecision(True, DecisionReason.ALLOWING_ACL, binding)
            denied_by = denial
    return NO_MATCHING_ACL if denied_by is None else AclDecision(False, DecisionReason.DENYING_ACL, denied_by)


def covering(binding: AclBinding, denying: _Denials, lengths: Iterable[int]) -> AclBinding | None:
    """The denial that covers all resources of a pattern; none covers `*`. `lengths`: of the names of prefixed ones."""
    name, is_literal = binding.resource_name, binding.pattern_type is PatternType.LITERAL
    if is_literal and name == WILDCARD:
        return None
    if is_literal and (PatternType.LITERAL, name) in denying:
        return denying[PatternType.LITERAL, name]
    prefixes = ((PatternType.PREFIXED, name[:length]) for length in lengths if length <= len(name))
    return next((denying[prefix] for prefix in prefixes if prefix in denying), None)
