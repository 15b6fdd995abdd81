"""The state of a cluster by its metadata: controller, leaders, in-sync replicas, brokers that are down. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from headgate.protocol.errors import ErrorCode
from headgate.tools.client.cluster import shorten_list
from headgate.tools.doctor.check_result import NOTE, OK, WRONG, CheckResult

_INTERNAL: Final = ("__consumer_offsets", "__transaction_state")


class ClusterState(NamedTuple):
    """The answer to Metadata. `topics`: rows of the protocol; `controller`: -1 for none."""

    cluster_id: str | None
    controller: int
    addresses: Mapping[int, str]
    topics: Sequence[Any]


def check_cluster(state: ClusterState) -> Iterator[CheckResult]:
    """All rows of a cluster's state."""
    partitions = [(topic.name, row) for topic in state.topics for row in topic.partitions]
    yield _check_controller(state)
    yield from _check_down(state, [row for _, row in partitions])
    yield from _check_listeners(partitions)
    yield from _check_replicas(partitions)
    yield from _check_internal(state)
    unseen = [topic.name or "?" for topic in state.topics if topic.error_code]
    if unseen:
        yield CheckResult("topics", NOTE, f"no state of {shorten_list(unseen)}", "see the log of the controller")


def _check_controller(state: ClusterState) -> CheckResult:
    count = len(state.addresses)
    found = f"cluster {state.cluster_id}, {count} {'broker' if count == 1 else 'brokers'}"
    if state.controller in state.addresses:
        return CheckResult("controller", OK, f"{found}, broker {state.controller} is the controller")
    cure = "nothing is created, and no leader is elected: see the logs of all brokers, and ZooKeeper or the quorum"
    return CheckResult("controller", WRONG, f"{found}, and no broker is the controller", cure)


def _check_down(state: ClusterState, rows: Sequence[Any]) -> Iterator[CheckResult]:
    """Brokers that have replicas, and are not among the live ones.

    A broker of which a leader says that it is in sync lives, and has no listener of the name by which this client came.
    """
    missing = Counter(node for row in rows for node in row.replica_nodes if node not in state.addresses)
    living = {node for row in rows if row.leader_id >= 0 for node in row.isr_nodes}
    down = {node: count for node, count in sorted(missing.items()) if node not in living}
    for node, replicas in down.items():
        cure = f"start broker {node}, or move its replicas with kafka-reassign-partitions"
        yield CheckResult("brokers", WRONG, f"broker {node} is down, and has {replicas} replicas", cure)
    for node in sorted(missing.keys() & living):
        found = f"broker {node} lives, and has no listener of the name by which this client came"
        cure = "give every broker the same names in listeners and in listener.security.protocol.map"
        yield CheckResult("listeners", WRONG, found, cure)
    if not missing:
        yield CheckResult("brokers", OK, "every broker that has replicas is there")


def _check_listeners(partitions: Sequence[tuple[str, Any]]) -> Iterator[CheckResult]:
    """Partitions whose leader has no listener of the name by which this client came."""
    hidden = [f"{topic}-{row.partition_index}" for topic, row in partitions if _is_hidden(row)]
    if hidden:
        yield CheckResult(
            "listeners",
            WRONG,
            f"this client cannot reach the leaders of {shorten_list(hidden)}: they have no listener of its name",
            "use a listener that all brokers have, or give every broker the same names in listeners",
        )


def _is_hidden(row: Any) -> bool:
    return bool(row.error_code == ErrorCode.LISTENER_NOT_FOUND)


def _check_replicas(partitions: Sequence[tuple[str, Any]]) -> Iterator[CheckResult]:
    offline = [
        f"{topic}-{row.partition_index}" for topic, row in partitions if row.leader_id < 0 and not _is_hidden(row)
    ]
    behind = [
        f"{topic}-{row.partition_index}"
        for topic, row in partitions
        if row.leader_id >= 0 and len(row.isr_nodes) < len(row.replica_nodes)
    ]
    if offline:
        cure = "start the brokers that have their replicas; nothing reads or writes these partitions before"
        yield CheckResult("leaders", WRONG, f"no leader: {shorten_list(offline)}", cure)
    if behind:
        laggards = Counter(
            node for _, row in partitions if row.leader_id >= 0 for node in {*row.replica_nodes} - {*row.isr_nodes}
        )
        of = ", ".join(f"broker {node} lacks {count}" for node, count in sorted(laggards.items()))
        cure = "start the broker, or see its log: a disk, the network, or a link that is refused keeps it behind"
        yield CheckResult("replicas", WRONG, f"replicas behind: {of}; {shorten_list(behind)}", cure)
    if not offline and not behind:
        found = f"{len(partitions)} partitions have their leader and all replicas in sync"
        yield CheckResult("replicas", OK, found)


def _check_internal(state: ClusterState) -> Iterator[CheckResult]:
    """Internal topics with one replica in a cluster of several brokers."""
    for topic in state.topics:
        single = topic.name in _INTERNAL and topic.partitions and len(topic.partitions[0].replica_nodes) == 1
        if single and len(state.addresses) > 1:
            setting = "offsets.topic" if topic.name == _INTERNAL[0] else "transaction.state.log"
            cure = f"add replicas with kafka-reassign-partitions; {setting}.replication.factor counts at its creation"
            yield CheckResult(
                "replicas", NOTE, f"{topic.name} has one replica, of {len(state.addresses)} brokers", cure
            )
