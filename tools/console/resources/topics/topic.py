"""One topic: partitions with offsets and replicas, configs with sources, the groups that read it, its producers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from typing import Any, Final, TypeVar

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.list_offsets import LATEST
from headgate.protocol.messages.metadata import MetadataResponseTopic
from headgate.protocol.topic_partition import TopicPartition
from headgate.storage.disk.layout import format_id
from headgate.tools.arguments import now_ms
from headgate.tools.client.client import ClientError
from headgate.tools.client.cluster import Cluster
from headgate.tools.configs import ConfigDescription, describe_topic_configs
from headgate.tools.console.parameters import Parameters
from headgate.tools.console.resources.groups.lag_rows import lag_row, rows_by_group, totals
from headgate.tools.console.resources.missing_parts import MissingParts
from headgate.tools.groups.lag import PartitionLag, lag_of_offsets, owners_of
from headgate.tools.groups.members import GroupDescription, describe_groups, list_groups
from headgate.tools.groups.offsets import READ_COMMITTED, READ_UNCOMMITTED, list_ends, list_offsets
from headgate.tools.groups.selection import TYPES_WITH_OFFSETS, group_failures
from headgate.tools.groups.stores import fetch_stored_offsets
from headgate.tools.log_directories import DirectoryDescription, describe_log_directories
from headgate.tools.topics import describe_partitions
from headgate.tools.txn.open_transactions import ActiveProducer, list_producers
from headgate.tools.txn.transactions import TransactionFilters, list_transactions

MOST_PRODUCERS: Final = 5_000
"""In one answer; a partition keeps a producer for a day after its last batch."""
_NO_ID: Final = bytes(16)

V = TypeVar("V")


def topic(cluster: Cluster, parameters: Parameters) -> dict[str, Any]:
    """The topic `?topic=name` with its partitions and replicas. Raises ClientError, BadParameter."""
    found = find_topic(cluster, parameters.text("topic"))
    partitions = _partitions(found)
    missing = MissingParts()
    # Last stable offsets first: none is beyond the end
    stable, unstable = list_offsets(cluster, partitions, LATEST, READ_COMMITTED)
    missing.note("last_stable_offset", unstable)
    ends = list_ends(cluster, partitions)
    measured_ms = now_ms()
    missing.note("offsets", ends.failed)
    directories, refused = describe_log_directories(cluster, partitions)
    missing.note("sizes", refused, "broker")
    offline = {row.partition_index: list(row.offline_replicas) for row in found.partitions}
    rows = [
        {
            **row,
            "offline_replicas": offline[row["partition"]],
            "start_offset": ends.starts.get(partition),
            "end_offset": ends.ends.get(partition),
            "last_stable_offset": stable.get(partition),
        }
        for row in describe_partitions(found)
        if (partition := TopicPartition(str(found.name), row["partition"]))
    ]
    return {
        "topic": found.name,
        "topic_id": None if found.topic_id == _NO_ID else format_id(found.topic_id),
        "is_internal": found.is_internal,
        "measured_ms": measured_ms,
        "partitions": rows,
        "replicas": replica_rows(directories),
        "missing": missing,
    }


def find_topic(cluster: Cluster, name: str) -> MetadataResponseTopic:
    """The topic as the brokers know it now. Raises ClientError if there is none."""
    cluster.refresh([name])
    found = cluster.topics([name]).get(name)
    if found is None or found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise ClientError(f"there is no topic {name}, or this user may not see it (Describe)")
    if found.error_code and not found.partitions:
        raise ClientError(f"topic {name}: {Failure.of(found.error_code).text}")
    return found


def _partitions(found: MetadataResponseTopic) -> list[TopicPartition]:
    return sorted(TopicPartition(found.name or "", row.partition_index) for row in found.partitions)


def replica_rows(directories: Mapping[int, list[DirectoryDescription]]) -> list[dict[str, Any]]:
    """A row for each replica in a log directory, by partition and broker."""
    rows = [
        {
            "topic": replica.partition.topic,
            "partition": replica.partition.number,
            "broker": node,
            "log_directory": directory.path,
            "size_bytes": replica.size_bytes,
            "offset_lag_records": replica.offset_lag,
            "is_future": replica.is_future,
        }
        for node, found in directories.items()
        for directory in found
        for replica in directory.replicas
    ]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["broker"], row["is_future"]))


# ------------------------------------------------------------------------------------------------------------- configs


def topic_configs(cluster: Cluster, parameters: Parameters) -> dict[str, Any]:
    """The configs of the topic `?topic=name`. Raises ClientError, BadParameter."""
    name = parameters.text("topic")
    missing = MissingParts()
    found, failed = describe_topic_configs(cluster, [name])
    missing.note("configs", failed, "topic")
    rows = found.get(name, [])
    if rows and all(row.type is None for row in rows):
        missing.note_sentences("documentation", ["the broker is older than Kafka 2.6, and sends no documentation"])
    if rows and all(row.source is None for row in rows):
        missing.note_sentences(
            "source", ["the broker is older than Kafka 1.1, and says only which values are defaults"]
        )
    return {"topic": name, "configs": [config_row(row) for row in rows], "missing": missing}


def config_row(config: ConfigDescription) -> dict[str, Any]:
    """A config; Kafka writes its documentation in HTML, and the page shows text."""
    return {
        **config._asdict(),
        "synonyms": [synonym._asdict() for synonym in config.synonyms],
        "documentation": None if config.documentation is None else text_of_html(config.documentation),
    }


class _TextParser(HTMLParser):
    """Collects the text between the tags."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


def text_of_html(document: str) -> str:
    """The text between the tags, with one space in place of all white space."""
    parser = _TextParser()
    parser.feed(document)
    parser.close()
    return " ".join("".join(parser.parts).split())


# -------------------------------------------------------------------------------------------------------------- groups


def topic_groups(cluster: Cluster, parameters: Parameters) -> dict[str, Any]:
    """The groups that read the topic `?topic=name`, by offsets or by members, with their lag.

    Raises ClientError, BadParameter.
    """
    name = parameters.text("topic")
    missing = MissingParts()
    listed, failures = list_groups(cluster)
    described, refused = describe_groups(
        cluster, [row.name for row in listed if row.type.lower() in TYPES_WITH_OFFSETS]
    )
    committed, unread, unreadable = fetch_stored_offsets(cluster, described)
    failures += group_failures({**refused, **unread}, accept_missing=True) + unreadable
    missing.note_sentences("groups", failures)
    offsets = {group: _of_topic(rows, name) for group, rows in committed.items()}
    owners = {group: _of_topic(owners_of(described[group]), name) for group in offsets}
    readers = {group: rows for group, rows in offsets.items() if rows or owners[group]}
    rows, unknown = lag_of_offsets(cluster, readers, now_ms, READ_UNCOMMITTED, owners)
    missing.note_sentences("lag", unknown)
    by_group = rows_by_group(rows)
    groups = [reader_row(described[group], by_group[group]) for group in sorted(readers)]
    return {"topic": name, "measured_ms": now_ms(), "groups": groups, "missing": missing}


def _of_topic(rows: Mapping[TopicPartition, V], topic: str) -> dict[TopicPartition, V]:
    return {partition: row for partition, row in rows.items() if partition.topic == topic}


def reader_row(group: GroupDescription, rows: Sequence[PartitionLag]) -> dict[str, Any]:
    """A group with its lag in the partitions of a topic."""
    return {
        "group": group.name,
        "type": group.type,
        "state": group.state,
        "members": len(group.members),
        **totals(rows),
        "partitions": [lag_row(row) for row in rows],
    }


# ----------------------------------------------------------------------------------------------------------- producers


def topic_producers(cluster: Cluster, parameters: Parameters) -> dict[str, Any]:
    """The idempotent and transactional producers of the topic `?topic=name`. Raises ClientError, BadParameter.

    A producer without idempotence leaves no state: no broker can name it by its records.
    """
    found = find_topic(cluster, parameters.text("topic"))
    missing = MissingParts()
    producers, failed = list_producers(cluster, _partitions(found))
    missing.note("producers", failed)
    rows = [(partition, producer) for partition in sorted(producers) for producer in producers[partition]]
    names = _transactional_ids(cluster, [producer for _, producer in rows], missing)
    return {
        "topic": found.name,
        "measured_ms": now_ms(),
        "producers_total": len(rows),
        "producers": [
            {
                "partition": partition.number,
                **producer._asdict(),
                "transactional_id": names.get(producer.producer_id),
            }
            for partition, producer in rows[:MOST_PRODUCERS]
        ],
        "missing": missing,
    }


def _transactional_ids(cluster: Cluster, producers: list[ActiveProducer], missing: MissingParts) -> dict[int, str]:
    """Transactional ids by producer id, for producers that have had a transaction or may be in their first one."""
    producer_ids = sorted({producer.producer_id for producer in producers})
    if not producer_ids:
        return {}
    listed, failures = list_transactions(cluster, TransactionFilters(producer_ids=producer_ids[:MOST_PRODUCERS]))
    missing.note_sentences("transactional_id", failures)
    return {row.producer_id: row.transactional_id for row in listed}
