"""Add and delete ACLs, on any broker since Kafka 2.0: each rule, and who gains or loses access by it."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from headgate.protocol.acls import (
    ANONYMOUS,
    CLUSTER_NAME,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResource,
    PatternType,
    ResourcePattern,
)
from headgate.protocol.security.client_security import ClientSecurity
from headgate.tools.acls import actions, options, roles
from headgate.tools.acls.consequences import RuleChange, denying_rule, is_super_user, sample_of
from headgate.tools.acls.rows import binding_of, command_lines, removal_lines, sort_key
from headgate.tools.acls.why import authorizer_settings, policy_of
from headgate.tools.client.cluster import Cluster, shorten_list
from headgate.tools.console.changes.plan import MOST_LINES, ChangeLine, ChangePlan, ChangeResult
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.console.resources.access import constant_parameter
from headgate.tools.output import UsageError

ROLES: Final = ("", "producer", "consumer", "spark")
"""Those of `headgate acls add`; none: the operations are named."""
_MOST_WARNINGS: Final = 20
_LOCKED_OUT: Final = "your own login, {}, loses ALTER on the cluster: you cannot undo this change"
_INCOMPLETE: Final = "the ACLs are too many to compare all: other principals may gain or lose access too"
_CLOSED: Final = "no rule allows anybody anything on {} then: super users alone get there"

# ------------------------------------------------------------------------------------------------------------------ add


def add_acls(cluster: Cluster, parameters: Parameters) -> ChangePlan:
    """Add rules; those that are there already stay.

    Parameters: `principal` (several), `host` (several; default: all), `pattern_type`; without `role` also `permission`,
    `resource_type`, `resource_name` (several), `operation` (several); with a role `topic`, `group`, `transactional_id`
    (several each), `idempotent`. Raises BadParameter, UsageError, ClientError.
    """
    wanted = list(dict.fromkeys(_wanted(parameters)))
    known = actions.describe(cluster, actions.ALL_RULES)
    new = sorted(set(wanted) - set(known), key=sort_key)
    change, notes = _change(cluster, known, [*known, *new])
    losses = _first([str(each) for each in change.access_changes() if not each.is_gain], change)
    locked_out = _locked_out(cluster.security, change)
    added = set(new)
    lines = [_line_of(rule, change, is_new=rule in added) for rule in wanted]
    return ChangePlan(
        f"Add {_count(new or wanted)}",
        lines,
        lambda cluster: _add(cluster, new),
        problems=[] if new else ["the cluster has all of these ACLs already"],
        warnings=[*locked_out, *_for_everybody(new), *_first(_without_effect(new, change)), *losses, *notes],
        command="\n".join(command_lines(new)),
        confirmation=_own_principal(cluster.security) or "" if locked_out else "",
    )


def _wanted(parameters: Parameters) -> Iterator[AclBinding]:
    """Raises BadParameter, UsageError."""
    principals = _texts(parameters, "principal")
    if not principals:
        raise BadParameter("principal: name whom the rule is for, as in User:alice; User:* means everybody")
    hosts = _texts(parameters, "host") or [WILDCARD]
    try:
        names, places = [options.principal(each) for each in principals], [options.host(each) for each in hosts]
    except argparse.ArgumentTypeError as error:
        raise BadParameter(str(error)) from None
    permission = _permission(parameters)
    permissions = list(islice(_permissions(parameters), MOST_LINES + 1))
    if len(names) * len(places) * len(permissions) > MOST_LINES:
        raise BadParameter(
            f"these are more than {MOST_LINES} ACLs: each principal with each host, resource and operation; name fewer"
        )
    for name in names:
        for place in places:
            for pattern, operation in dict.fromkeys(permissions):
                yield AclBinding(*pattern, name, place, operation, permission)


def _permission(parameters: Parameters) -> AclPermission:
    return AclPermission[parameters.choice("permission", ("ALLOW", "DENY"))]


def _permissions(parameters: Parameters) -> Iterable[roles.Permission]:
    """Raises BadParameter, UsageError."""
    role = parameters.choice("role", ROLES)
    pattern_type = PatternType[parameters.choice("pattern_type", ("LITERAL", "PREFIXED"))]
    return _of_role(role, parameters, pattern_type) if role else _of_operations(parameters, pattern_type)


def _of_role(role: str, parameters: Parameters, pattern_type: PatternType) -> Iterator[roles.Permission]:
    """Raises BadParameter."""
    topics, groups, ids = (_texts(parameters, name) for name in ("topic", "group", "transactional_id"))
    resources = roles.Resources(topics, groups, ids, pattern_type=pattern_type)
    if not topics:
        raise BadParameter(f"topic: name the topic of the {role}; * means all topics")
    if role == "consumer" and not groups:
        raise BadParameter("group: name the group of the consumer; * means all groups")
    if _permission(parameters) is AclPermission.DENY:
        raise BadParameter(f"permission: the rules of a {role} allow; leave DENY out")
    if role == "producer":
        yield from roles.producer(resources, is_idempotent=parameters.flag("idempotent"))
    else:
        yield from roles.consumer(resources) if role == "consumer" else roles.spark(resources)


def _of_operations(parameters: Parameters, pattern_type: PatternType) -> Iterator[roles.Permission]:
    """Raises BadParameter, UsageError."""
    kind = constant_parameter(AclResource, parameters, "resource_type")
    names = [CLUSTER_NAME] if kind is AclResource.CLUSTER else _texts(parameters, "resource_name")
    if not names:
        raise BadParameter("resource_name: name the resource; * means all of this type")
    operations = parameters.texts("operation")
    if not operations:
        raise BadParameter("operation: choose at least one")
    for name in names:
        is_literal = name == WILDCARD or kind is AclResource.CLUSTER
        pattern = ResourcePattern(kind, name, PatternType.LITERAL if is_literal else pattern_type)
        for text in operations:
            operation = constant_parameter(AclOperation, Parameters([("operation", text)]), "operation")
            options.check_possible(kind, operation)
            yield pattern, operation


def _texts(parameters: Parameters, name: str) -> list[str]:
    """The texts of fields without blanks around them; an empty field names nothing."""
    return [text for text in (each.strip() for each in parameters.texts(name)) if text]


def _line_of(rule: AclBinding, change: RuleChange, *, is_new: bool) -> ChangeLine:
    if not is_new:
        return ChangeLine(_subject(rule), _text(rule), _text(rule), "is there already")
    allowing = change.before(rule).binding
    is_allowed = rule.permission is AclPermission.ALLOW and change.before(rule).is_allowed and allowing is not None
    return ChangeLine(_subject(rule), None, _text(rule), f"allowed already: {allowing}" if is_allowed else "")


def _add(cluster: Cluster, rules: Sequence[AclBinding]) -> ChangeResult:
    failures = actions.create(cluster, rules)
    return ChangeResult(
        [f"{rule} is added" for rule in rules if rule not in failures],
        [f"{rule} was not added: {why}" for rule, why in failures.items()],
    )


# --------------------------------------------------------------------------------------------------------------- delete


def delete_acls(cluster: Cluster, parameters: Parameters) -> ChangePlan:
    """Delete exactly these rules: `acl` (several) is a row of the list of ACLs, as JSON.

    Raises BadParameter, ClientError.
    """
    wanted = [_rule_of(text) for text in parameters.texts("acl")]
    if not wanted:
        raise BadParameter("the parameter acl is missing: name the ACLs to delete")
    known = actions.describe(cluster, actions.ALL_RULES)
    remaining = set(known)
    there = [rule for rule in wanted if rule in remaining]
    remaining.difference_update(there)
    change, notes = _change(cluster, known, remaining)
    effects = _first([str(each) for each in change.access_changes()], change)
    closed = _first([_CLOSED.format(title) for title in change.closed()])
    locked_out = _locked_out(cluster.security, change)
    return ChangePlan(
        f"Delete {_count(wanted)}",
        [ChangeLine(_subject(rule), _text(rule), None, _still_allowed(rule, change)) for rule in there],
        lambda cluster: _delete(cluster, there),
        problems=[f"{rule} is not there any more" for rule in wanted if rule not in there],
        warnings=[*locked_out, *closed, *effects, *notes],
        command="\n".join(removal_lines(there)),
        confirmation=_own_principal(cluster.security) or "" if locked_out else "",
    )


def _rule_of(text: str) -> AclBinding:
    """Raises BadParameter."""
    try:
        row = json.loads(text)
        return binding_of(row if isinstance(row, dict) else {})
    except UsageError as error:
        raise BadParameter(f"acl: {error}") from None
    except (ValueError, RecursionError):
        raise BadParameter("acl: it is no JSON, as the list of ACLs shows a rule") from None


def _still_allowed(rule: AclBinding, change: RuleChange) -> str:
    after = change.after(rule)
    if rule.permission is AclPermission.ALLOW and after.is_allowed and after.binding is not None:
        return f"allowed still: {after.binding}"
    return ""


def _delete(cluster: Cluster, rules: Sequence[AclBinding]) -> ChangeResult:
    removed, failures = actions.delete(cluster, [AclFilter(*rule) for rule in rules])
    return ChangeResult([f"{rule} is deleted" for rule in rules if rule in removed], failures)


# ------------------------------------------------------------------------------------------------------------- warnings


def _change(
    cluster: Cluster, before: Iterable[AclBinding], after: Iterable[AclBinding]
) -> tuple[RuleChange, list[str]]:
    """The change, and notes about the settings of the authorizer. Raises ClientError."""
    settings, notes = authorizer_settings(cluster)
    return RuleChange(set(before), set(after), policy_of(settings)), notes


def _for_everybody(rules: Iterable[AclBinding]) -> Iterator[str]:
    found: defaultdict[tuple[AclPermission, str], list[str]] = defaultdict(list)
    for rule in rules:
        if rule.principal == WILDCARD_PRINCIPAL:
            found[rule.permission, sample_of(rule).title].append(rule.operation.name)
    for (permission, title), operations in found.items():
        may = "allows everybody" if permission is AclPermission.ALLOW else "denies everybody but super users"
        yield f"{WILDCARD_PRINCIPAL} {may} {', '.join(operations)} on {title}"


def _without_effect(rules: Iterable[AclBinding], change: RuleChange) -> Iterator[str]:
    """A sentence for each rule that another one overrides."""
    for rule in rules:
        after = change.after(rule)
        denial = denying_rule(after)
        if is_super_user(after):
            yield f"{rule.principal} is in super.users: no rule changes what it may do"
        elif rule.permission is AclPermission.ALLOW and denial is not None:
            yield f"{rule} has no effect: {denial} wins"


def _own_principal(security: ClientSecurity) -> str | None:
    """The visitor's principal, if the login names one: without a certificate, a token or Kerberos."""
    if security.password is not None:
        return f"User:{security.password[0]}"
    return None if security.has_login or security.shows_certificate else ANONYMOUS


def _locked_out(security: ClientSecurity, change: RuleChange) -> list[str]:
    principal = _own_principal(security)
    is_locked_out = principal is not None and change.loses(principal, AclOperation.ALTER)
    return [_LOCKED_OUT.format(principal)] if is_locked_out else []


def _first(given: Iterable[str], change: RuleChange | None = None) -> list[str]:
    """The first sentences, the number of the others, and whether the change has more that was not compared."""
    sentences = [*dict.fromkeys(given)]
    more = len(sentences) - _MOST_WARNINGS
    others = [f"and {more} more changes of access"] if more > 0 else []
    return [*sentences[:_MOST_WARNINGS], *others, *([] if change is None or change.is_complete else [_INCOMPLETE])]


def _subject(rule: AclBinding) -> str:
    """The principal and the resource of a rule."""
    prefixed = "prefixed " if rule.pattern_type is PatternType.PREFIXED else ""
    name = "" if rule.resource_type is AclResource.CLUSTER else f" {prefixed}{rule.resource_name}"
    return f"{rule.principal}: {rule.resource_type.name}{name}"


def _text(rule: AclBinding) -> str:
    """What a rule says of its subject."""
    host = "" if rule.host == WILDCARD else f" from {rule.host}"
    return f"{rule.permission.name} {rule.operation.name}{host}"


def _count(rules: Sequence[AclBinding]) -> str:
    if len(rules) == 1:
        return f"the ACL {rules[0]}"
    return f"{len(rules)} ACLs of {shorten_list(sorted({rule.principal for rule in rules}))}"
