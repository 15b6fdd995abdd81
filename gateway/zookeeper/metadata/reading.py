"""Reads of the cluster's nodes: all at a start, single topics later. Each returns nodes by path.

Nodes that other programs may change are read with a watch. A watch only collects the path (`Watches`); the store then
reads the path again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from headgate.gateway.metadata.image import FailedReplicas, Image, Node
from headgate.gateway.runtime.broker_links import BrokerLinks
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.tasks import Task, Tasks, WaitList, gather
from headgate.gateway.zookeeper.layout.admin import (
    DELETE_TOPICS_PATH,
    PREFERRED_REPLICA_ELECTION_PATH,
    REASSIGN_PARTITIONS_PATH,
)
from headgate.gateway.zookeeper.layout.brokers import BROKER_IDS_PATH
from headgate.gateway.zookeeper.layout.cluster import (
    CLUSTER_ID_PATH,
    CONTROLLER_EPOCH_PATH,
    CONTROLLER_PATH,
    OWN_FEATURES_PATH,
    PERSISTENT_PATHS,
    PRODUCER_IDS_PATH,
)
from headgate.gateway.zookeeper.layout.configs import (
    BROKERS,
    CLIENTS,
    CONFIG_CHANGES_PATH,
    CONFIG_PATH,
    GROUPS,
    TOPICS,
    USERS,
)
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.layout.quotas import QUOTA_TYPES
from headgate.gateway.zookeeper.layout.topics import DELETED_TOPICS_PATH, TOPICS_PATH, LeaderAndIsr, TopicAssignment
from headgate.gateway.zookeeper.layout.tree import ZNode
from headgate.gateway.zookeeper.metadata.cluster_nodes import ClusterNodes
from headgate.gateway.zookeeper.requests import children, ensure, exists, get, get_many
from headgate.gateway.zookeeper.session import NodeData, Session, Watch
from headgate.protocol.internal.metadata import MetadataRecord
from headgate.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig
    from headgate.gateway.metadata.store import Change

NodesByPath = dict[str, ZNode]

CONFIGURED: Final = tuple(f"{CONFIG_PATH}/{kind}" for kind in (BROKERS, GROUPS, *QUOTA_TYPES))
"""The parents of the configs of brokers, groups, users, clients and addresses. Those of topics are read with topics."""
_OWN_PATHS: Final = (f"{CONFIG_PATH}/{GROUPS}", OWN_FEATURES_PATH.rpartition("/")[0], DELETED_TOPICS_PATH)
_ORDERS: Final = (REASSIGN_PARTITIONS_PATH, PREFERRED_REPLICA_ELECTION_PATH)


class Watches:
    """The paths at which a watch has fired. `notify` is called for each path that is new."""

    def __init__(self) -> None:
        self.changed: dict[str, None] = {}
        self.notify: Callable[[], None] = lambda: None

    def note(self, path: str) -> None:
        """The watch of all reads."""
        if path not in self.changed:
            self.changed[path] = None
            self.notify()


def ensure_paths(session: Session) -> Task[None]:
    """Create the directories that a broker expects. Raises Failed."""
    for path in (*PERSISTENT_PATHS, *_OWN_PATHS):
        yield from ensure(session, path)


def read_tree(session: Session, watch: Watch) -> Task[NodesByPath]:
    """All nodes that the controller of a cluster uses. Raises Failed."""
    parts = [(yield from read_broker_nodes(session, watch))]
    parts += yield from gather([read_node_or_watch(session, path, watch) for path in _ORDERS])
    orders = yield from children(session, DELETE_TOPICS_PATH, watch)
    parts.append({f"{DELETE_TOPICS_PATH}/{name}": ZNode(None, 0) for name in orders})
    names = yield from children(session, TOPICS_PATH, watch)
    parts.append((yield from _read_topics(session, names, watch)))
    return _joined(parts)


def read_broker_nodes(session: Session, watch: Watch) -> Task[NodesByPath]:
    """The nodes that every broker of a cluster uses. Raises Failed."""
    yield from children(
        session, CONFIG_CHANGES_PATH, watch
    )  # before the configs: a later change of configs fires this watch
    parts = [(yield from read_node_or_watch(session, CONTROLLER_PATH, watch))]
    singles = (CONTROLLER_EPOCH_PATH, CLUSTER_ID_PATH, OWN_FEATURES_PATH, PRODUCER_IDS_PATH)
    parts += yield from gather([read_node(session, path) for path in singles])
    brokers = yield from children(session, BROKER_IDS_PATH)
    parts += yield from gather([read_node(session, f"{BROKER_IDS_PATH}/{name}") for name in brokers])
    parts += yield from gather([read_all_configs(session, path) for path in CONFIGURED])
    return _joined(parts)


def _read_topics(session: Session, names: Sequence[str], watch: Watch) -> Task[NodesByPath]:
    """All topics. The partitions come from the assignment; a topic with a missing state is listed instead."""
    tree = _joined((yield from gather([read_node(session, f"{TOPICS_PATH}/{name}", watch) for name in names])))
    states = {name: _state_paths(name, tree) for name in names}
    tree |= yield from read_many(session, [f"{CONFIG_PATH}/{TOPICS}/{name}" for name in names])
    tree |= yield from read_many(session, [path for paths in states.values() for path in paths])
    incomplete = {name for name, paths in states.items() if not tree.keys() >= paths}
    for name in [name for name, paths in states.items() if paths and name not in incomplete]:
        parents = [path.rpartition("/")[0] for path in states[name]]
        tree |= dict.fromkeys((f"{TOPICS_PATH}/{name}/partitions", *parents), ZNode(None, 0))
    return _joined([tree, *(yield from gather([_read_partitions(session, name) for name in incomplete]))])


def _state_paths(name: str, tree: NodesByPath) -> AbstractSet[str]:
    try:
        assignment = TopicAssignment.decode(name, tree[f"{TOPICS_PATH}/{name}"].data)
    except (InvalidNode, KeyError):
        return set()
    return {LeaderAndIsr.path(name, index) for index in assignment.partitions}


def read_topic(session: Session, name: str, watch: Watch | None) -> Task[NodesByPath]:
    """A topic with its partitions and configs, as far as they exist. The watch is on its assignment.

    A missing topic may have configs: an old Kafka left them, or a tool wrote them before the topic.
    """
    tree = yield from read_node(session, f"{TOPICS_PATH}/{name}", watch)
    if tree:
        tree |= yield from _read_partitions(session, name)
    return tree | (yield from read_node(session, f"{CONFIG_PATH}/{TOPICS}/{name}"))


def _read_partitions(session: Session, name: str) -> Task[NodesByPath]:
    """All existing partitions, listed or not in the assignment."""
    parent = f"{TOPICS_PATH}/{name}/partitions"
    names = yield from children(session, parent)
    if not names:
        return {}
    tree = dict.fromkeys((parent, *(f"{parent}/{child}" for child in names)), ZNode(None, 0))
    return tree | (yield from read_many(session, [f"{parent}/{child}/state" for child in names]))


def read_all_configs(session: Session, parent: str) -> Task[NodesByPath]:
    """The configs of all entities of a type, with those of users' clients. Raises Failed."""
    return (yield from read_many(session, (yield from config_node_paths(session, parent))))


def config_node_paths(session: Session, parent: str) -> Task[list[str]]:
    """The paths of the configs of all entities of a type. A user has clients below. Raises Failed."""
    names = yield from children(session, parent)
    paths = [f"{parent}/{name}" for name in names]
    if parent != f"{CONFIG_PATH}/{USERS}":
        return paths
    below = [f"{path}/{CLIENTS}" for path in paths]
    found = yield from gather([children(session, path) for path in below])
    return paths + [f"{path}/{name}" for path, names in zip(below, found, strict=True) for name in names]


def read_many(session: Session, paths: Sequence[str]) -> Task[NodesByPath]:
    """The nodes that exist at these paths, without watches. Raises Failed."""
    found = yield from get_many(session, paths)
    return {path: _znode(node) for path, node in zip(paths, found, strict=True) if node is not None}


def _znode(found: NodeData) -> ZNode:
    return ZNode(found.data, found.stat.version, found.stat.czxid, found.stat.mzxid)


def read_node(session: Session, path: str, watch: Watch | None = None) -> Task[NodesByPath]:
    """One node; empty if it does not exist. Raises Failed."""
    found: NodeData | None = yield from get(session, path, watch)
    return {} if found is None else {path: _znode(found)}


def read_node_or_watch(session: Session, path: str, watch: Watch | None) -> Task[NodesByPath]:
    """One node that may not exist: the watch is set in any case."""
    if watch is not None and (yield from exists(session, path, watch)) is None:
        return {}
    return (yield from read_node(session, path))


def _joined(parts: list[NodesByPath]) -> NodesByPath:
    items: Iterator[tuple[str, ZNode]] = chain.from_iterable(map(dict.items, parts))
    return dict(items)


class ImageStore(Protocol):
    """The image and its changes, as the parts of the store see them."""

    unclean_elections: int
    """Leaders that were not in sync, elected by this broker as the controller, since its start."""

    @property
    def written_image(self) -> Image:
        """The image of everything that is known to be in ZooKeeper."""

    @property
    def planned(self) -> Image:
        """The image after all pending changes."""

    @property
    def waiters(self) -> WaitList:
        """The tasks that wait for a change to settle."""

    def apply_external(self, records: Sequence[MetadataRecord]) -> Change:
        """Apply changes that other programs have written to ZooKeeper."""

    def apply_brokers(self, brokers: Mapping[int, Node]) -> None:
        """Publish the live brokers."""

    @property
    def failed_here(self) -> Collection[TopicPartition]:
        """The replicas of this broker that other brokers have to replace."""

    def set_failed_replicas(self, failed: FailedReplicas) -> None:
        """Show these replicas as offline."""

    def note_topics_known(self) -> None:
        """Note that the image has all topics of the cluster."""

    def delete_topic(self, name: str) -> Change:
        """Delete a topic. Raises KafkaError."""

    def submit(self, records: Sequence[MetadataRecord]) -> Change:
        """Submit a change. Raises KafkaError."""


class StoreParts(NamedTuple):
    """The parts; each part of the store has all of them."""

    session: Session
    watches: Watches
    nodes: ClusterNodes
    config: BrokerConfig
    random: Random
    clock: Clock
    tasks: Tasks
    links: BrokerLinks
    store: ImageStore
