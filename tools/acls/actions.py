"""One function for each command of `headgate acls` that reads or changes rules."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from headgate.protocol.acls import AclBinding, AclFilter, AclOperation, AclPermission, AclResource, PatternType
from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from headgate.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from headgate.protocol.messages.describe_acls import DescribeAclsRequest
from headgate.protocol.schema import Message
from headgate.tools.acls.options import check_possible, filters_of, rules_of
from headgate.tools.acls.rows import read_file, row_of, sort_key
from headgate.tools.client.client import Client, ClientError
from headgate.tools.client.cluster import Cluster, sole_answer
from headgate.tools.output import CommandResult, UsageError

T = TypeVar("T")

ALL_RULES = AclFilter(AclResource.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, AclPermission.ANY)
_WITH_PATTERNS, _NEWEST = 1, 3
RULES_AT_ONCE = 1000
"""Of one request: a broker checks, stores or removes the rules of a request as one change."""

MESSAGES: dict[int, str] = {
    ErrorCode.SECURITY_DISABLED: "the broker has no authorizer that keeps ACLs: set authorizer.class.name there, see"
    " docs/security.md",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "this principal may not do this: log in as one of super.users, or be"
    " allowed to Describe (to read) or Alter (to change) the cluster",
}


def failure_of(row: Any) -> Failure:
    """The failure of a response or a row with `error_code` and `error_message`."""
    return Failure.of(row.error_code, MESSAGES.get(row.error_code, row.error_message))


def run_list(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """The rules that the filters mean."""
    found = {binding for wanted in filters_of(options) for binding in describe(cluster, wanted)}
    return CommandResult([row_of(binding) for binding in sorted(found, key=sort_key)])


def run_add(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """Add rules; those that are there already stay."""
    wanted = dict.fromkeys([*rules_of(options), *_of_file(options.file)])
    known = set(describe(cluster, ALL_RULES))
    new = [binding for binding in wanted if binding not in known]
    failures = {} if options.dry_run else create(cluster, new)
    done = "would_be_added" if options.dry_run else "added"
    rows = [{**row_of(binding), done: binding not in known} for binding in wanted if binding not in failures]
    sentences = [f"{binding} was not added: {why}" for binding, why in failures.items()]
    return CommandResult(rows, sentences)


def _of_file(path: str | None) -> list[AclBinding]:
    """Raises UsageError."""
    bindings = [] if path is None else read_file(path)
    for binding in bindings:
        check_possible(binding.resource_type, binding.operation)
    return bindings


def run_remove(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """Remove the rules that the filters mean, or those of a file."""
    listed = None if options.file is None else dict.fromkeys(read_file(options.file))
    filters = filters_of(options) if listed is None else [AclFilter(*binding) for binding in listed]
    if listed is None and ALL_RULES in filters and not options.all:
        raise UsageError("name the rules: by --topic, --principal, ...; --all removes every rule of the cluster")
    if options.dry_run:
        if listed is None:
            found = {binding for wanted in filters for binding in describe(cluster, wanted)}
        else:  # one question, not one for each rule
            found = {binding for binding in describe(cluster, ALL_RULES) if binding in listed}
        return CommandResult([{**row_of(binding), "would_be_removed": True} for binding in sorted(found, key=sort_key)])
    removed, failures = delete(cluster, filters)
    return CommandResult([{**row_of(each), "removed": True} for each in sorted(removed, key=sort_key)], failures)


# ---------------------------------------------------------------------------------------------------------------- wire


def describe(cluster: Cluster, wanted: AclFilter) -> list[AclBinding]:
    """The rules that a filter means. Raises ClientError."""

    def ask(client: Client) -> list[AclBinding] | Failure:
        response = _ask(client, DescribeAclsRequest(*wanted))
        if response.error_code:
            return failure_of(response)
        return [_binding_of(resource, acl) for resource in response.resources for acl in resource.acls]

    return sole_answer(cluster.ask_any("ACLs", ask))


def create(cluster: Cluster, bindings: Sequence[AclBinding]) -> dict[AclBinding, str]:
    """Add rules. Returns the reasons of those that were refused. Raises ClientError, unless rules are added already."""
    failures: dict[AclBinding, str] = {}
    for number, part in enumerate(_parts(bindings)):

        def ask(client: Client, part: Sequence[AclBinding] = part) -> dict[AclBinding, str] | Failure:
            request = CreateAclsRequest(creations=[AclCreation(*binding) for binding in part])
            results = _ask(client, request).results
            return {
                binding: failure_of(result).text
                for binding, result in zip(part, results, strict=True)
                if result.error_code
            }

        try:
            failures.update(sole_answer(cluster.ask_any("new ACLs", ask)))
        except ClientError as error:
            if number == 0:
                raise
            failures.update(dict.fromkeys(bindings[number * RULES_AT_ONCE :], str(error)))
            break
    return failures


def delete(cluster: Cluster, filters: Sequence[AclFilter]) -> tuple[set[AclBinding], list[str]]:
    """Remove what the filters mean. Returns the removed rules, and sentences about the others.

    Raises ClientError, unless rules are removed already.
    """
    removed, failures = set[AclBinding](), list[str]()
    for part in _parts(filters):

        def ask(client: Client, part: Sequence[AclFilter] = part) -> Any:
            return _ask(client, DeleteAclsRequest(filters=[DeleteAclsFilter(*wanted) for wanted in part]))

        try:
            response = sole_answer(cluster.ask_any("the removal of ACLs", ask))
        except ClientError as error:
            if not removed:
                raise
            failures.append(f"the other rules were not removed: {error}")
            break
        for result in response.filter_results:
            failures += _sort_result(result, removed)
    return removed, [*dict.fromkeys(failures)]


def _sort_result(result: Any, removed: set[AclBinding]) -> Iterator[str]:
    """Add the removed rules of a filter. Yields a sentence for each other rule, or for the filter."""
    if result.error_code:
        yield f"a filter removed nothing: {failure_of(result).text}"
    for acl in result.matching_acls:
        binding = _binding_of(acl, acl)
        if acl.error_code:
            yield f"{binding} was not removed: {failure_of(acl).text}"
        else:
            removed.add(binding)


def _binding_of(pattern: Any, acl: Any) -> AclBinding:
    """The rule of a row with a pattern, and of a row with the principal and the operation; they may be one row."""
    return AclBinding(
        AclResource(pattern.resource_type),
        pattern.resource_name,
        PatternType(pattern.pattern_type),
        acl.principal,
        acl.host,
        AclOperation(acl.operation),
        AclPermission(acl.permission_type),
    )


def _ask(client: Client, request: Message) -> Any:
    """The answer, in a version that knows patterns of resource names (KIP-290). Raises ClientError."""
    return client.ask(request, client.version(type(request), _NEWEST, _WITH_PATTERNS))


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[at : at + RULES_AT_ONCE] for at in range(0, len(items), RULES_AT_ONCE))
