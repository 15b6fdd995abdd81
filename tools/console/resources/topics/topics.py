"""All topics: one compact answer with what Metadata has; sizes, offsets and lag for the topics in sight.

Ten thousand topics are one answer of some 400 KB. What costs a request to each broker is asked for a few topics.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from headgate.protocol.messages.metadata import MetadataResponseTopic
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.arguments import now_ms
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.parameters import Parameters
from headgate.tools.console.resources.groups.committed_offsets import RecentOffsets, group_lags
from headgate.tools.console.resources.missing_parts import MissingParts
from headgate.tools.groups.offsets import PartitionEnds, list_ends
from headgate.tools.log_directories import DirectoryDescription, describe_log_directories
from headgate.tools.topics import summarize_topic

COLUMNS: Final = (
    "topic",
    "partitions",
    "replication_factor",
    "is_internal",
    "partitions_offline",
    "partitions_under_replicated",
)
MOST_TOPICS: Final = 500
"""Of one question about topics in sight."""
_recent_offsets: Final = RecentOffsets()


class TopicSize(NamedTuple):
    """The bytes of a topic: those of all its replicas, and of its leaders alone. None: no broker has named any."""

    all_bytes: int | None
    leaders_bytes: int | None


def topics(cluster: Cluster, parameters: Parameters) -> dict[str, Any]:
    """All topics, sorted by name: a row of COLUMNS for each. Raises ClientError."""
    answer = cluster.refresh(None)
    rows = sorted(topic_row(topic) for topic in answer.topics if topic.partitions or not topic.error_code)
    return {"cluster_id": answer.cluster_id, "columns": list(COLUMNS), "rows": rows}


def topic_row(topic: MetadataResponseTopic) -> list[Any]:
    """The values of COLUMNS. Names with two underscores are internal by custom: Kafka marks only two of them."""
    summary = summarize_topic(topic)
    return [
        summary["topic"],
        summary["partitions"],
        summary["replication_factor"],
        summary["internal"] or str(topic.name).startswith("__"),
        sum(row.leader_id < 0 for row in topic.partitions),
        sum(len(row.isr_nodes) < len(row.replica_nodes) for row in topic.partitions),
    ]


def topic_figures(cluster: Cluster, parameters: Parameters) -> dict[str, Any]:
    """Sizes, offsets and lag of the topics `?topic=a&topic=b`. Raises ClientError, BadParameter."""
    wanted = parameters.texts("topic", MOST_TOPICS)
    missing = MissingParts()
    cluster.refresh(wanted)
    known = {name: topic for name, topic in cluster.topics(wanted).items() if topic.partitions}
    partitions = [TopicPartition(name, row.partition_index) for name in known for row in known[name].partitions]
    offsets = _recent_offsets.get(cluster) if known else None  # before the ends: none is beyond its end
    if offsets is not None:
        missing.note_sentences("lag", offsets.failures)
    ends = list_ends(cluster, partitions)
    measured_ms = now_ms()
    missing.note("records", ends.failed)
    directories, refused = describe_log_directories(cluster, partitions) if known else ({}, {})
    missing.note("size", refused, "broker")
    sizes = topic_sizes(known.values(), directories)
    rows = []
    for name in sorted(known):
        lags = [] if offsets is None else group_lags(offsets, name, ends.ends)
        groups = [{"group": group, "lag_records": records} for group, records in lags]
        rows.append({"topic": name, **_offset_fields(known[name], ends), **_size_fields(sizes[name]), "groups": groups})
    return {"measured_ms": measured_ms, "topics": rows, "missing": missing}


def _offset_fields(topic: MetadataResponseTopic, ends: PartitionEnds) -> dict[str, Any]:
    """Sums over the partitions with known ends; null without any. `end_offsets`: for rates, as it never falls."""
    known = [
        partition
        for row in topic.partitions
        if (partition := TopicPartition(topic.name or "", row.partition_index)) in ends.starts
    ]
    if not known:
        return {"records": None, "end_offsets": None}
    last = sum(ends.ends[partition] for partition in known)
    return {"records": last - sum(ends.starts[partition] for partition in known), "end_offsets": last}


def _size_fields(size: TopicSize) -> dict[str, Any]:
    return {"size_bytes": size.all_bytes, "leaders_size_bytes": size.leaders_bytes}


def topic_sizes(
    topics: Iterable[MetadataResponseTopic], directories: Mapping[int, Iterable[DirectoryDescription]]
) -> dict[str, TopicSize]:
    """The size of each topic, by the brokers that have answered; replicas on the move are not counted."""
    sizes: defaultdict[TopicPartition, dict[int, int]] = defaultdict(dict)
    for node, rows in directories.items():
        for replica in (replica for directory in rows for replica in directory.replicas if not replica.is_future):
            sizes[replica.partition][node] = replica.size_bytes
    return {topic.name or "": _topic_size(topic, sizes) for topic in topics}


def _topic_size(topic: MetadataResponseTopic, sizes: Mapping[TopicPartition, Mapping[int, int]]) -> TopicSize:
    found: list[int] = []
    led: list[int] = []
    for row in topic.partitions:
        by_node = sizes.get(TopicPartition(topic.name or "", row.partition_index), {})
        found += by_node.values()
        led += [by_node[row.leader_id]] if row.leader_id in by_node else []
    return TopicSize(sum(found) if found else None, sum(led) if led else None)
