"""The cluster in a few numbers, what moves in it, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from headgate.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from headgate.tools.client.client import Client, ClientError
from headgate.tools.client.cluster import Cluster, sole_answer
from headgate.tools.console.parameters import Parameters

MOST_ROWS: Final = 100
"""Of partitions without a leader, behind, or on the move; the numbers count all."""
_SINCE: Final = "ongoing reassignments are told by brokers since Kafka 2.4"


def overview(cluster: Cluster, parameters: Parameters) -> dict[str, Any]:
    """The numbers of the cluster. Raises ClientError."""
    metadata = cluster.refresh(None)
    missing: dict[str, str] = {}
    reassignments: list[dict[str, Any]] | None = None
    try:
        reassignments = sole_answer(cluster.ask_controller("the reassignments", _ask_reassignments))
    except ClientError as error:
        missing["reassignments"] = str(error)
    return {**numbers(metadata), "reassignments": reassignments, "missing": missing}


def numbers(metadata: MetadataResponse) -> dict[str, Any]:
    """What Metadata has: counts, and the partitions that need attention."""
    leaderless = [row for row in _partition_rows(metadata.topics) if row["leader"] is None]
    behind = [row for row in _partition_rows(metadata.topics) if row["behind"] and row["leader"] is not None]
    return {
        "cluster_id": metadata.cluster_id,
        "controller_id": None if metadata.controller_id < 0 else metadata.controller_id,
        "brokers": len(metadata.brokers),
        "topics": sum(1 for topic in metadata.topics if not topic.is_internal),
        "internal_topics": sum(1 for topic in metadata.topics if topic.is_internal),
        "partitions": sum(len(topic.partitions) for topic in metadata.topics),
        "partitions_without_leader": len(leaderless),
        "partitions_behind": len(behind),
        "attention": [*leaderless, *behind][:MOST_ROWS],
    }


def _partition_rows(topics: Iterable[MetadataResponseTopic]) -> Iterable[dict[str, Any]]:
    """The partitions without a leader or with replicas that are not in sync."""
    for topic in topics:
        for partition in topic.partitions:
            behind = sorted(set(partition.replica_nodes).difference(partition.isr_nodes))
            leader = partition.leader_id if partition.leader_id >= 0 else None
            if behind or leader is None:
                yield {
                    "topic": topic.name,
                    "partition": partition.partition_index,
                    "leader": leader,
                    "replicas": list(partition.replica_nodes),
                    "behind": behind,
                }


def _ask_reassignments(client: Client) -> list[dict[str, Any]] | Failure:
    if not client.serves(ListPartitionReassignmentsRequest):
        return Failure(ErrorCode.UNSUPPORTED_VERSION, _SINCE)
    answer = client.ask(ListPartitionReassignmentsRequest())
    if answer.error_code:
        return Failure.of(answer.error_code, answer.error_message)
    return [
        {
            "topic": topic.name,
            "partition": partition.partition_index,
            "replicas": list(partition.replicas),
            "adding": list(partition.adding_replicas),
            "removing": list(partition.removing_replicas),
        }
        for topic in answer.topics
        for partition in topic.partitions
    ][:MOST_ROWS]
