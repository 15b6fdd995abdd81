"""Transactions: transactional ids as their coordinators know them, and open ones as the leaders of partitions do."""

from __future__ import annotations

from typing import Any, Final

from headgate.protocol.errors import ErrorCode
from headgate.protocol.topic_partition import TopicPartition, by_topic
from headgate.tools.arguments import now_ms
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.parameters import Parameters
from headgate.tools.console.resources.missing_parts import MissingParts
from headgate.tools.txn.open_transactions import Judgement, OpenTransaction, judge_confirmed, list_open_transactions
from headgate.tools.txn.transactions import (
    OPEN_STATES,
    ListedTransaction,
    describe_transactions,
    list_transactions,
)

COLUMNS: Final = ("transactional_id", "state", "producer_id", "coordinator")
MOST_IDS: Final = 200
"""Of one question about transactional ids in sight."""
MAX_TRANSACTION_TIMEOUT_MS: Final = 900_000
"""Kafka's default of transaction.max.timeout.ms: a younger open transaction may be ended yet."""


def transactions(cluster: Cluster, parameters: Parameters) -> dict[str, Any]:
    """All transactional ids, sorted: a row of COLUMNS for each. Raises ClientError."""
    listed, failures = list_transactions(cluster)
    missing = MissingParts()
    missing.note_sentences("transactions", failures)
    return {"columns": list(COLUMNS), "rows": [list(row) for row in listed], "missing": missing}


def transaction_figures(cluster: Cluster, parameters: Parameters) -> dict[str, Any]:
    """Timeouts, ages and partitions of the transactional ids `?transactional_id=a&transactional_id=b`.

    Raises ClientError, BadParameter.
    """
    found, failed = describe_transactions(cluster, parameters.texts("transactional_id", MOST_IDS))
    missing = MissingParts()
    gone = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND  # since the list was asked for
    missing.note("transactions", {name: why for name, why in failed.items() if why.code != gone}, "transactional id")
    at_ms = now_ms()
    rows = [transaction_row(found[name], at_ms) for name in sorted(found)]
    return {"measured_ms": at_ms, "transactions": rows, "missing": missing}


def transaction_row(transaction: ListedTransaction, at_ms: int) -> dict[str, Any]:
    """A transactional id; start and age only while its transaction is open."""
    start_time_ms = transaction.start_time_ms if transaction.state in OPEN_STATES else None
    topics = by_topic(sorted(transaction.partitions))
    return {
        "transactional_id": transaction.transactional_id,
        "state": transaction.state,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "timeout_ms": transaction.timeout_ms,
        "start_time_ms": start_time_ms,
        "age_ms": None if start_time_ms is None else max(0, at_ms - start_time_ms),
        "coordinator": transaction.coordinator,
        "partitions": {topic: [partition.number for partition in rows] for topic, rows in topics.items()},
    }


def open_transactions(cluster: Cluster, parameters: Parameters) -> dict[str, Any]:
    """The open transactions in all partitions, or in those of `?topic=a`; hanging ones are marked.

    `older_than_ms`: a younger one is never marked. Raises ClientError, BadParameter.
    """
    limit_ms = parameters.number("older_than_ms", MAX_TRANSACTION_TIMEOUT_MS)
    names = parameters.texts("topic")
    if names:
        cluster.refresh(names)
    topics = cluster.topics(names or None)
    partitions = [TopicPartition(name, row.partition_index) for name, one in topics.items() for row in one.partitions]
    found, failed = list_open_transactions(cluster, partitions)
    missing = MissingParts()
    missing.note("transactions", failed)
    listed = [one for partition in sorted(found) for one in found[partition]]
    judgements, failures = judge_confirmed(cluster, listed) if listed else ({}, [])
    missing.note_sentences("judgement", failures)
    at_ms = now_ms()
    rows = [open_row(one, judgements.get(one), limit_ms, at_ms) for one in listed]
    return {
        "measured_ms": at_ms,
        "older_than_ms": limit_ms,
        "partitions_asked": len(partitions),
        "open_transactions": rows,
        "missing": missing,
    }


def open_row(one: OpenTransaction, judgement: Judgement | None, limit_ms: int, at_ms: int) -> dict[str, Any]:
    """An open transaction in a partition. `is_hanging`: null if no coordinator has answered."""
    is_hanging = None if judgement is None else judgement.is_hanging and one.is_older(limit_ms, at_ms)
    age_ms = one.age_ms(at_ms)
    return {
        "topic": one.partition.topic,
        "partition": one.partition.number,
        "start_offset": one.start_offset,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "coordinator_epoch": one.coordinator_epoch,
        "last_timestamp_ms": one.last_timestamp_ms,
        "age_ms": None if age_ms is None else max(0, age_ms),
        "transactional_id": judgement.transactional_id if judgement else None,
        "is_hanging": is_hanging,
        "reason": judgement.reason if judgement else None,
    }
