"""What `headgate doctor` and `headgate bundle` ask of the broker's own code: settings, masked, and ZooKeeper.

The commands are tools, and tools know nothing of the broker: they get plain values from these functions. Nothing here
starts a broker, writes a file, or changes ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headgate.gateway.config import BrokerConfig, ConfigError, catalogue
from headgate.protocol import properties

if TYPE_CHECKING:
    from headgate.gateway.runtime.clock import Clock
    from headgate.gateway.runtime.tasks import Task
    from headgate.gateway.zookeeper.membership.connection import ZooKeeperConnection
    from headgate.gateway.zookeeper.session import Session

HIDDEN: Final = "[hidden]"


def inspect_settings(text: str, overrides: Sequence[str], source: str) -> dict[str, Any]:
    """The checks of `headgate config`, and what the host has to provide.

    `problems`: why no broker starts with it. `notes`: (whether it is a warning, sentence). `given`: (name, value that
    may be shown) of each line. `secrets`: the texts of all secrets. `values`: of the settings, None with problems.
    """
    given = [*_entries(text), *_overridden(overrides)]
    found: dict[str, Any] = {
        "problems": [],
        "notes": [],
        "given": [(name, HIDDEN if _is_secret(name) else value) for name, value in given],
        "secrets": [value for name, value in given if _is_secret(name) and value],
        "values": None,
    }
    try:
        config = BrokerConfig.load(text, overrides, source)
    except ConfigError as error:
        return {**found, "problems": list(error.problems)}
    resolved = [value for name, value in config.given().items() if _is_secret(name) and value]
    notes = [(note.is_warning, str(note)) for note in config.notes()]
    return {**found, "notes": notes, "secrets": [*found["secrets"], *resolved], "values": _values(config)}


def _entries(text: str) -> list[tuple[str, str]]:
    try:
        return [(entry.name, entry.value) for entry in properties.parse(text)]
    except properties.MalformedProperties:
        return []


def _overridden(overrides: Sequence[str]) -> list[tuple[str, str]]:
    pairs = (text.partition("=") for text in overrides)
    return [(name.strip(), value) for name, equals, value in pairs if equals]


def _is_secret(name: str) -> bool:
    """A name that nobody knows may be a secret's, misspelt."""
    definition = catalogue.find(name)
    return definition is None or definition.is_sensitive


def _values(config: BrokerConfig) -> dict[str, Any]:
    from headgate.gateway.runtime import descriptors

    return {
        "node_id": config.node_id,
        "is_node_given": any(config.texts(name)[-1] is not None for name in ("node.id", "broker.id")),
        "log_directories": tuple(config.log_directories),
        "listeners": tuple(map(tuple, config.listeners)),
        "advertised_listeners": tuple(map(tuple, config.advertised_listeners)),
        "http_listeners": tuple((address.host, address.port) for address in config.headgate_http_listeners),
        "zookeeper_connect": config.zookeeper_connect,
        "min_free_bytes": config.log_min_free_bytes,
        "backlog": config.socket_listen_backlog_size,
        "descriptors_needed": descriptors.needed_for(config.max_connections),
    }


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
