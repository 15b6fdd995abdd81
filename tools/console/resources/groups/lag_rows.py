"""Lag as JSON, with the names of Headgate's `/v1/lag.json`, so that a page shows the rows of both alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from headgate.tools.groups.lag import NO_SUCH_PARTITION, PartitionLag


def lag_row(row: PartitionLag) -> dict[str, Any]:
    """The lag of a group in one partition."""
    return {
        "topic": row.partition.topic,
        "partition": row.partition.number,
        "committed_offset": row.committed.offset if row.committed else None,
        "metadata": row.committed.metadata if row.committed else None,
        "start_offset": row.start,
        "end_offset": row.end,
        "lag_records": row.records,
        "lag_ms": _milliseconds(row.seconds),
        "status": row.status,
        "leader": row.leader,
        "member_id": row.owner.member_id if row.owner else None,
        "client_id": row.owner.client_id if row.owner else None,
        "host": row.owner.host if row.owner else None,
    }


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def rows_by_group(rows: Iterable[PartitionLag]) -> Mapping[str, list[PartitionLag]]:
    """The rows by group; a group without rows has an empty list."""
    groups: defaultdict[str, list[PartitionLag]] = defaultdict(list)
    for row in rows:
        groups[row.group].append(row)
    return groups


def totals(rows: Iterable[PartitionLag]) -> dict[str, Any]:
    """The sum of the lags in records and the largest lag in time, as far as they are known.

    `partitions_out_of_range`: those whose committed offset is in no partition, or below or beyond its records.
    """
    found = list(rows)
    records = [row.records for row in found if row.records is not None]
    seconds = [row.seconds for row in found if row.seconds is not None]
    return {
        "lag_records": sum(records) if records else None,
        "lag_ms": _milliseconds(max(seconds, default=None)),
        "partitions_total": len(found),
        "partitions_out_of_range": sum(row.is_out_of_range or row.status == NO_SUCH_PARTITION for row in found),
    }
