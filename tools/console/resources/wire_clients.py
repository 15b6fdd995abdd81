"""Clients as any Kafka names them on its wire: members of groups, and idempotent or transactional producers.

The wire has no list of connections: a consumer without a group and a producer without idempotence stay unknown, and
the software, versions, rates and errors of all clients.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_producers import DescribeProducersRequest
from headgate.protocol.messages.list_transactions import ListTransactionsRequest
from headgate.protocol.messages.metadata import MetadataResponseTopic
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client.cluster import Cluster, sole_answer
from headgate.tools.console.resources.missing_parts import MissingParts
from headgate.tools.groups.members import GroupDescription, describe_groups, list_groups
from headgate.tools.output import Row
from headgate.tools.txn.open_transactions import ActiveProducer, list_producers
from headgate.tools.txn.transactions import list_transactions

MAX_PARTITIONS: Final = 2_000
"""Whose producers are asked for: each leader looks at each partition."""
_WITHOUT_MEMBERS: Final = frozenset({"Empty", "Dead"})


def member_rows(cluster: Cluster, missing: MissingParts) -> list[Row]:
    """The members of all groups that the visitor may describe. Raises ClientError."""
    listed, failures = list_groups(cluster)
    missing.note_sentences("members", failures)
    groups, failed = describe_groups(cluster, [row.name for row in listed if row.state not in _WITHOUT_MEMBERS])
    missing.note("members", {name: why for name, why in failed.items() if why.code != ErrorCode.GROUP_ID_NOT_FOUND})
    return [row for name in sorted(groups) for row in _members_of(groups[name])]


def _members_of(group: GroupDescription) -> Iterable[Row]:
    for member in group.members:
        yield {
            "group": group.name,
            "group_type": group.type,
            "group_state": group.state,
            "member_id": member.member_id,
            "instance_id": member.instance_id,
            "client_id": member.client_id,
            "address": member.host.removeprefix("/"),
            "topics": sorted({partition.topic for partition in member.partitions}),
            "partitions": len(member.partitions),
        }


def producer_rows(cluster: Cluster, missing: MissingParts) -> list[Row]:
    """The producers that partitions remember, by producer id. Raises ClientError."""
    if not sole_answer(cluster.ask_any("versions", lambda client: client.serves(DescribeProducersRequest))):
        missing.note_sentences("producers", ["this broker is too old: producers can be listed from Kafka 2.8 on"])
        return []
    partitions = _partitions(cluster.topics(None))
    if len(partitions) > MAX_PARTITIONS:
        sentence = f"the producers of {MAX_PARTITIONS} partitions are shown, of {len(partitions)} in all"
        missing.note_sentences("producers", [sentence])
    found, failed = list_producers(cluster, partitions[:MAX_PARTITIONS])
    missing.note("producers", failed)
    return rows_by_producer(found, _transactional_ids(cluster, missing))


def _partitions(topics: Mapping[str, MetadataResponseTopic]) -> list[TopicPartition]:
    """Those of topics that clients write: the producers of internal topics are brokers."""
    return [
        TopicPartition(name, partition.partition_index)
        for name, topic in sorted(topics.items())
        if not topic.is_internal and not topic.error_code
        for partition in topic.partitions
    ]


def _transactional_ids(cluster: Cluster, missing: MissingParts) -> dict[int, str]:
    """Transactional ids by producer id."""
    if not sole_answer(cluster.ask_any("versions", lambda client: client.serves(ListTransactionsRequest))):
        missing.note_sentences("transactional_ids", ["this broker is too old: they can be listed from Kafka 3.0 on"])
        return {}
    listed, failures = list_transactions(cluster)
    missing.note_sentences("transactional_ids", failures)
    return {row.producer_id: row.transactional_id for row in listed}


def rows_by_producer(
    found: Mapping[TopicPartition, Iterable[ActiveProducer]], transactional_ids: Mapping[int, str]
) -> list[Row]:
    """A row for each producer id, the last writer first. Pure."""
    written: defaultdict[int, list[tuple[TopicPartition, ActiveProducer]]] = defaultdict(list)
    for partition, producers in found.items():
        for producer in producers:
            written[producer.producer_id].append((partition, producer))
    rows = [_producer_row(number, places, transactional_ids.get(number)) for number, places in written.items()]
    return sorted(rows, key=lambda row: (-(row["last_timestamp_ms"] or 0), row["producer_id"]))


def _producer_row(
    producer_id: int, places: list[tuple[TopicPartition, ActiveProducer]], transactional_id: str | None
) -> dict[str, Any]:
    times = [producer.last_timestamp_ms for _, producer in places if producer.last_timestamp_ms is not None]
    return {
        "producer_id": producer_id,
        "producer_epoch": max(producer.producer_epoch for _, producer in places),
        "transactional_id": transactional_id,
        "is_in_transaction": any(producer.transaction_start_offset is not None for _, producer in places),
        "topics": sorted({partition.topic for partition, _ in places}),
        "partitions": len(places),
        "last_timestamp_ms": max(times, default=None),
    }
