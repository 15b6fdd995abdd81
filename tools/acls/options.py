"""Options that name principals, operations and resources; the rules and the filters that they mean."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence

from headgate.protocol.acls import (
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
from headgate.protocol.security.acls import hosts
from headgate.tools.acls import roles
from headgate.tools.acls.roles import Permission, Resources
from headgate.tools.acls.rows import constant
from headgate.tools.output import UsageError

_ROLES = ("producer", "consumer", "spark")

POSSIBLE: dict[AclResource, frozenset[AclOperation]] = {
    AclResource.TOPIC: frozenset(
        {
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.CREATE,
            AclOperation.DESCRIBE,
            AclOperation.DELETE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        }
    ),
    AclResource.GROUP: frozenset(
        {
            AclOperation.READ,
            AclOperation.DESCRIBE,
            AclOperation.DELETE,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        }
    ),
    AclResource.CLUSTER: frozenset(
        {
            AclOperation.CREATE,
            AclOperation.CLUSTER_ACTION,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
            AclOperation.IDEMPOTENT_WRITE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE,
        }
    ),
    AclResource.TRANSACTIONAL_ID: frozenset({AclOperation.DESCRIBE, AclOperation.WRITE, AclOperation.TWO_PHASE_COMMIT}),
    AclResource.DELEGATION_TOKEN: frozenset({AclOperation.DESCRIBE}),
    AclResource.USER: frozenset({AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS}),
}
"""The operations that exist on a resource, beside ALL. Source: AclEntry.supportedOperations of Apache Kafka 4.1."""


def operation(text: str) -> AclOperation:
    """`type=` of `--operation`."""
    try:
        return constant(AclOperation, text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def principal(text: str) -> str:
    """`type=` of `--principal`: a type and a name."""
    kind, colon, name = text.partition(":")
    if not kind or not colon or not name:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no principal; write its type and name, as in User:alice, or {WILDCARD_PRINCIPAL} for all"
        )
    return text


def host(text: str) -> str:
    """`type=` of `--host`: `*`, an address or a network."""
    problem = hosts.problem(text)
    if problem or not text:
        raise argparse.ArgumentTypeError(problem or "a host is an address, a network as 10.0.0.0/8, or *")
    return text


def add_resource_options(command: argparse.ArgumentParser, *, patterns: Sequence[str], default: str) -> None:
    """Add an option for each type of resource, and `--resource-pattern-type`."""
    for name, text in (
        ("topic", "a topic"),
        ("group", "a group"),
        ("transactional-id", "a transactional id"),
        ("delegation-token", "the id of a delegation token"),
        ("user-principal", "a user, as in User:alice, whose tokens others make"),
    ):
        command.add_argument(f"--{name}", action="append", default=[], metavar="name", help=f"{text}; may be repeated")
    command.add_argument("--cluster", action="store_true", help="the cluster")
    command.add_argument(
        "--resource-pattern-type", choices=patterns, default=default, help=f"of the names; default: {default}"
    )


def resources_of(options: argparse.Namespace) -> Resources:
    """The resources that the options name."""
    return Resources(
        options.topic,
        options.group,
        options.transactional_id,
        options.delegation_token,
        options.user_principal,
        options.cluster,
        PatternType[options.resource_pattern_type.upper()],
    )


# ---------------------------------------------------------------------------------------------------------------- rules


def add_rule_options(command: argparse.ArgumentParser) -> None:
    """Add the options of new rules."""
    command.add_argument("--principal", action="append", default=[], type=principal, metavar="User:name")
    command.add_argument("--host", action="append", default=[], type=host, metavar="address", help="default: *")
    command.add_argument(
        "--operation",
        action="append",
        default=[],
        type=operation,
        metavar="name",
        help="read, write, create, delete, alter, describe, all, ...; may be repeated; default: all",
    )
    command.add_argument("--deny", action="store_true", help="deny, which wins over every rule that allows")
    add_resource_options(command, patterns=("literal", "prefixed"), default="literal")
    command.add_argument("--producer", action="store_true", help="what a producer to --topic needs")
    command.add_argument("--idempotent", action="store_true", help="with --producer: IdempotentWrite on the cluster")
    command.add_argument("--consumer", action="store_true", help="what a consumer of --topic in --group needs")
    command.add_argument("--spark", action="store_true", help="what Spark needs to read --topic")
    command.add_argument("--file", metavar="file", help="JSON lines of `list --json` or `suggest --json`; - for stdin")


def rules_of(options: argparse.Namespace) -> list[AclBinding]:
    """The rules that the options describe, without those of `--file`. Raises UsageError."""
    resources = resources_of(options)
    permissions = [*_of_roles(options, resources)] if _roles(options) else [*_of_operations(options, resources)]
    if not permissions and options.file:
        return []
    if not options.principal:
        raise UsageError("name whom the rule is for: --principal User:alice; User:* means everybody")
    permission = AclPermission.DENY if options.deny else AclPermission.ALLOW
    return [
        AclBinding(*pattern, name, address, wanted, permission)
        for name in options.principal
        for address in options.host or [WILDCARD]
        for pattern, wanted in dict.fromkeys(permissions)
    ]


def _roles(options: argparse.Namespace) -> list[str]:
    return [name for name in _ROLES if getattr(options, name)]


def _of_roles(options: argparse.Namespace, resources: Resources) -> Iterator[Permission]:
    """Raises UsageError."""
    named = " and ".join(f"--{name}" for name in _roles(options))
    if options.operation or options.deny:
        raise UsageError(f"{named} names the operations, and allows them: leave --operation and --deny out")
    if not resources.topics:
        raise UsageError(f"{named} needs --topic")
    if options.consumer and not resources.groups:
        raise UsageError("--consumer needs --group")
    if resources.is_cluster or resources.delegation_tokens or resources.users:
        raise UsageError(f"{named} takes --topic, --group and --transactional-id; add other rules on their own")
    if options.producer:
        yield from roles.producer(resources, is_idempotent=options.idempotent)
    if options.consumer:
        yield from roles.consumer(resources)
    if options.spark:
        yield from roles.spark(resources)


def _of_operations(options: argparse.Namespace, resources: Resources) -> Iterator[Permission]:
    """Raises UsageError."""
    if options.idempotent:
        raise UsageError("--idempotent goes with --producer; on its own write --operation IdempotentWrite --cluster")
    patterns = resources.patterns()
    if not patterns and not options.file:
        raise UsageError("name a resource: --topic, --group, --cluster, --transactional-id, ...")
    for pattern in patterns:
        for wanted in options.operation or [AclOperation.ALL]:
            check_possible(pattern.resource_type, wanted)
            yield pattern, wanted


def check_possible(resource: AclResource, wanted: AclOperation) -> None:
    """Raises UsageError for an operation that does not exist on a type of resource."""
    possible = POSSIBLE.get(resource, frozenset())
    if wanted is not AclOperation.ALL and wanted not in possible:
        names = ", ".join(one.name for one in sorted(possible))
        raise UsageError(f"no request needs {wanted.name} on a resource of type {resource.name}; there are {names}")


# -------------------------------------------------------------------------------------------------------------- filters


def add_filter_options(command: argparse.ArgumentParser, *, default_pattern: str) -> None:
    """Add the options of a filter over rules."""
    command.add_argument("--principal", action="append", default=[], type=principal, metavar="User:name")
    command.add_argument("--host", metavar="address", help="of rules with exactly this host")
    command.add_argument("--operation", type=operation, metavar="name")
    command.add_argument("--permission", choices=("allow", "deny"))
    add_resource_options(command, patterns=("literal", "prefixed", "match", "any"), default=default_pattern)


def filters_of(options: argparse.Namespace) -> list[AclFilter]:
    """The filters that the options describe: one for each resource and principal."""
    resources = resources_of(options)
    patterns: Iterable[tuple[AclResource, str | None, PatternType]] = [
        _filter_pattern(pattern, resources.pattern_type) for pattern in resources.patterns()
    ] or [(AclResource.ANY, None, _without_name(options.resource_pattern_type))]
    permission = AclPermission.ANY if options.permission is None else AclPermission[options.permission.upper()]
    return [
        AclFilter(*pattern, name, options.host, options.operation or AclOperation.ANY, permission)
        for pattern in patterns
        for name in options.principal or [None]
    ]


def _without_name(pattern_type: str) -> PatternType:
    """Without the name of a resource, `match` and the default mean all patterns."""
    return PatternType.PREFIXED if pattern_type == "prefixed" else PatternType.ANY


def _filter_pattern(pattern: ResourcePattern, pattern_type: PatternType) -> tuple[AclResource, str, PatternType]:
    is_cluster = pattern.resource_type is AclResource.CLUSTER
    name = CLUSTER_NAME if is_cluster else pattern.name
    return pattern.resource_type, name, PatternType.ANY if is_cluster else pattern_type
