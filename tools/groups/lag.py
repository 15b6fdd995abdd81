"""The lag of groups in partitions: committed offset, start and end, lag, owner.

Committed offsets are fetched before the ends: a group that commits in between never seems to be beyond the end.
For readers of committed records a partition ends at its last stable offset, before the first open transaction. Aborted
records and markers before that offset count as records, as the broker does not say how many they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from headgate.protocol.client.failure import Failure
from headgate.protocol.lag.measurement import UNKNOWN_TIMESTAMP, OffsetStatus, first_unread, measure
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client.cluster import Cluster, group_by_failure
from headgate.tools.groups.members import GroupDescription, MemberDescription
from headgate.tools.groups.offsets import (
    READ_UNCOMMITTED,
    CommittedOffsets,
    OffsetAndMetadata,
    PartitionEnds,
    is_unknown_partition,
    list_ends,
)
from headgate.tools.groups.oldest_unread import FetchPosition, find_oldest_unread
from headgate.tools.groups.stores import fetch_stored_offsets

NO_SUCH_PARTITION, UNKNOWN = "no such partition", "unknown"


class PartitionLag(NamedTuple):
    """The lag of a group in one partition, in records and in seconds.

    `status`: a value of `OffsetStatus`, or NO_SUCH_PARTITION, or UNKNOWN if the leader did not answer.
    """

    group: str
    partition: TopicPartition
    committed: OffsetAndMetadata | None
    start: int | None
    end: int | None
    records: int | None
    seconds: float | None
    status: str
    leader: int | None
    owner: MemberDescription | None

    @property
    def is_out_of_range(self) -> bool:
        return self.status in (OffsetStatus.BELOW_START.value, OffsetStatus.BEYOND_END.value)


def measure_lag(
    cluster: Cluster,
    groups: Mapping[str, GroupDescription],
    timestamp_ms: Callable[[], int],
    isolation_level: int = READ_UNCOMMITTED,
) -> tuple[list[PartitionLag], list[str]]:
    """The lag in every partition with a committed offset or an owner, and sentences about failures.

    `timestamp_ms` is called last, after all answers: it gives the reference of ages.
    """
    offsets, failed, unreadable = fetch_stored_offsets(cluster, groups)
    failures = [f"the offsets of group {name} are not known: {why.text}" for name, why in failed.items()]
    failures += unreadable
    owners = {name: owners_of(group) for name, group in groups.items() if name in offsets}
    rows, more = lag_of_offsets(cluster, offsets, timestamp_ms, isolation_level, owners)
    return rows, failures + more


def lag_of_offsets(
    cluster: Cluster,
    offsets: Mapping[str, CommittedOffsets],
    timestamp_ms: Callable[[], int],
    isolation_level: int = READ_UNCOMMITTED,
    owners: Mapping[str, Mapping[TopicPartition, MemberDescription]] | None = None,
) -> tuple[list[PartitionLag], list[str]]:
    """The lag at these offsets by reader, in every partition with an offset or an owner; and failures."""
    owned = owners or {}
    wanted = {name: sorted({*offsets[name], *owned.get(name, ())}) for name in offsets}
    ends = list_ends(cluster, {partition for rows in wanted.values() for partition in rows}, isolation_level)
    unknown = {partition: why for partition, why in ends.failed.items() if not is_unknown_partition(why)}
    failures = [f"{names}: {why.text}" for names, why in group_by_failure(unknown)]
    times, unreadable = _oldest_unread_times(cluster, offsets, ends)
    failures += [f"{row.partition}: the age of offset {row.offset} is not known: {why.text}" for row, why in unreadable]
    now_ms = timestamp_ms()
    rows = [
        _partition_lag(
            cluster,
            name,
            partition,
            offsets[name].get(partition),
            owned.get(name, {}).get(partition),
            ends,
            times,
            now_ms,
        )
        for name, partitions in sorted(wanted.items())
        for partition in partitions
    ]
    return rows, failures


def owners_of(group: GroupDescription) -> dict[TopicPartition, MemberDescription]:
    """The member of each assigned partition."""
    return {partition: member for member in group.members for partition in member.partitions}


def _oldest_unread_times(
    cluster: Cluster, offsets: Mapping[str, CommittedOffsets], ends: PartitionEnds
) -> tuple[dict[FetchPosition, int | None], list[tuple[FetchPosition, Failure]]]:
    """The time of the oldest unread record by position, for each position before the end; and failures."""
    bounds: dict[FetchPosition, int] = {}
    for rows in offsets.values():
        for partition, row in rows.items():
            if partition in ends.starts:
                start, end = ends.starts[partition], ends.readable_end(partition, row.offset)
                unread = first_unread(row.offset, start, end)
                if unread is not None:
                    bounds[FetchPosition(partition, unread)] = end
    found, failed = find_oldest_unread(cluster, bounds)
    return found, [(position, why) for position, why in failed.items() if not is_unknown_partition(why)]


def _partition_lag(
    cluster: Cluster,
    group: str,
    partition: TopicPartition,
    row: OffsetAndMetadata | None,
    owner: MemberDescription | None,
    ends: PartitionEnds,
    times: Mapping[FetchPosition, int | None],
    now_ms: int,
) -> PartitionLag:
    if partition not in ends.starts:
        status = NO_SUCH_PARTITION if is_unknown_partition(ends.failed[partition]) else UNKNOWN
        return PartitionLag(group, partition, row, None, None, None, None, status, None, owner)
    offset = None if row is None else row.offset
    start, end = ends.starts[partition], ends.readable_end(partition, offset)
    unread = first_unread(offset, start, end)
    oldest = None if unread is None else times.get(FetchPosition(partition, unread), UNKNOWN_TIMESTAMP)
    lag = measure(offset, start, end, oldest, now_ms)
    leader = cluster.routing.leader(partition)
    node = None if isinstance(leader, Failure) else leader
    return PartitionLag(group, partition, row, start, end, lag.records, lag.seconds, lag.status.value, node, owner)
