"""The nodes above the configs of a user's clients: created before them, and deleted once all are empty, as by Kafka.

    /config/users/<user>                        without data, or the user's own configs
    /config/users/<user>/clients                without data
    /config/users/<user>/clients/<client-id>

Source: `AdminZkClient.tryCleanQuotaNodes`, `KafkaZkClient.setOrCreateEntityConfigs` of Apache Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from headgate.gateway.runtime.tasks import Task
from headgate.gateway.zookeeper.layout.configs import CLIENTS, CONFIG_PATH, USERS, ConfigEntity, EntityConfigs
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.metadata.cluster_nodes import ClusterNodes
from headgate.gateway.zookeeper.requests import Failed, delete, ensure, get
from headgate.gateway.zookeeper.session import Delete, Operation, Session, SetData

_USERS = f"{CONFIG_PATH}/{USERS}/"


def ensure_user(session: Session, path: str) -> Task[None]:
    """Create the nodes above the configs of a user's client. Does nothing for other paths. Raises Failed."""
    if path.startswith(_USERS) and f"/{CLIENTS}/" in path.removeprefix(_USERS):
        yield from ensure(session, path.rpartition("/")[0])


def delete_empty_users(session: Session, nodes: ClusterNodes, written: Iterable[Operation]) -> Task[None]:
    """Delete the nodes of users that a written change has left empty. A node that others have filled again stays."""
    users = dict.fromkeys(
        operation.path.removeprefix(_USERS).partition("/")[0]
        for operation in written
        if operation.path.startswith(_USERS) and isinstance(operation, Delete | SetData)
    )
    for name in users:
        with suppress(Failed, InvalidNode):  # it is not empty, or the next change will find out
            yield from _delete_empty(session, nodes, ConfigEntity.of(f"{USERS}/{name}"))


def _delete_empty(session: Session, nodes: ClusterNodes, user: ConfigEntity) -> Task[None]:
    if nodes.has_clients(user):
        return
    path = EntityConfigs.path(user)
    yield from delete(session, f"{path}/{CLIENTS}")
    found = yield from get(session, path)
    if found is not None and not EntityConfigs.decode(user, found.data).configs:
        yield from delete(session, path, found.stat.version)
        nodes.apply((Delete(path),), (None,))
