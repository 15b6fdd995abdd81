"""Quotas in the configs of users, clients and addresses, as Kafka 3.9 writes them in ZooKeeper mode.

A node of a user may have other configs beside quotas, such as passwords (SCRAM): they are left as they are.

Source: `ZkAdminManager.alterClientQuotas`, `AdminZkClient`, `DynamicConfig` of Apache Kafka 3.9.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Final

from headgate.gateway.zookeeper.layout.configs import CLIENTS, IPS, USERS, ConfigEntity
from headgate.protocol.security.quotas import (
    CLIENT_ID,
    CLIENT_KEYS,
    CONNECTION_CREATION_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    REQUEST_PERCENTAGE,
    USER,
    QuotaEntity,
)

QUOTA_TYPES: Final = (USERS, CLIENTS, IPS)
"""The entity types whose configs have quotas."""
_FRACTIONS: Final = (REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
"""The quotas that are written as a double; the others are whole numbers."""
_MAX_INT64: Final = 0x7FFF_FFFF_FFFF_FFFF
_TYPES: Final = {USERS: USER, CLIENTS: CLIENT_ID, IPS: IP}


def quota_entity(entity: ConfigEntity) -> QuotaEntity:
    """The owner of the quotas in an entity's configs; the entity type must be one of QUOTA_TYPES."""
    names = {_TYPES[entity.entity_type]: entity.name}
    if entity.has_client:
        names[CLIENT_ID] = entity.client_id
    return QuotaEntity.of(names)


def config_entity(entity: QuotaEntity) -> ConfigEntity:
    """The entity whose configs have the quotas of an owner. Raises ValueError for an owner that Kafka does not have."""
    names = entity.by_type
    if names.keys() == {USER, CLIENT_ID}:
        return ConfigEntity(USERS, names[USER], has_client=True, client_id=names[CLIENT_ID])
    for entity_type, kind in _TYPES.items():
        if names.keys() == {kind}:
            return ConfigEntity(entity_type, names[kind])
    raise ValueError(f"{entity.title} has no node in ZooKeeper")


def quotas_in(entity: ConfigEntity, configs: Mapping[str, str]) -> dict[str, float]:
    """The valid quotas in the configs of an entity."""
    found = {key: _parse(configs[key]) for key in _keys(entity) if key in configs}
    return {key: value for key, value in found.items() if value is not None}


def invalid_quotas(entity: ConfigEntity, configs: Mapping[str, str]) -> Iterator[str]:
    """The keys of quotas whose value is no positive number; they have no effect."""
    return (key for key in _keys(entity) if key in configs and _parse(configs[key]) is None)


def with_quotas(configs: Mapping[str, str], old: Mapping[str, float], new: Mapping[str, float]) -> dict[str, str]:
    """The configs of an entity after its quotas went from `old` to `new`; other configs stay."""
    kept = {key: text for key, text in configs.items() if key not in old or key in new}
    return kept | {key: format_quota(key, value) for key, value in new.items() if old.get(key) != value}


def format_quota(key: str, value: float) -> str:
    """A quota as text: a whole number, or a double as Java writes it."""
    if key not in _FRACTIONS:
        return str(min(math.floor(value + 1e-6), _MAX_INT64))
    if 1e-3 <= value < 1e7:
        return repr(float(value))
    _, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)  # the value is finite
    first, *rest = map(str, digits)
    return f"{first}.{''.join(rest) or '0'}E{exponent + len(rest)}"


def _keys(entity: ConfigEntity) -> tuple[str, ...]:
    return (CONNECTION_CREATION_RATE,) if entity.entity_type == IPS else CLIENT_KEYS


def _parse(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < math.inf else None
