"""The brokers of the cluster: addresses, the controller, what each one leads, and replicas that are behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from headgate.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.parameters import Parameters


def brokers(cluster: Cluster, parameters: Parameters) -> dict[str, Any]:
    """Rows of the live brokers. Raises ClientError."""
    metadata = cluster.refresh(None)
    return {
        "cluster_id": metadata.cluster_id,
        "controller_id": None if metadata.controller_id < 0 else metadata.controller_id,
        "brokers": broker_rows(metadata),
        "topics": sum(1 for topic in metadata.topics if not topic.is_internal),
        "partitions": sum(len(topic.partitions) for topic in metadata.topics),
        "missing": {},
    }


def broker_rows(metadata: MetadataResponse) -> list[dict[str, Any]]:
    """One row for each live broker, by id."""
    leads, holds, lacks = _count(metadata.topics)
    return [
        {
            "node_id": broker.node_id,
            "address": f"{broker.host}:{broker.port}",
            "rack": broker.rack,
            "is_controller": broker.node_id == metadata.controller_id,
            "partitions_led": leads[broker.node_id],
            "replicas": holds[broker.node_id],
            "replicas_behind": lacks[broker.node_id],
        }
        for broker in sorted(metadata.brokers, key=lambda broker: broker.node_id)
    ]


def _count(topics: Iterable[MetadataResponseTopic]) -> tuple[Counter[int], Counter[int], Counter[int]]:
    """By node id: partitions that it leads, replicas that it holds, and those of them that are not in sync."""
    leads, holds, lacks = Counter[int](), Counter[int](), Counter[int]()
    for topic in topics:
        for partition in topic.partitions:
            leads[partition.leader_id] += 1
            holds.update(partition.replica_nodes)
            lacks.update(set(partition.replica_nodes).difference(partition.isr_nodes))
    return leads, holds, lacks
