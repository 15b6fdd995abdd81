"""Joining a cluster: the checks that refuse it, and the node of this process (`layout/owner.py`).

The steps are the same at a start, for a new session, and for an interrupted session: they read the present nodes and
create the missing ones. After `Lost` and `Overtaken` they run again. Nothing is written before all checks have passed.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import NamedTuple

from headgate.gateway.metadata.features import HIGHEST
from headgate.gateway.runtime.tasks import Task
from headgate.gateway.zookeeper.layout.brokers import BROKER_IDS_PATH, BrokerRegistration
from headgate.gateway.zookeeper.layout.cluster import (
    CLUSTER_ID_PATH,
    CONTROLLER_PATH,
    ClusterId,
    Controller,
    OwnFeatures,
)
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.layout.owner import OWNERS_PATH, SessionOwner
from headgate.gateway.zookeeper.membership import refusals
from headgate.gateway.zookeeper.metadata.reading import ensure_paths
from headgate.gateway.zookeeper.requests import Failed, children, ensure, exists, get, multi
from headgate.gateway.zookeeper.session import Create, Delete, KeeperError, NodeData, Operation, Refused, Session
from headgate.gateway.zookeeper.unreadable import UnreadableNodes

logger = logging.getLogger("headgate.zookeeper")


class EarlierSession(Exception):
    """An earlier session of this broker is alive, perhaps with its process. The broker has to wait for its end."""

    def __init__(self, node_id: int, session_id: int, owner: SessionOwner) -> None:
        super().__init__(node_id, session_id)
        self.node_id = node_id
        self.session_id = session_id
        self.owner = owner


class Overtaken(Exception):
    """Another client wrote at the same time: begin again."""


@dataclass(frozen=True, slots=True)
class JoiningBroker:
    """The identity of a broker that joins a cluster. `connect` is for messages."""

    connect: str
    node_id: int
    owner: SessionOwner
    cluster_id: str | None = None
    """The cluster of a running broker; None at a start."""
    unreadable: UnreadableNodes = field(default_factory=UnreadableNodes)


class _ClusterState(NamedTuple):
    """The nodes that the checks before a join need."""

    owner: NodeData | None
    controller: NodeData | None
    registration: NodeData | None


def join(session: Session, member: JoiningBroker) -> Task[None]:
    """Check the cluster, and create the node of this process.

    Raises ZooKeeperRefusal, EarlierSession, Overtaken, Failed.
    """
    if member.cluster_id is not None:
        yield from _check_cluster(session, member, member.cluster_id)
    found = yield from _read_nodes(session, member)
    earlier = _check(session, member, found)
    yield from ensure_paths(session)
    yield from _note_features_of_kafka(session, member)
    yield from ensure(session, OWNERS_PATH)
    operations: list[Operation] = []
    if earlier is not None:
        operations += _replacement(member, found)
    if found.owner is None or earlier is not None:
        operations.append(Create(SessionOwner.path(member.node_id), member.owner.encode(), is_ephemeral=True))
        yield from commit(session, member, operations, "the node of this process")
    if earlier is not None:
        logger.info("the nodes of this broker's earlier process %d are replaced: it is gone", earlier.process)


def _note_features_of_kafka(session: Session, member: JoiningBroker) -> Task[None]:
    """Switch off what brokers of Apache Kafka do not have, before the first broker of Headgate joins them.

    Later the levels stay as they are: groups and transactions may use them. Raises Overtaken, ZooKeeperRefusal, Lost.
    """
    registered = yield from children(session, BROKER_IDS_PATH)  # before the look for a Headgate, which registers last
    is_first = (yield from exists(session, OWNERS_PATH)) is None
    if registered and is_first and (yield from exists(session, OwnFeatures.path())) is None:
        off = dict.fromkeys(HIGHEST, 0)
        yield from commit(session, member, [Create(OwnFeatures.path(), OwnFeatures(off).encode())], "the features")
        logger.info("the brokers of this cluster are of Apache Kafka; features that they lack are off: %s",
                    ", ".join(off))  # fmt: skip


def check(session: Session, member: JoiningBroker) -> Task[None]:
    """Check the cluster as `join` does, and write nothing. Raises ZooKeeperRefusal, EarlierSession, Failed."""
    _check(session, member, (yield from _read_nodes(session, member)))


def _check_cluster(session: Session, member: JoiningBroker, cluster_id: str) -> Task[None]:
    """Check that the cluster still exists: otherwise this broker would create parts of it. Raises ZooKeeperRefusal.

    An unreadable id is no reason to refuse: any program may have written it.
    """
    node = yield from get(session, CLUSTER_ID_PATH)
    if node is None:
        raise refusals.lost_cluster(member.connect, cluster_id)
    try:
        found = ClusterId.decode(node.data).cluster_id
    except InvalidNode as error:
        member.unreadable.name(error.path, error.reason)
        return
    if found != cluster_id:
        raise refusals.changed_cluster(member.connect, found, cluster_id)


def commit(session: Session, member: JoiningBroker, operations: list[Operation], what: str) -> Task[None]:
    """Write all or nothing. Raises Overtaken, ZooKeeperRefusal, Lost."""
    try:
        result = yield from multi(session, operations)
    except Failed as error:
        raise refusals.of_failure(member.connect, what, error) from None
    if isinstance(result, Refused):
        if result.error in {KeeperError.NO_NODE, KeeperError.NODE_EXISTS, KeeperError.BAD_VERSION}:
            raise Overtaken(f"{what}: {result.error.name} at {operations[result.place].path}")
        raise refusals.unwritable(member.connect, what, result.error.name)


def _read_nodes(session: Session, member: JoiningBroker) -> Task[_ClusterState]:
    owner = yield from get(session, SessionOwner.path(member.node_id))
    controller = yield from get(session, CONTROLLER_PATH)
    registration = yield from get(session, BrokerRegistration.path(member.node_id))
    return _ClusterState(owner, controller, registration)


def _check(session: Session, member: JoiningBroker, found: _ClusterState) -> SessionOwner | None:
    """Return the owner of an earlier session that may be replaced. Raises ZooKeeperRefusal, EarlierSession."""
    mine = {session.session_id}
    registered = found.registration
    earlier = None
    if found.owner is not None and found.owner.stat.ephemeral_owner not in mine:
        earlier = _owner(member.node_id, found.owner)
        if earlier is None or not member.owner.shares_directory(earlier):
            raise _in_use(member, registered, earlier, found.owner)
        mine.add(found.owner.stat.ephemeral_owner)
    if registered is not None and registered.stat.ephemeral_owner not in mine:
        raise _in_use(member, registered, None, registered)
    if found.controller is not None:
        _check_controller(member, found.controller, mine)
    if earlier is not None and not member.owner.holds_lock_of(earlier):
        assert found.owner is not None
        raise EarlierSession(member.node_id, found.owner.stat.ephemeral_owner, earlier)
    return earlier


def _check_controller(member: JoiningBroker, node: NodeData, mine: set[int]) -> None:
    try:
        controller = Controller.decode(node.data)
    except InvalidNode as error:
        if node.stat.ephemeral_owner in mine:
            member.unreadable.name(error.path, error.reason)
            return
        raise refusals.unreadable(member.connect, error) from None
    if controller.kraft_controller_epoch >= 0:
        raise refusals.migrated(member.connect, controller.kraft_controller_epoch)


def _in_use(
    member: JoiningBroker, registered: NodeData | None, owner: SessionOwner | None, node: NodeData
) -> refusals.ZooKeeperRefusal:
    registration = None if registered is None else _registration(member.node_id, registered)
    return refusals.id_in_use(member.connect, member.node_id, registration, owner, node.stat.ctime_ms)


def _registration(node_id: int, node: NodeData) -> BrokerRegistration | None:
    try:
        return BrokerRegistration.decode(node_id, node.data)
    except InvalidNode:
        return None


def _owner(node_id: int, node: NodeData) -> SessionOwner | None:
    try:
        return SessionOwner.decode(node_id, node.data)
    except InvalidNode:
        return None


def _replacement(member: JoiningBroker, found: _ClusterState) -> list[Operation]:
    """Deletions of the nodes of an earlier session whose process is gone; the timeout would delete them later."""
    assert found.owner is not None
    earlier = found.owner.stat.ephemeral_owner
    nodes = (
        (SessionOwner.path(member.node_id), found.owner),
        (BrokerRegistration.path(member.node_id), found.registration),
        (CONTROLLER_PATH, found.controller),
    )
    owned = [(path, node) for path, node in nodes if node is not None and node.stat.ephemeral_owner == earlier]
    return [Delete(path, node.stat.version) for path, node in owned]
