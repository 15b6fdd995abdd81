"""`headgate acls why`: the rule that decides about a request, by the decision that the brokers make.

The rules come from DescribeAcls, the settings of the authorizer from DescribeConfigs of each broker.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from headgate.protocol.acls import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclBinding,
    AclOperation,
    AclPermission,
    ResourcePattern,
)
from headgate.protocol.client.failure import Failure
from headgate.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headgate.protocol.security.acls.decision import AclDecision, AclPolicy, DecisionReason, decide
from headgate.protocol.security.acls.index import AclIndex
from headgate.tools.acls.actions import ALL_RULES, describe, failure_of
from headgate.tools.acls.near_principals import near_principal
from headgate.tools.acls.options import check_possible, resources_of
from headgate.tools.acls.rows import command_lines, row_of
from headgate.tools.client.client import Client
from headgate.tools.client.cluster import Cluster
from headgate.tools.output import CommandResult, Row, UsageError

_BROKER_RESOURCE = 4
CLASS_NAME, SUPER_USERS = "authorizer.class.name", "super.users"
ALLOW_EVERYONE, MODE = "allow.everyone.if.no.acl.found", "headgate.authorizer.mode"
WITHOUT_AUTHORIZER = "authorizer.class.name is not set: every client may do everything"
_SETTINGS = (CLASS_NAME, SUPER_USERS, ALLOW_EVERYONE, MODE)

AuthorizerSettings = Mapping[str, str | None]
"""The settings of an authorizer by name; None for one that the broker hides."""


class AccessQuestion(NamedTuple):
    """Whether a principal may do an operation on a resource. `host`: an address; empty for any without own rules."""

    principal: str
    operation: AclOperation
    resource: ResourcePattern
    host: str


def run_why(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """The decision about each question of the options. Raises ClientError, UsageError."""
    patterns = resources_of(options).patterns()
    if not patterns:
        raise UsageError("name the resource: --topic, --group, --cluster, --transactional-id, ...")
    for pattern in patterns:
        check_possible(pattern.resource_type, options.operation)
    questions = [AccessQuestion(options.principal, options.operation, pattern, options.host) for pattern in patterns]
    explanation = explain(cluster, questions)
    return CommandResult(explanation.rows, notes=explanation.notes)


class AccessExplanation(NamedTuple):
    """A row for each question, and sentences about cures and settings. No rows: the broker has no authorizer."""

    rows: Sequence[Row]
    notes: Sequence[str]


def explain(cluster: Cluster, questions: Sequence[AccessQuestion]) -> AccessExplanation:
    """The decision about each question, as the brokers make it. Raises ClientError."""
    settings, notes = authorizer_settings(cluster)
    if settings.get(CLASS_NAME) == "":
        return AccessExplanation((), [*notes, WITHOUT_AUTHORIZER])
    bindings = describe(cluster, ALL_RULES)
    index = AclIndex.empty().changed((), bindings)
    policy = policy_of(settings)
    known = _known_principals(policy, bindings)
    rows, cures = list[Row](), list[str]()
    for question in questions:
        decision = _decide(index, policy, question)
        rows.append(_row(question, decision))
        cures += [*_cure(question, decision), *_host_note(question, bindings)]
        cures += near_principal(question.principal, known, is_allowed=decision.is_allowed)
    return AccessExplanation(rows, [*notes, *dict.fromkeys(cures)])


def policy_of(settings: AuthorizerSettings) -> AclPolicy:
    """The policy of an authorizer with these settings."""
    users = (user.strip() for user in (settings.get(SUPER_USERS) or "").split(";"))
    is_open = (settings.get(ALLOW_EVERYONE) or "").strip().lower() == "true"
    return AclPolicy(frozenset(user for user in users if user), is_open)


def _known_principals(policy: AclPolicy, bindings: Iterable[AclBinding]) -> dict[str, str]:
    """The principals that rules or settings name, each with the place that names it."""
    named = {binding.principal: "an ACL" for binding in bindings if binding.principal != WILDCARD_PRINCIPAL}
    return named | dict.fromkeys(sorted(policy.super_users), SUPER_USERS)


def _decide(index: AclIndex, policy: AclPolicy, question: AccessQuestion) -> AclDecision:
    resource = question.resource
    hosts = index.hosts_of(question.host)
    return decide(index, policy, question.principal, hosts, question.operation, resource.resource_type, resource.name)


def _row(question: AccessQuestion, decision: AclDecision) -> Row:
    binding = decision.binding
    implied = binding is not None and binding.operation not in (question.operation, AclOperation.ALL)
    return {
        "principal": question.principal,
        "operation": question.operation.name,
        "resource_type": question.resource.resource_type.name,
        "resource_name": question.resource.name,
        "host": question.host or None,
        "allowed": decision.is_allowed,
        "reason": decision.reason.value,
        "implied_by": binding.operation.name if binding is not None and implied else None,
        "acl": None if binding is None else dict(row_of(binding)),
    }


def sentences(rows: Sequence[Row]) -> list[str]:
    """One line for each decision."""
    return [sentence(row) for row in rows]


def sentence(row: Row) -> str:
    """The decision, the rule, and what the rule implies, as a line."""
    verb = "may" if row["allowed"] else "may not"
    place = f" from {row['host']}" if row["host"] else ""
    acl = row["acl"]
    implied = f"; {row['implied_by']} implies {row['operation']}" if row["implied_by"] else ""
    rule = "" if acl is None else f": {_acl_text(acl)}{implied}"
    resource = f"{row['resource_type']} {row['resource_name']}"
    return f"{row['principal']}{place} {verb} {row['operation']} {resource}: {row['reason']}{rule}"


def _acl_text(acl: Mapping[str, str]) -> str:
    pattern = f"{acl['resource_type']}:{acl['pattern_type']}:{acl['resource_name']}"
    return f"{acl['permission']} {acl['operation']} on {pattern} to {acl['principal']} from {acl['host']}"


def _cure(question: AccessQuestion, decision: AclDecision) -> Iterable[str]:
    """The command that would allow the operation."""
    if decision.is_allowed:
        return []
    binding = decision.binding
    if decision.reason is DecisionReason.DENYING_ACL and binding is not None:
        [line] = command_lines([binding])
        return [f"this rule denies it; no other rule helps while the rule is there: it was added by `{line}`"]
    wanted = AclBinding(*question.resource, question.principal, WILDCARD, question.operation, AclPermission.ALLOW)
    return [f"`{command_lines([wanted])[0]}` allows it"]


def _host_note(question: AccessQuestion, bindings: Iterable[AclBinding]) -> list[str]:
    """A note if rules for single hosts may decide otherwise."""
    if question.host:
        return []
    hosts = {
        binding.host
        for binding in bindings
        if binding.host != WILDCARD and binding.principal in (question.principal, WILDCARD_PRINCIPAL)
    }
    return [f"rules for the hosts {', '.join(sorted(hosts)[:5])} exist; ask with --host"] if hosts else []


# ------------------------------------------------------------------------------------------------------------- settings


def authorizer_settings(cluster: Cluster) -> tuple[AuthorizerSettings, list[str]]:
    """The settings of the first broker that shows them, and notes. Raises ClientError."""

    def ask(client: Client, nodes: Sequence[int]) -> list[tuple[int, dict[str, str | None] | Failure]]:
        return [(node, _settings_of(client, node)) for node in nodes]

    found, failed = cluster.ask_all_brokers(ask)
    notes = [f"broker {node} does not show its settings: {failure.text}" for node, failure in failed.items()]
    if not found:
        return {}, notes
    node, settings = min(found.items())
    others = [f"broker {other}" for other, values in found.items() if values != settings]
    if others:
        notes.append(
            f"{', '.join(others)} has other settings of the authorizer than broker {node}, which is shown here"
        )
    if settings.get(SUPER_USERS, "") is None:
        notes.append("the broker hides super.users: a super user may do everything, whatever is said here")
    if settings.get(MODE) == "observe":
        notes.append("headgate.authorizer.mode=observe: nothing is refused yet; this is what enforcing would do")
    return settings, notes


def _settings_of(client: Client, node: int) -> dict[str, str | None] | Failure:
    resource = DescribeConfigsResource(_BROKER_RESOURCE, str(node), [*_SETTINGS])
    [result] = client.ask(DescribeConfigsRequest(resources=[resource])).results
    if result.error_code:
        return failure_of(result)
    return {config.name: None if config.is_sensitive else config.value or "" for config in result.configs}
