"""Log directories of all brokers, and the replicas in one of them."""

from __future__ import annotations

from typing import Any

from headgate.tools.client.cluster import Cluster
from headgate.tools.console.parameters import Parameters
from headgate.tools.console.resources.missing_parts import MissingParts
from headgate.tools.console.resources.topics.topic import replica_rows
from headgate.tools.log_directories import DirectoryDescription, describe_log_directories


def log_directories(cluster: Cluster, parameters: Parameters) -> dict[str, Any]:
    """A row for each log directory; its replicas as sums. Raises ClientError."""
    found, failed = describe_log_directories(cluster)
    missing = MissingParts()
    missing.note("log_directories", failed, "broker")
    rows = [directory_row(node, directory) for node in sorted(found) for directory in found[node]]
    if rows and all(row["total_bytes"] is None for row in rows):
        missing.note_sentences("volumes", ["no broker names the space of its volumes: Kafka does since 3.3"])
    return {"log_directories": rows, "missing": missing}


def directory_row(node: int, directory: DirectoryDescription) -> dict[str, Any]:
    """A log directory; `total_bytes` and `usable_bytes` are those of its volume."""
    return {
        "broker": node,
        "log_directory": directory.path,
        "error": directory.failure.text if directory.failure else None,
        "is_cordoned": directory.is_cordoned,
        "total_bytes": directory.total_bytes,
        "usable_bytes": directory.usable_bytes,
        "size_bytes": directory.size_bytes,
        "replicas": sum(not replica.is_future for replica in directory.replicas),
        "replicas_moving_here": sum(replica.is_future for replica in directory.replicas),
    }


def log_directory(cluster: Cluster, parameters: Parameters) -> dict[str, Any]:
    """The replicas in `?broker=0&log_directory=/data`, the largest first. Raises ClientError, BadParameter."""
    node, path = parameters.number("broker"), parameters.text("log_directory")
    found, failed = describe_log_directories(cluster)
    missing = MissingParts()
    missing.note("replicas", {broker: why for broker, why in failed.items() if broker == node}, "broker")
    wanted = [directory for directory in found.get(node, ()) if directory.path == path]
    if node in found and not wanted:
        missing.note_sentences("replicas", [f"broker {node} has no log directory {path}"])
    rows = replica_rows({node: wanted})
    return {
        "broker": node,
        "log_directory": path,
        "replicas": sorted(rows, key=lambda row: row["size_bytes"], reverse=True),
        "missing": missing,
    }
