"""One broker: the APIs that it serves, and its configs."""

from __future__ import annotations

from typing import Any

from headgate.protocol.registry import APIS
from headgate.tools.client.client import Client
from headgate.tools.client.cluster import Cluster
from headgate.tools.configs import describe_broker_configs
from headgate.tools.console.parameters import Parameters
from headgate.tools.console.resources.missing_parts import MissingParts
from headgate.tools.console.resources.topics.topic import config_row


def broker_apis(cluster: Cluster, parameters: Parameters) -> dict[str, Any]:
    """The APIs of `?broker=0` with their versions. Raises ClientError, BadParameter."""
    node, missing = _node(parameters), MissingParts()

    def ask(client: Client) -> list[dict[str, Any]]:
        return [
            {"api_key": key, "api": APIS[key].name if key in APIS else None, "min_version": first, "max_version": last}
            for key, (first, last) in sorted(client.peer.served_versions.items())
        ]

    found, failed = cluster.ask_broker(node, "apis", ask)
    missing.note("apis", failed)
    return {"broker": node, "apis": found.get("apis", []), "missing": missing}


def broker_configs(cluster: Cluster, parameters: Parameters) -> dict[str, Any]:
    """The configs of `?broker=0`, as that broker answers. Raises ClientError, BadParameter."""
    node, missing = _node(parameters), MissingParts()
    found, failed = describe_broker_configs(cluster, node)
    missing.note("configs", failed, "broker")
    return {"broker": node, "configs": [config_row(row) for row in found.get(str(node), [])], "missing": missing}


def _node(parameters: Parameters) -> int:
    return parameters.number("broker", most=(1 << 31) - 1)
