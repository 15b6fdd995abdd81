"""The nodes of a whole cluster, read one level after another, for `layout.tree.read_cluster`.

A tree is not read at one moment: what changes meanwhile may be in it or not. Watches tell of changes, and who writes
is refused by the version of a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

from headgate.gateway.zookeeper.layout.admin import DELETE_TOPICS_PATH
from headgate.gateway.zookeeper.layout.brokers import BROKER_IDS_PATH
from headgate.gateway.zookeeper.layout.cluster import (
    CLUSTER_ID_PATH,
    CONTROLLER_EPOCH_PATH,
    CONTROLLER_PATH,
    FEATURES_PATH,
    PRODUCER_IDS_PATH,
)
from headgate.gateway.zookeeper.layout.configs import CLIENTS, CONFIG_CHANGES_PATH, CONFIG_PATH, USERS
from headgate.gateway.zookeeper.layout.topics import TOPICS_PATH
from headgate.gateway.zookeeper.layout.tree import ZNode
from headgate.gateway.zookeeper.procedure import AT_ONCE, Ask, Procedure
from headgate.gateway.zookeeper.session import Children, NodeData, Session

_SINGLE: Final = (CONTROLLER_PATH, CONTROLLER_EPOCH_PATH, CLUSTER_ID_PATH, FEATURES_PATH, PRODUCER_IDS_PATH)
_PARENTS: Final = (BROKER_IDS_PATH, DELETE_TOPICS_PATH)
_NOTHING: Final = ZNode(None, 0)


def read_tree(session: Session) -> Procedure[dict[str, ZNode]]:
    """Read all nodes of a cluster that `read_cluster` knows, by path. Raises Interrupted."""
    tree: dict[str, ZNode] = {}
    yield from read_nodes(session, _SINGLE, tree)
    yield from _read_parents(session, _PARENTS, tree)
    yield from _read_configs(session, tree)
    topics = yield from _read_parents(session, [TOPICS_PATH], tree)
    yield from read_partitions(session, topics, tree)
    return tree


def read_nodes(session: Session, paths: Iterable[str], tree: dict[str, ZNode]) -> Procedure[None]:
    """Read nodes into the tree; those that do not exist are left out. Raises Interrupted."""
    wanted = list(paths)
    answers = yield from ask_all([partial(session.get, path) for path in wanted])
    for path, answer in zip(wanted, answers, strict=True):
        if isinstance(answer, NodeData):
            tree[path] = ZNode(answer.data, answer.stat.version)


def child_paths(session: Session, paths: Sequence[str]) -> Procedure[list[str]]:
    """The paths of all children of these nodes. Raises Interrupted."""
    answers = yield from ask_all([partial(session.children, path) for path in paths])
    return [
        f"{path}/{name}"
        for path, answer in zip(paths, answers, strict=True)
        if isinstance(answer, Children)
        for name in answer.names
    ]


def read_partitions(session: Session, topics: Sequence[str], tree: dict[str, ZNode]) -> Procedure[None]:
    """Read the states of all partitions of topics, given by their paths, with the nodes above them."""
    parents = [f"{topic}/partitions" for topic in topics]
    answers = yield from ask_all([partial(session.children, path) for path in parents])
    states = []
    for path, answer in zip(parents, answers, strict=True):
        if isinstance(answer, Children):
            partitions = [f"{path}/{name}" for name in answer.names]
            tree.update(dict.fromkeys([path, *partitions], _NOTHING))
            states += [f"{partition}/state" for partition in partitions]
    yield from read_nodes(session, states, tree)


def ask_all(asks: Sequence[Ask]) -> Procedure[list[Any]]:
    """The answers to any number of requests, asked in slices. Raises Interrupted."""
    answers: list[Any] = []
    for first in range(0, len(asks), AT_ONCE):
        answers += yield asks[first : first + AT_ONCE]
    return answers


def _read_parents(session: Session, paths: Sequence[str], tree: dict[str, ZNode]) -> Procedure[list[str]]:
    children = yield from child_paths(session, paths)
    yield from read_nodes(session, children, tree)
    return children


def _read_configs(session: Session, tree: dict[str, ZNode]) -> Procedure[None]:
    kinds = yield from child_paths(session, [CONFIG_PATH])
    kinds = [path for path in kinds if path != CONFIG_CHANGES_PATH]
    entities = yield from _read_parents(session, kinds, tree)
    users = [f"{path}/{CLIENTS}" for path in entities if path.startswith(f"{CONFIG_PATH}/{USERS}/")]
    yield from _read_parents(session, users, tree)
