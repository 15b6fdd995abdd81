"""The owners of quotas: users, client ids, both, addresses, and their defaults; and the order in which they apply.

A quota applies to a client at the first of these levels that has one, and clients with the same bucket share it:

    /config/users/<user>/clients/<client-id>            bucket: user and client id
    /config/users/<user>/clients/<default>              user and client id
    /config/users/<user>                                user
    /config/users/<default>/clients/<client-id>         user and client id
    /config/users/<default>/clients/<default>           user and client id
    /config/users/<default>                             user
    /config/clients/<client-id>                         client id
    /config/clients/<default>                           client id

A client without a client id has the quotas of users alone.

Source: KIP-13, KIP-55; `DefaultQuotaCallback` in `kafka.server.ClientQuotaManager` of Apache Kafka 4.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self

USER, CLIENT_ID, IP = "user", "client-id", "ip"

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

CLIENT_KEYS = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
"""The quotas of users and client ids. An address has only CONNECTION_CREATION_RATE."""


class QuotaEntity(NamedTuple):
    """The owner of quotas: names by entity type, sorted by type. The name None is the default of its type."""

    names: tuple[tuple[str, str | None], ...]

    @classmethod
    def of(cls, names: Mapping[str, str | None] | Iterable[tuple[str, str | None]]) -> Self:
        """The entity with these names; the last of several names of one type counts."""
        return cls(tuple(sorted(dict(names).items())))

    @property
    def by_type(self) -> dict[str, str | None]:
        """The names by entity type."""
        return dict(self.names)

    @property
    def title(self) -> str:
        """The entity in a sentence."""
        return " of ".join(f"{kind} {'(default)' if name is None else repr(name)}" for kind, name in self.names)

    def __str__(self) -> str:
        """As Kafka's `ClientQuotaEntity` shows itself."""
        entries = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in self.names)
        return f"ClientQuotaEntity(entries={{{entries}}})"


Quotas = Mapping[QuotaEntity, Mapping[str, float]]
"""The quotas of each entity, by key. No entity is empty."""


class QuotaBucket(NamedTuple):
    """The clients that share one allowance; an empty part stands for any user, or any client id."""

    user: str
    client_id: str


class AppliedQuota(NamedTuple):
    """The quota that applies to a client: its entity, its bound, and the bucket of the client."""

    entity: QuotaEntity
    bound: float
    bucket: QuotaBucket


def find_quota(quotas: Quotas, key: str, user: str, client_id: str) -> AppliedQuota | None:
    """The quota `key` that applies to a client; None if there is none, and the client is not limited."""
    for entity, bucket in _levels(user, client_id):
        bound = quotas.get(entity, _NONE).get(key)
        if bound is not None:
            return AppliedQuota(entity, bound, bucket)
    return None


_NONE: Mapping[str, float] = {}


def _levels(user: str, client_id: str) -> list[tuple[QuotaEntity, QuotaBucket]]:
    both, of_user, of_client = QuotaBucket(user, client_id), QuotaBucket(user, ""), QuotaBucket("", client_id)
    levels = []
    if user:
        for name in (user, None):
            if client_id:
                levels += [(_entity(name, client), both) for client in (client_id, None)]
            levels.append((QuotaEntity(((USER, name),)), of_user))
    if client_id:
        levels += [(QuotaEntity(((CLIENT_ID, client),)), of_client) for client in (client_id, None)]
    return levels


def _entity(user: str | None, client_id: str | None) -> QuotaEntity:
    return QuotaEntity(((CLIENT_ID, client_id), (USER, user)))


def find_connection_rate(quotas: Quotas, address: str) -> AppliedQuota | None:
    """The connections per second that an address may create; None: as many as it likes."""
    if not quotas:
        return None
    for name in (address, None):
        entity = QuotaEntity(((IP, name),))
        bound = quotas.get(entity, _NONE).get(CONNECTION_CREATION_RATE)
        if bound is not None:
            return AppliedQuota(entity, bound, QuotaBucket("", address))
    return None
