"""What the broker's own code says about settings and ZooKeeper, as plain values.

Tools know nothing of the broker: the command `headgate` passes two functions. Without them (an embedded use of these
modules) both reports are absent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from headgate.protocol import properties

InspectSettings = Callable[[str, Sequence[str], str], Mapping[str, Any]]
"""(text of a server.properties, overrides, its path) -> the fields of SettingsReport."""
InspectZooKeeper = Callable[[str, Sequence[str], str, float], Mapping[str, Any]]
"""(text of a server.properties, overrides, its path, limit in s) -> the fields of ZooKeeperReport."""


class BrokerValues(NamedTuple):
    """The values of the settings that the host and the cluster have to fit.

    Listeners are (name, host, port); those of HTTP have their scheme as name.
    """

    node_id: int
    is_node_given: bool
    log_directories: tuple[str, ...]
    listeners: tuple[tuple[str, str, int], ...]
    advertised_listeners: tuple[tuple[str, str, int], ...]
    http_listeners: tuple[tuple[str, str, int], ...]
    zookeeper_connect: str | None
    min_free_bytes: int
    backlog: int
    descriptors_needed: int


class SettingsReport(NamedTuple):
    """The checks of a server.properties: see `gateway/app/inspection/settings.py`."""

    problems: Sequence[str]
    notes: Sequence[tuple[bool, str]]
    given: Sequence[tuple[str, str]]
    secrets: Sequence[str]
    values: BrokerValues | None


class ZooKeeperReport(NamedTuple):
    """The session of the broker's client, and the nodes of the cluster."""

    problem: str | None
    session_ms: float | None
    read_ms: float | None
    has_chroot: bool
    cluster_id: str | None
    controller: int | None
    brokers: Mapping[int, Sequence[str]]
    root: Sequence[str]


def settings_report(found: Mapping[str, Any]) -> SettingsReport:
    """The report of the fields that the broker's code gives."""
    values = found["values"]
    return SettingsReport(**{**found, "values": None if values is None else BrokerValues(**values)})


def raw_value(text: str, name: str) -> str | None:
    """The value of a line of a server.properties, which may have other problems; None without the line."""
    try:
        values = {entry.name: entry.value for entry in properties.parse(text)}
    except properties.MalformedProperties:
        return None
    return values.get(name)
