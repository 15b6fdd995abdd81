"""The checks of `headgate config` as plain values, secrets masked, and what a host has to provide for the settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headgate.gateway.config import BrokerConfig, ConfigError, catalogue
from headgate.protocol import properties

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
    """An unknown name may be a misspelt name of a secret."""
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
        "http_listeners": tuple(map(tuple, config.headgate_http_listeners)),
        "zookeeper_connect": config.zookeeper_connect,
        "min_free_bytes": config.log_min_free_bytes,
        "backlog": config.socket_listen_backlog_size,
        "descriptors_needed": descriptors.needed_for(config.max_connections),
    }
