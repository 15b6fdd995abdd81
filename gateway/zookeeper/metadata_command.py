"""`headgate metadata to-zookeeper | to-embedded`: transfers a stopped broker's metadata from one store to the other.

To ZooKeeper: write all nodes, read them again, compare, and only then rename the own log. To the own log: write the log
under another name, and rename the complete log. So one store has all metadata at each moment, and a start reads the
store that its settings name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from headgate.gateway.metadata import new_metadata_log, snapshot
from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.metadata_log import LOG_CONFIG
from headgate.gateway.metadata.new_topics import METADATA_TOPIC, new_topic_id
from headgate.gateway.metadata.records import image_records
from headgate.gateway.runtime.tasks import Task, gather
from headgate.gateway.zookeeper.layout.cluster import CLUSTER_ID_PATH, CONTROLLER_EPOCH_PATH, ClusterId, ControllerEpoch
from headgate.gateway.zookeeper.layout.configs import EntityConfigs
from headgate.gateway.zookeeper.layout.consumers import CONSUMERS_PATH
from headgate.gateway.zookeeper.layout.quotas import config_entity
from headgate.gateway.zookeeper.layout.tree import ABSENT, ClusterTree, read_cluster
from headgate.gateway.zookeeper.metadata import metadata_transfer as transfer
from headgate.gateway.zookeeper.metadata.acl_watcher import ensure_acl_paths, read_acls
from headgate.gateway.zookeeper.metadata.metadata_transfer import TransferRefused
from headgate.gateway.zookeeper.metadata.reading import ensure_paths, read_tree
from headgate.gateway.zookeeper.metadata.token_watcher import ensure_token_paths, read_tokens
from headgate.gateway.zookeeper.metadata.user_nodes import ensure_user
from headgate.gateway.zookeeper.offsets.marks import MARKS_PATH
from headgate.gateway.zookeeper.requests import children, delete, ensure, multi
from headgate.gateway.zookeeper.session import Create, Operation, Refused, Session
from headgate.storage.directory.kafka_directory import CARRIED_METADATA, OWN_METADATA
from headgate.storage.directory.log_directory import LOCK
from headgate.storage.directory.log_manager import LogManager
from headgate.storage.disk import checkpoint, layout
from headgate.storage.files import Files, parent

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig
    from headgate.gateway.zookeeper.membership.connection import ZooKeeperConnection


class TransferParts(NamedTuple):
    """The inputs of a transfer besides settings and session."""

    files: Files
    random: Random
    now_ms: int


class _Embedded(NamedTuple):
    """The own metadata log: its directory, the cluster's id, and the image."""

    directory: str
    cluster_id: str
    image: Image


def to_zookeeper(
    config: BrokerConfig, connection: ZooKeeperConnection, parts: TransferParts, *, execute: bool
) -> list[str]:
    """Transfer the own log to ZooKeeper; without `execute` only check. Returns lines for people.

    Raises StorageError, with nothing changed in the directories; DirectoryLocked while the broker runs; OSError.
    """
    embedded = _read_embedded(config, parts)
    complete, session = connection.complete, connection.session
    lines = list(transfer.describe(embedded.image))
    with _locked(config, parts.files):
        if not execute:
            complete(partial(_check_target, session, embedded, config.node_id), "the nodes of the cluster")
            return [*lines, f"would be written to ZooKeeper at {connection.connect}"]
        connection.create_chroot()
        complete(partial(_write_nodes, session, embedded, config.node_id), "the metadata of the cluster")
        kept = f"{parent(embedded.directory)}/{CARRIED_METADATA}"
        if parts.files.exists(kept):
            parts.files.remove_tree(kept)
        parts.files.rename(embedded.directory, kept)
        parts.files.sync_directory(parent(embedded.directory))
    return [*lines, f"are in ZooKeeper at {connection.connect}; {kept} is the log before, which nothing reads any more"]


def to_embedded(
    config: BrokerConfig, connection: ZooKeeperConnection, parts: TransferParts, *, execute: bool
) -> list[str]:
    """Transfer ZooKeeper's metadata to an own log; without `execute` only check. Returns lines for people.

    Raises as `to_zookeeper`.
    """
    path = _own_directory(config, parts.files)
    meta = layout.read_meta(parts.files, path)
    assert meta is not None
    with _locked(config, parts.files):
        cluster, others, groups, marked = connection.complete(
            partial(_read_all, connection.session, parts.random), "the metadata of the cluster"
        )
        if not cluster.image.cluster_id:
            raise TransferRefused(f"ZooKeeper at {connection.connect} has no cluster; correct zookeeper.connect")
        transfer.check(cluster, meta.cluster_id)
        transfer.check_groups(cluster.image, marked)
        image = transfer.out_of_zookeeper(cluster, config.node_id)
        lines = [*transfer.describe(image), *transfer.left_behind(others, groups)]
        if not execute:
            return [*lines, f"would be written to {path}/{OWN_METADATA}"]
        checkpoint.forget_partition(parts.files, path, (METADATA_TOPIC, 0))
        new_metadata_log.write(parts.files, path, list(image_records(image, ())), parts.random, parts.now_ms)
        own = [directory for directory in config.log_directories if _has_meta(parts.files, directory)]
        new_metadata_log.keep_from_kafka(parts.files, own)
        for directory in config.log_directories:
            if parts.files.exists(f"{directory}/{CARRIED_METADATA}"):
                parts.files.remove_tree(f"{directory}/{CARRIED_METADATA}")
    return [*lines, f"are in {path}/{OWN_METADATA}; remove zookeeper.connect before the next start"]


# Directories


def _own_directory(config: BrokerConfig, files: Files) -> str:
    """The first data directory, which has no metadata log yet. Raises TransferRefused."""
    for path in config.log_directories:
        if files.exists(f"{path}/{OWN_METADATA}"):
            raise TransferRefused(
                f"{path} has its metadata in {OWN_METADATA} already; remove zookeeper.connect to use it"
            )
    _check_node(config, files)
    return next(path for path in config.log_directories if _has_meta(files, path))


def _check_node(config: BrokerConfig, files: Files) -> None:
    known = layout.node_id(files, config.log_directories)
    if known is None:
        raise TransferRefused(
            f"log.dirs={','.join(config.log_directories)} is no data directory; set that of the broker"
        )
    if known != config.node_id:
        raise TransferRefused(f"log.dirs belongs to node.id={known}, not {config.node_id}; set that node.id")


def _has_meta(files: Files, path: str) -> bool:
    return files.exists(path) and layout.read_meta(files, path) is not None


def _read_embedded(config: BrokerConfig, parts: TransferParts) -> _Embedded:
    """The own metadata log. Raises TransferRefused, StorageError, DirectoryLocked, OSError."""
    files = parts.files
    _check_node(config, files)
    if not any(files.exists(f"{path}/{OWN_METADATA}") for path in config.log_directories):
        raise TransferRefused(
            f"log.dirs={','.join(config.log_directories)} has no {OWN_METADATA}: nothing is to be carried"
        )
    log_manager = LogManager.take(
        config.log_directories, files=files, node_id=config.node_id, config=config.log_config({}), random=parts.random
    )
    try:
        log = log_manager.open_now((METADATA_TOPIC, 0), LOG_CONFIG, parts.now_ms)
        if log is None:
            raise log_manager.failed.get((METADATA_TOPIC, 0)) or TransferRefused(f"{OWN_METADATA} cannot be opened")
        return _Embedded(log.directory, log_manager.cluster_id, snapshot.load(log).image)
    finally:
        log_manager.abandon()  # claim no directory: they stay as the last stop left them


@contextlib.contextmanager
def _locked(config: BrokerConfig, files: Files) -> Iterator[None]:
    """Hold the locks of all data directories. Raises DirectoryLocked while the broker runs."""
    with contextlib.ExitStack() as locks:
        for path in config.log_directories:
            if files.exists(path):
                locks.callback(files.lock(f"{path}/{LOCK}").release)
        yield


# ZooKeeper


def _check_target(session: Session, embedded: _Embedded, node_id: int) -> Task[None]:
    cluster = yield from _read(session, _no_id)
    transfer.check(cluster, embedded.cluster_id)
    transfer.check_groups(embedded.image, ())
    transfer.into_zookeeper(embedded.image, cluster, node_id)


def _write_nodes(session: Session, embedded: _Embedded, node_id: int) -> Task[None]:
    """Write the missing nodes, and read all nodes again. Raises TransferRefused, Failed."""
    cluster = yield from _read(session, _no_id)
    transfer.check(cluster, embedded.cluster_id)
    transfer.check_groups(embedded.image, ())
    transfer.into_zookeeper(embedded.image, cluster, node_id)  # refuse before the first write
    yield from ensure_paths(session)
    if embedded.image.acls.by_id:
        yield from ensure_acl_paths(session)
    if embedded.image.tokens:
        yield from ensure_token_paths(session)
    yield from ensure(session, CLUSTER_ID_PATH.rpartition("/")[0])
    for owner in embedded.image.quotas:
        yield from ensure_user(session, EntityConfigs.path(config_entity(owner)))
    # Marks of former dual groups: their offsets in ZooKeeper are outdated by now
    marked = yield from children(session, MARKS_PATH)
    yield from gather([delete(session, f"{MARKS_PATH}/{name}") for name in marked])
    first: list[Operation] = []
    if not cluster.image.cluster_id:
        first.append(Create(CLUSTER_ID_PATH, ClusterId(embedded.cluster_id).encode()))
    if cluster.controller_epoch_version == ABSENT:
        first.append(Create(CONTROLLER_EPOCH_PATH, ControllerEpoch(0).encode()))
    if first:
        yield from _commit(session, first)
    cluster = yield from _read(session, _no_id)
    for operations in transfer.into_zookeeper(embedded.image, cluster, node_id):
        yield from _commit(session, operations)
    cluster = yield from _read(session, _no_id)
    transfer.check(cluster, embedded.cluster_id)
    if transfer.into_zookeeper(embedded.image, cluster, node_id):
        raise TransferRefused(
            "ZooKeeper does not have everything that was written; another program writes there: find and stop it"
        )


def _commit(session: Session, operations: Sequence[Operation]) -> Task[None]:
    result = yield from multi(session, operations)
    if isinstance(result, Refused):
        raise TransferRefused(
            f"ZooKeeper refused to write {operations[result.place].path}: {result.error.name}; another program"
            " writes there: stop it, and run this again"
        )


def _read_all(session: Session, random: Random) -> Task[tuple[ClusterTree, list[str], int, tuple[str, ...]]]:
    """The cluster, the paths of configs that stay in ZooKeeper, the number of groups, and the marks of dual groups."""
    cluster = yield from _read(session, lambda: new_topic_id(random, ()))
    groups = yield from children(session, CONSUMERS_PATH)
    marked = yield from children(session, MARKS_PATH)
    return cluster, transfer.with_other_configs(cluster), len(groups), marked


def _read(session: Session, new_id: Callable[[], bytes]) -> Task[ClusterTree]:
    tree = yield from read_tree(session, lambda _: None)
    tree |= yield from read_acls(session, None)
    tree |= yield from read_tokens(session, None)
    return read_cluster(tree, new_id)


def _no_id() -> bytes:
    """An id that no topic of the own log has: a topic in ZooKeeper without an id does not come from this log."""
    return bytes(16)
