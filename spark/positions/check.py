"""A checkpoint against the topics as they are: the records that a restart of the query would lose, miss or repeat.

Spark itself compares offsets alone. A topic may have been deleted and created again, with more records than the
checkpoint has read: Spark then goes on in the middle of other records. Only the ids of topics show that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from headgate.protocol.client.failure import Failure
from headgate.protocol.spark.checkpoint import NextOffsets
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.groups.offsets import PartitionEnds, is_unknown_partition


class CheckStatus(Enum):
    """The state of a partition for a restart."""

    OK = "ok"
    LOST = "lost"
    BEYOND_END = "beyond the end"
    MADE_ANEW = "made anew"
    GONE = "gone"
    ADDED = "added"
    UNKNOWN = "unknown"

    @property
    def is_alarm(self) -> bool:
        """True if the query would lose records, or read records of another topic."""
        return self in (CheckStatus.LOST, CheckStatus.BEYOND_END, CheckStatus.MADE_ANEW, CheckStatus.GONE)


class PartitionCheck(NamedTuple):
    """One partition. `offset`, `planned`: the next offset after the done and after the planned batch.

    `lost`: the number of offsets between the query and the log start, which are gone.
    """

    partition: TopicPartition
    offset: int | None
    planned: int | None
    start: int | None
    end: int | None
    lost: int
    status: CheckStatus


def check(
    offsets: NextOffsets,
    planned: NextOffsets,
    ends: PartitionEnds,
    partitions: Iterable[TopicPartition],
    noted: Mapping[str, bytes],
    present: Mapping[str, bytes],
) -> list[PartitionCheck]:
    """Each partition of the checkpoint, and the other ones of its topics. Pure.

    `partitions`: all partitions of the topics as they are now. `noted`, `present`: ids of topics.
    """
    known = {*offsets, *planned}
    anew = {name for name, topic_id in noted.items() if name in present and present[name] != topic_id}
    rows = []
    for partition in sorted({*known, *partitions}):
        offset, goal = offsets.get(partition), planned.get(partition)
        start, end = ends.starts.get(partition), ends.ends.get(partition)
        status = _status(partition, offset, goal, start, end, ends.failed.get(partition))
        if partition.topic in anew and status is not CheckStatus.UNKNOWN:
            status = CheckStatus.MADE_ANEW
        lost = max(0, start - offset) if start is not None and offset is not None and status is CheckStatus.LOST else 0
        rows.append(PartitionCheck(partition, offset, goal, start, end, lost, status))
    return rows


def _status(
    partition: TopicPartition,
    offset: int | None,
    planned: int | None,
    start: int | None,
    end: int | None,
    failure: Failure | None,
) -> CheckStatus:
    if start is None or end is None:
        return CheckStatus.GONE if failure is not None and is_unknown_partition(failure) else CheckStatus.UNKNOWN
    if offset is None:
        return CheckStatus.ADDED if start == 0 or planned is None else CheckStatus.LOST
    if max(offset, planned or 0) > end:
        return CheckStatus.BEYOND_END
    return CheckStatus.LOST if offset < start else CheckStatus.OK


def sentence(row: PartitionCheck) -> str:
    """The meaning of a partition's status for the query; empty if nothing happens."""
    match row.status:
        case CheckStatus.LOST:
            gone = (
                f"the offsets {row.offset} to {(row.start or 0) - 1} are gone" if row.lost else "its beginning is gone"
            )
            return f"{row.partition}: {gone}; the query fails, or with failOnDataLoss=false goes on at {row.start}"
        case CheckStatus.BEYOND_END:
            reached = max(row.offset or 0, row.planned or 0)
            return f"{row.partition}: the query has read to {reached}, but the log ends at {row.end}"
        case CheckStatus.MADE_ANEW:
            return f"{row.partition}: the topic was made anew; offset {row.offset} belongs to the topic that is deleted"
        case CheckStatus.GONE:
            return f"{row.partition}: there is no such partition any more"
        case CheckStatus.ADDED:
            return f"{row.partition}: new; a query that subscribes to the topic reads it from its start, {row.start}"
        case CheckStatus.UNKNOWN:
            return f"{row.partition}: its bounds are not known"
        case _:
            return ""
