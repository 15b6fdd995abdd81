"""`headgate quotas`: quotas of users, client ids and addresses, of Headgate or of any Kafka broker since 2.6.

Output: a table on a terminal, JSON lines otherwise. Exit codes: 0 success; 1 failure; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryData, OpData
from headgate.protocol.messages.describe_client_quotas import (
    DEFAULT,
    EXACT,
    ComponentData,
    DescribeClientQuotasRequest,
    EntityData,
)
from headgate.protocol.security.quotas import (
    CLIENT_ID,
    CLIENT_KEYS,
    CONNECTION_CREATION_RATE,
    IP,
    USER,
    AppliedQuota,
    QuotaEntity,
    find_connection_rate,
    find_quota,
)
from headgate.tools.client.client import Client
from headgate.tools.client.cluster import Cluster, sole_answer
from headgate.tools.output import (
    CommandResult,
    UsageError,
    common_options,
    format_table,
    run_and_print,
    run_in_cluster,
)

DEFAULT_NAME = "<default>"
"""Stands in output for the default of a type; as in Kafka's tools."""

_KEYS = (*CLIENT_KEYS, CONNECTION_CREATION_RATE)

_MESSAGES: dict[int, str] = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "this principal may not do this: log in as one of super.users, or be"
    " allowed to DescribeConfigs (to read) or AlterConfigs (to change) on the cluster",
}


EntityQuotas = dict[QuotaEntity, dict[str, float]]
ALL_ENTITIES = QuotaEntity(())


def main(arguments: Sequence[str]) -> int:
    """Run `headgate quotas <arguments>`; return the exit code."""
    options = _parser().parse_args(arguments)
    return run_and_print("quotas", run_in_cluster, options, format_table)


def _parser() -> argparse.ArgumentParser:
    common = common_options()
    owners = argparse.ArgumentParser(add_help=False)
    for option, example in (("user", "alice"), ("client-id", "billing"), ("ip", "10.0.0.1")):
        group = owners.add_mutually_exclusive_group()
        group.add_argument(f"--{option}", metavar=example)
        group.add_argument(f"--{option}-default", action="store_true", help="each that has none of its own")
    parser = argparse.ArgumentParser(
        prog="headgate quotas", description="Quotas of clients; docs/quotas.md says what they bound."
    )
    commands = parser.add_subparsers(required=True, metavar="list|set|remove")

    def add(
        name: str, summary: str, run: Callable[[Cluster, argparse.Namespace], CommandResult]
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(name, parents=[common, owners], help=summary, description=summary)
        command.set_defaults(run=run)
        return command

    add("list", "all quotas, or those of users, client ids and addresses", run_list)
    changed = add("set", "quotas of a user, a client id, both, or an address", run_set)
    changed.add_argument("quotas", nargs="+", type=_quota, metavar="name=number", help=", ".join(CLIENT_KEYS))
    removed = add("remove", "remove quotas", run_remove)
    removed.add_argument("quotas", nargs="*", metavar="name", help="default: all of this user, client id or address")
    for command in (changed, removed):
        command.add_argument("--dry-run", action="store_true", help="only show what would change")
    return parser


def parse_bound(text: str) -> float | None:
    """The number of a quota; None for a text that is no finite number."""
    try:
        value = float(text) if text.isascii() else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _quota(text: str) -> tuple[str, float]:
    name, equals, number = text.partition("=")
    value = parse_bound(number)
    if not name or not equals or value is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no quota; write a name and a number: producer_byte_rate=1048576")
    return name, value


# ------------------------------------------------------------------------------------------------------------ commands


def run_list(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """The quotas of all entities that have the named parts."""
    return CommandResult(quota_rows(describe_quotas(cluster, _entity(options))))


def quota_rows(quotas: EntityQuotas) -> list[dict[str, Any]]:
    """A row for each entity, with a column for each quota that any of them has; None: not limited by this entity."""
    keys = [key for key in _KEYS if any(key in values for values in quotas.values())]
    other = sorted({key for values in quotas.values() for key in values} - set(keys))
    return [
        {**entity_row(entity), **{key: short_number(values.get(key)) for key in (*keys, *other)}}
        for entity, values in sorted(quotas.items(), key=lambda item: entity_title(item[0]))
    ]


def effective_quotas(
    quotas: EntityQuotas, user: str, client_id: str, address: str = ""
) -> dict[str, AppliedQuota | None]:
    """The quotas that bound a client, by name; None: not limited. `address`: "" for a client at any address. Pure."""
    found = {key: find_quota(quotas, key, user, client_id) for key in CLIENT_KEYS}
    return found | {CONNECTION_CREATION_RATE: find_connection_rate(quotas, address)} if address else found


def entity_row(entity: QuotaEntity) -> dict[str, Any]:
    """The entity as the first columns of a row."""
    shown = {kind: DEFAULT_NAME if name is None else name for kind, name in entity.names}
    return {"user": shown.get(USER), "client_id": shown.get(CLIENT_ID), "ip": shown.get(IP)}


def entity_title(entity: QuotaEntity) -> str:
    """The entity in a sentence."""
    return " of ".join(f"{kind} {DEFAULT_NAME if name is None else repr(name)}" for kind, name in entity.names)


def quotas_of(entity: QuotaEntity) -> tuple[str, ...]:
    """The quotas that exist for the entity."""
    return (CONNECTION_CREATION_RATE,) if any(kind == IP for kind, _ in entity.names) else CLIENT_KEYS


def run_set(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """Set quotas of one entity."""
    return _change(cluster, _named(options), dict(options.quotas), is_dry_run=options.dry_run)


def run_remove(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """Remove quotas of one entity."""
    entity = _named(options)
    known = describe_quotas(cluster, entity, is_strict=True).get(entity, {})
    missing = [key for key in options.quotas if key not in known]
    if missing:
        raise UsageError(f"{entity_title(entity)} has no quota {missing[0]}; `headgate quotas list` shows all")
    if not known:
        raise UsageError(f"{entity_title(entity)} has no quota; `headgate quotas list` shows all")
    return _change(cluster, entity, dict.fromkeys(options.quotas or known), is_dry_run=options.dry_run)


def _change(
    cluster: Cluster, entity: QuotaEntity, changes: Mapping[str, float | None], *, is_dry_run: bool
) -> CommandResult:
    """Set and remove quotas; the broker checks a dry run too. Raises UsageError, ClientError."""
    check_keys(entity, changes)
    before = describe_quotas(cluster, entity, is_strict=True).get(entity, {})
    alter_quotas(cluster, entity, changes, is_dry_run=is_dry_run)
    rows = [
        {**entity_row(entity), "quota": key, "before": short_number(before.get(key)), "after": short_number(value)}
        for key, value in changes.items()
    ]
    notes = ["this was a dry run, nothing is changed; without --dry-run it is"] if is_dry_run else []
    return CommandResult(rows, notes=notes)


def check_keys(entity: QuotaEntity, keys: Iterable[str]) -> None:
    """Raises UsageError for a quota that does not exist for the entity."""
    for key in keys:
        if key not in quotas_of(entity):
            raise UsageError(f"{entity_title(entity)} has no quota {key!r}; there are {', '.join(quotas_of(entity))}")


def short_number(value: float | None) -> float | None:
    """The value without `.0`, which no user has written."""
    return int(value) if value is not None and value.is_integer() and abs(value) < 1e15 else value


# ---------------------------------------------------------------------------------------------------------------- wire


def _entity(options: argparse.Namespace) -> QuotaEntity:
    """The entity of the options; empty without any."""
    names: dict[str, str | None] = {}
    for kind, attribute in ((CLIENT_ID, "client_id"), (IP, "ip"), (USER, "user")):
        name = getattr(options, attribute)
        if name is not None or getattr(options, f"{attribute}_default"):
            names[kind] = name
    return QuotaEntity(tuple(names.items()))


def _named(options: argparse.Namespace) -> QuotaEntity:
    """The one entity whose quotas change. Raises UsageError."""
    entity = _entity(options)
    if not entity.names:
        raise UsageError("name the owner of the quotas: --user, --client-id, both, or --ip")
    if len(entity.names) > 1 and any(kind == IP for kind, _ in entity.names):
        raise UsageError("an address has its quotas alone: leave --user and --client-id out")
    return entity


def describe_quotas(cluster: Cluster, entity: QuotaEntity = ALL_ENTITIES, *, is_strict: bool = False) -> EntityQuotas:
    """The quotas of the entities with these names; `is_strict`: of this entity alone. Raises ClientError."""
    components = [ComponentData(kind, DEFAULT if name is None else EXACT, name) for kind, name in entity.names]

    def ask(client: Client) -> EntityQuotas | Failure:
        response = client.ask(DescribeClientQuotasRequest(components=components, strict=is_strict))
        if response.error_code:
            return _failure(response)
        return {
            QuotaEntity(tuple(sorted((part.entity_type, part.entity_name) for part in entry.entity))): {
                value.key: value.value for value in entry.values
            }
            for entry in response.entries or ()
        }

    return sole_answer(cluster.ask_any("quotas", ask))


def alter_quotas(
    cluster: Cluster, entity: QuotaEntity, changes: Mapping[str, float | None], *, is_dry_run: bool = False
) -> None:
    """Set quotas of one entity, and remove those with None; the broker checks a dry run too. Raises ClientError."""
    ops = [OpData(key, value or 0.0, value is None) for key, value in changes.items()]
    entry = EntryData([EntityData(kind, name) for kind, name in entity.names], ops)

    def ask(client: Client) -> bool | Failure:
        [row] = client.ask(AlterClientQuotasRequest(entries=[entry], validate_only=is_dry_run)).entries
        return _failure(row) if row.error_code else True

    sole_answer(cluster.ask_any(entity_title(entity), ask))


def _failure(row: Any) -> Failure:
    return Failure.of(row.error_code, _MESSAGES.get(row.error_code, row.error_message))
