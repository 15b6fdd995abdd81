"""Quotas of users, client ids, both and addresses, on any broker since Kafka 2.6: the broker checks the preview too.

A note of each quota says which clients share it, and which quota bounded them before, or bounds them then.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Final

from headgate.protocol.security.quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    IP,
    USER,
    AppliedQuota,
    QuotaEntity,
    find_connection_rate,
    find_quota,
)
from headgate.tools.client.cluster import Cluster, shorten_list
from headgate.tools.console.changes.plan import ChangeLine, ChangePlan, ChangeResult
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.quotas import (
    EntityQuotas,
    alter_quotas,
    check_keys,
    describe_quotas,
    entity_title,
    parse_bound,
    quotas_of,
    short_number,
)

_OWNERS: Final = ((CLIENT_ID, "client_id"), (IP, "ip"), (USER, "user"))
_OPTIONS: Final = {CLIENT_ID: "--client-id", IP: "--ip", USER: "--user"}
_UNNAMED: Final = "\0"
"""Stands for a user, a client id or an address that no quota names."""


def set_quotas(cluster: Cluster, parameters: Parameters) -> ChangePlan:
    """Set quotas of one owner.

    Parameters: `user` or `user_default=true`, `client_id` or `client_id_default=true`, `ip` or `ip_default=true`, and
    a number for each name of a quota; an empty one is left as it is, or with `replaces=true` removed. Raises
    BadParameter, UsageError, ClientError.
    """
    entity = _entity(parameters)
    quotas = describe_quotas(cluster)
    before = quotas.get(entity, {})
    wanted = _bounds(entity, parameters)
    changes: dict[str, float | None] = {key: value for key, value in wanted.items() if before.get(key) != value}
    if parameters.flag("replaces"):
        changes |= {key: None for key in before if key not in wanted and key in quotas_of(entity)}
    return _plan(cluster, quotas, entity, changes, f"Set quotas of {entity_title(entity)}")


def delete_quotas(cluster: Cluster, parameters: Parameters) -> ChangePlan:
    """Delete quotas of one owner. Parameters: the owner as of `set_quotas`, `quota` (several; default: all).

    Raises BadParameter, UsageError, ClientError.
    """
    entity = _entity(parameters)
    quotas = describe_quotas(cluster)
    before = quotas.get(entity, {})
    keys = parameters.texts("quota") or sorted(before)
    missing = [f"{entity_title(entity)} has no quota {key}" for key in keys if key not in before]
    if not before:
        missing = [f"{entity_title(entity)} has no quota"]
    changes: dict[str, float | None] = {key: None for key in keys if key in before}
    title = f"Delete {', '.join(changes) or 'quotas'} of {entity_title(entity)}"
    return _plan(cluster, quotas, entity, changes, title, missing)


def _plan(
    cluster: Cluster,
    quotas: EntityQuotas,
    entity: QuotaEntity,
    changes: Mapping[str, float | None],
    summary: str,
    problems: list[str] | None = None,
) -> ChangePlan:
    """Raises UsageError, ClientError."""
    check_keys(entity, (key for key, value in changes.items() if value is not None))
    if changes:
        alter_quotas(cluster, entity, changes, is_dry_run=True)
    before = quotas.get(entity, {})
    after = _changed(quotas, entity, changes)
    lines = [
        ChangeLine(key, _text(before.get(key)), _text(value), _note(quotas, after, entity, key))
        for key, value in changes.items()
    ]
    return ChangePlan(
        summary,
        lines,
        lambda cluster: _alter(cluster, entity, changes),
        problems=problems or ([] if changes else ["nothing changes: write another number"]),
        warnings=[*_hidden(after, entity, changes)],
        command="\n".join(_commands(entity, changes)),
    )


def _alter(cluster: Cluster, entity: QuotaEntity, changes: Mapping[str, float | None]) -> ChangeResult:
    alter_quotas(cluster, entity, changes)
    title = entity_title(entity)
    return ChangeResult(
        [
            f"{key} of {title} is {'removed' if value is None else f'{short_number(value)}'}"
            for key, value in changes.items()
        ]
    )


def _changed(quotas: EntityQuotas, entity: QuotaEntity, changes: Mapping[str, float | None]) -> EntityQuotas:
    values = {**quotas.get(entity, {}), **changes}
    return {**quotas, entity: {key: value for key, value in values.items() if value is not None}}


# ----------------------------------------------------------------------------------------------------------- parameters


def _entity(parameters: Parameters) -> QuotaEntity:
    """Raises BadParameter."""
    names: dict[str, str | None] = {}
    for kind, parameter in _OWNERS:
        name = parameters.text(parameter, "").strip()
        is_default = parameters.flag(f"{parameter}_default")
        if name and is_default:
            raise BadParameter(f"{parameter}: name one, or choose the default of all; not both")
        if name or is_default:
            names[kind] = name or None
    if not names:
        raise BadParameter("name the owner of the quotas: a user, a client id, both, or an address")
    if IP in names and len(names) > 1:
        raise BadParameter("an address has its quotas alone: leave the user and the client id out")
    return QuotaEntity.of(names)


def _bounds(entity: QuotaEntity, parameters: Parameters) -> dict[str, float]:
    """Raises BadParameter."""
    bounds = {}
    for key in quotas_of(entity):
        text = parameters.text(key, "").strip()
        if text:
            bound = parse_bound(text)
            if bound is None:
                raise BadParameter(f"{key}={text[:40]} is no number")
            bounds[key] = bound
    return bounds


# ---------------------------------------------------------------------------------------------------------------- texts


def _text(value: float | None) -> str | None:
    return None if value is None else str(short_number(value))


def _commands(entity: QuotaEntity, changes: Mapping[str, float | None]) -> Iterator[str]:
    """The commands that set and that remove."""
    owner = [
        word
        for kind, name in entity.names
        for word in ([f"{_OPTIONS[kind]}-default"] if name is None else [_OPTIONS[kind], name])
    ]
    values = [f"{key}={short_number(value)}" for key, value in changes.items() if value is not None]
    removed = [key for key, value in changes.items() if value is None]
    for verb, words in (("set", values), ("remove", removed)):
        if words:
            yield shlex.join(["headgate", "quotas", verb, *owner, *words])


def _applied(quotas: EntityQuotas, entity: QuotaEntity, key: str) -> AppliedQuota | None:
    """The quota of a client that the entity names, and that no other one names."""
    names = {kind: name or _UNNAMED for kind, name in entity.names}
    if key == CONNECTION_CREATION_RATE:
        return find_connection_rate(quotas, names.get(IP, _UNNAMED))
    return find_quota(quotas, key, names.get(USER, _UNNAMED), names.get(CLIENT_ID, _UNNAMED))


def _note(before: EntityQuotas, after: EntityQuotas, entity: QuotaEntity, key: str) -> str:
    old, new = _applied(before, entity, key), _applied(after, entity, key)
    if new is None:
        return "these clients are not limited then"
    if new.entity != entity:
        return f"{_of(new)} bounds these clients then"
    parts = [_shared(entity)]
    exceptions = [*_exceptions(after, entity, key)]
    if exceptions:
        parts.append(f"{shorten_list(exceptions)} has its own")
    if old is None:
        parts.append("so far not limited")
    elif old.entity != entity:
        parts.append(f"so far bounded by {_of(old)}")
    return "; ".join(parts)


def _of(quota: AppliedQuota) -> str:
    return f"{short_number(quota.bound)} of {entity_title(quota.entity)}"


def _shared(entity: QuotaEntity) -> str:
    """The clients that share one allowance of the entity's quota, at each broker."""
    kinds = {kind for kind, _ in entity.names}
    if IP in kinds:
        return "each address for itself" if entity.by_type[IP] is None else "for this address"
    if kinds == {USER}:
        return "shared by all clients of the user" if entity.by_type[USER] else "each user for itself"
    if kinds == {CLIENT_ID}:
        return "shared by all clients with the id" if entity.by_type[CLIENT_ID] else "each client id for itself"
    return "each user with each client id for itself" if None in entity.by_type.values() else "shared by these clients"


def _exceptions(quotas: EntityQuotas, entity: QuotaEntity, key: str) -> Iterator[str]:
    """The other entities whose quota comes first for some of the entity's clients."""
    for other, values in sorted(quotas.items(), key=lambda item: entity_title(item[0])):
        merged = _merged(entity, other)
        if other != entity and key in values and merged is not None:
            applied = _applied(quotas, merged, key)
            if applied is not None and applied.entity == other:
                yield entity_title(other)


def _merged(entity: QuotaEntity, other: QuotaEntity) -> QuotaEntity | None:
    """The clients that both name; None: there are none, or the entities are of addresses and of clients."""
    mine, others = entity.by_type, other.by_type
    if (IP in mine) != (IP in others):
        return None
    if any(mine[kind] and others[kind] and mine[kind] != others[kind] for kind in mine.keys() & others.keys()):
        return None
    return QuotaEntity.of({kind: mine.get(kind) or others.get(kind) for kind in mine.keys() | others.keys()})


def _hidden(after: EntityQuotas, entity: QuotaEntity, changes: Mapping[str, float | None]) -> Iterator[str]:
    """A sentence for each quota that bounds no client beside those that other entities name."""
    for key, value in changes.items():
        applied = _applied(after, entity, key)
        if value is not None and applied is not None and applied.entity != entity:
            yield f"{key} has no effect: {_of(applied)} comes first for these clients"
