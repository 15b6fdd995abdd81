"""Error texts of a refused start with ZooKeeper: the fault, the place, and the remedy. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from headgate.gateway.zookeeper.layout.brokers import BrokerRegistration
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.layout.owner import SessionOwner
from headgate.gateway.zookeeper.requests import Failed, Lost
from headgate.storage.errors import StorageError

WAY_OUT: Final = (
    "put a copy of its data back, or start by `headgate serve --adopt` without zookeeper.connect, stop, and run"
    " `headgate metadata to-zookeeper`"
)


class ZooKeeperRefusal(StorageError):
    """The broker cannot serve this cluster as it is; the text says why, and what to do."""


def unreadable_acls(error: InvalidNode) -> ZooKeeperRefusal:
    """A node with ACLs that this broker cannot obey."""
    return ZooKeeperRefusal(f"{error}; it may deny something: correct or delete the node, and start again")


def without_authorizer(connect: str) -> ZooKeeperRefusal:
    """A cluster with ACLs, and a broker that obeys none."""
    return ZooKeeperRefusal(
        f"the cluster in ZooKeeper at {connect} has ACLs, and this broker would serve everybody: set"
        " authorizer.class.name and super.users as the other brokers have them; if no broker of the cluster has an"
        " authorizer, set authorizer.class.name= to nothing"
    )


def no_answer(connect: str, waited_ms: float) -> ZooKeeperRefusal:
    """No session within `zookeeper.connection.timeout.ms`."""
    return ZooKeeperRefusal(
        f"ZooKeeper at {connect} did not answer within {waited_ms / 1000:g} s; start ZooKeeper, correct"
        " zookeeper.connect, or raise zookeeper.connection.timeout.ms"
    )


def unreachable(connect: str, problem: str) -> ZooKeeperRefusal:
    """No session, for a reason that settings have."""
    return ZooKeeperRefusal(f"ZooKeeper at {connect} cannot be used: {problem}")


def unresolved(connect: str, waited_ms: float, names: Sequence[str]) -> ZooKeeperRefusal:
    """No session, and servers that have no address."""
    return ZooKeeperRefusal(
        f"ZooKeeper at {connect} did not answer within {waited_ms / 1000:g} s, and no address is known for"
        f" {', '.join(names)}; correct zookeeper.connect, or the resolver of this machine"
    )


def no_end(connect: str, waited_ms: float, what: str) -> ZooKeeperRefusal:
    """ZooKeeper answered once, but not to the end."""
    return ZooKeeperRefusal(
        f"ZooKeeper at {connect} stopped answering: {what} was not done within {waited_ms / 1000:g} s; look into"
        " ZooKeeper's log, or raise zookeeper.connection.timeout.ms"
    )


def overtaken(connect: str, waited_ms: float, what: str, reason: Exception) -> ZooKeeperRefusal:
    """Each try has met a change of another broker."""
    return ZooKeeperRefusal(
        f"ZooKeeper at {connect}: {what} was not done within {waited_ms / 1000:g} s: {reason}; look into the log of the"
        " controller, then start this broker again"
    )


def other_cluster(connect: str, found: str, directory: str, own: str) -> ZooKeeperRefusal:
    """The log directories belong to another cluster. Kafka's phrase is "doesn't match stored clusterId"."""
    return ZooKeeperRefusal(
        f"the cluster id {found} in ZooKeeper at {connect} doesn't match stored clusterId {own} in {directory}:"
        " zookeeper.connect may have the wrong address or the wrong chroot; or set another log.dirs"
    )


def no_cluster(connect: str, directory: str, own: str, partitions: int) -> ZooKeeperRefusal:
    """ZooKeeper has no cluster below the chroot, but the directories have partitions of one."""
    return ZooKeeperRefusal(
        f"ZooKeeper at {connect} has no cluster, but {directory} holds {partitions} partitions of cluster {own}:"
        " zookeeper.connect may have the wrong address or the wrong chroot; or set another log.dirs; if ZooKeeper has"
        f" lost that cluster, {WAY_OUT}"
    )


def lost_cluster(connect: str, own: str) -> ZooKeeperRefusal:
    """The nodes of the cluster are gone while this broker runs."""
    return ZooKeeperRefusal(
        f"ZooKeeper at {connect} has lost cluster {own}, so that this broker cannot register there, and topics and"
        f" configs cannot be changed: {WAY_OUT}"
    )


def changed_cluster(connect: str, found: str, own: str) -> ZooKeeperRefusal:
    """Another cluster has taken the place of this one while this broker runs."""
    return ZooKeeperRefusal(
        f"the cluster id {found} in ZooKeeper at {connect} doesn't match {own}, the cluster of this broker, as"
        f" ZooKeeper was replaced: {WAY_OUT}"
    )


def outdated(connect: str) -> ZooKeeperRefusal:
    """No server has all transactions that this broker's session has seen, so each of them refuses the session."""
    return ZooKeeperRefusal(
        f"ZooKeeper at {connect} came back empty or from an older copy, and refuses the session of this broker, which"
        f" has seen later transactions: {WAY_OUT}"
    )


def embedded_log(connect: str, directory: str) -> ZooKeeperRefusal:
    """The directory has an embedded metadata log: a second source of metadata."""
    return ZooKeeperRefusal(
        f"{directory} has its metadata in the embedded log __headgate_metadata-0, and zookeeper.connect={connect} names"
        " another place for them: carry them over with `headgate metadata to-zookeeper`, or remove zookeeper.connect"
    )


def kraft_directory(connect: str, directory: str) -> ZooKeeperRefusal:
    """The directory belongs to a Kafka without ZooKeeper."""
    return ZooKeeperRefusal(
        f"{directory} belongs to an Apache Kafka with KRaft, whose metadata are not in ZooKeeper at {connect}: remove"
        " zookeeper.connect and start with `headgate serve --adopt`, or set another log.dirs"
    )


def id_in_use(connect: str, node_id: int, registration: BrokerRegistration | None, owner: SessionOwner | None,
              since_ms: int) -> ZooKeeperRefusal:  # fmt: skip
    """Another process is registered under this broker's id."""
    process = "" if owner is None else f", process {owner.process} on {owner.host}"
    return ZooKeeperRefusal(
        f"node.id={node_id} is in use in ZooKeeper at {connect} by {_addresses(registration)}{process}, since"
        f" {_time(since_ms)}: stop that broker, or set another node.id; if it was killed, ZooKeeper forgets it after"
        " its session timeout"
    )


def migrated(connect: str, epoch: int) -> ZooKeeperRefusal:
    """A KRaft controller has taken the cluster over (KIP-866)."""
    return ZooKeeperRefusal(
        f"a KRaft controller (epoch {epoch}) has taken over the cluster in ZooKeeper at {connect}, which is no longer"
        " its truth: finish or revert that migration first"
    )


def unwritable(connect: str, what: str, error: str) -> ZooKeeperRefusal:
    """ZooKeeper refuses a write, for instance for lack of rights."""
    return ZooKeeperRefusal(
        f"ZooKeeper at {connect} refused {what} with {error}: this broker needs the right to read and to write"
        " everything below the chroot"
    )


def lives_on(connect: str, node_id: int, owner: SessionOwner) -> ZooKeeperRefusal:
    """The earlier session of this broker did not end: its process keeps it alive."""
    return ZooKeeperRefusal(
        f"node.id={node_id} is in use in ZooKeeper at {connect} by process {owner.process} on {owner.host}, since"
        f" {_time(owner.since_ms)}, on a copy of this log directory or on the same one: stop that process; its session"
        " did not end in its time"
    )


def not_registered(connect: str, node_id: int, waited_ms: float, problem: str) -> ZooKeeperRefusal:
    """The broker runs, but is not registered: clients would not find it."""
    return ZooKeeperRefusal(
        f"broker {node_id} could not be registered in ZooKeeper at {connect} within {waited_ms / 1000:g} s:"
        f" {problem}; start again once ZooKeeper answers"
    )


def unreadable(connect: str, error: InvalidNode) -> ZooKeeperRefusal:
    """The data of a node that the start depends on cannot be parsed."""
    return ZooKeeperRefusal(f"{error}; another program wrote that node below {connect}: correct or delete it")


def of_failure(connect: str, what: str, error: Failed) -> ZooKeeperRefusal | Lost:
    """The error to raise for a failed request. A lost connection is no reason for a refusal."""
    return error if isinstance(error, Lost) else unwritable(connect, what, error.error.name)


def earlier_session(node_id: int, owner: SessionOwner) -> str:
    """The text for a wait for the end of an earlier session of this broker."""
    return (
        f"the end of the earlier session of broker {node_id} (process {owner.process} on {owner.host}, since"
        f" {_time(owner.since_ms)})"
    )


def _addresses(registration: BrokerRegistration | None) -> str:
    if registration is None or not registration.endpoints:
        return "a broker without an address"
    return ", ".join(map(str, registration.endpoints))


def _time(timestamp_ms: int) -> str:
    return f"{datetime.fromtimestamp(timestamp_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
