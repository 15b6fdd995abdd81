"""ZooKeeper as a start of the broker meets it: the session of its own client, and the nodes of the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from headgate.gateway.config import BrokerConfig, ConfigError

if TYPE_CHECKING:
    from headgate.gateway.runtime.clock import Clock
    from headgate.gateway.runtime.tasks import Task
    from headgate.gateway.zookeeper.membership.connection import ZooKeeperConnection
    from headgate.gateway.zookeeper.session import Session


def inspect_zookeeper(text: str, overrides: Sequence[str], source: str, timeout_s: float) -> dict[str, Any]:
    """The session of the broker's own client, and the nodes that a start reads; nothing is written.

    `problem`: a sentence if there is no session. `session_ms`, `read_ms`: how long it took to begin, and to read.
    """
    from headgate.gateway.app.composition import connect
    from headgate.gateway.runtime.clock import SystemClock
    from headgate.storage.errors import StorageError

    report: dict[str, Any] = {"problem": None, "session_ms": None, "read_ms": None, "has_chroot": False}
    report |= {"cluster_id": None, "controller": None, "brokers": {}, "root": []}
    waiting = f"zookeeper.connection.timeout.ms={round(timeout_s * 1000)}"
    try:
        config = BrokerConfig.load(text, [*overrides, waiting], source)
        clock = SystemClock()
        began_ms = clock.monotonic_ms()
        connection = connect(config, clock)
        assert connection is not None, "zookeeper.connect is set"
        report["session_ms"] = clock.monotonic_ms() - began_ms
        try:
            _read_nodes(connection, clock, report)
        finally:
            connection.close()
        if not report["has_chroot"]:
            servers = connection.connect.partition("/")[0]
            report["root"] = _read_root(BrokerConfig.load(text, [*overrides, waiting, f"zookeeper.connect={servers}"]))
    except ConfigError as error:
        report["problem"] = error.problems[0]
    except StorageError as error:
        report["problem"] = str(error)
    return report


def _read_nodes(connection: ZooKeeperConnection, clock: Clock, report: dict[str, Any]) -> None:
    """Raises StorageError."""
    report |= {"has_chroot": connection.has_chroot, "cluster_id": connection.cluster_id}
    if not connection.has_chroot:
        return
    began_ms = clock.monotonic_ms()
    report |= connection.complete(partial(_cluster, connection.session), "the brokers of the cluster")
    report["read_ms"] = clock.monotonic_ms() - began_ms


def _cluster(session: Session) -> Task[dict[str, Any]]:
    """The controller, and the endpoints of each broker by its id. A broker whose node cannot be read has none."""
    from headgate.gateway.zookeeper.layout.brokers import BROKER_IDS_PATH, BrokerRegistration
    from headgate.gateway.zookeeper.layout.cluster import CONTROLLER_PATH, Controller
    from headgate.gateway.zookeeper.layout.node import InvalidNode
    from headgate.gateway.zookeeper.requests import children, get

    brokers: dict[int, list[str]] = {}
    for name in (yield from children(session, BROKER_IDS_PATH)):
        if not name.isdecimal():
            continue
        found = yield from get(session, f"{BROKER_IDS_PATH}/{name}")
        try:
            endpoints = () if found is None else BrokerRegistration.decode(int(name), found.data).endpoints
        except InvalidNode:
            endpoints = ()
        brokers[int(name)] = [str(endpoint) for endpoint in endpoints]
    found = yield from get(session, CONTROLLER_PATH)
    controller = None if found is None else Controller.decode(found.data).broker_id
    return {"brokers": brokers, "controller": controller}


def _read_root(config: BrokerConfig) -> list[str]:
    """The names of the nodes beside the missing chroot. Raises StorageError."""
    from headgate.gateway.app.composition import connect
    from headgate.gateway.runtime.clock import SystemClock
    from headgate.gateway.zookeeper.requests import children

    connection = connect(config, SystemClock())
    assert connection is not None, "zookeeper.connect is set"
    try:
        names: Sequence[str] = connection.complete(partial(children, connection.session, "/"), "the nodes at the root")
        return sorted(names)
    finally:
        connection.close()
