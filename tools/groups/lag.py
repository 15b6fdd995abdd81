"""Groups' places in partitions as rows: committed offset, ends, lag, owner.

Committed offsets are asked for before the ends, so that a group that goes on meanwhile never stands beyond them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from headgate.protocol.messages.list_offsets import EARLIEST, LATEST
from headgate.storage.lag import UNKNOWN_TIMESTAMP, Lag, Standing, first_unread, measure
from headgate.tools.groups.cluster import Cluster, Failure, TopicPartition, together
from headgate.tools.groups.members import Group, Member
from headgate.tools.groups.offsets import Committed, Offsets, committed, find_offsets, is_gone
from headgate.tools.groups.oldest import Position, oldest_unread

GONE, UNKNOWN = "no such partition", "unknown"


class Place(NamedTuple):
    """A group in a partition. `status` is a `Standing`, or GONE, or UNKNOWN where its leader could not be asked."""

    group: str
    partition: TopicPartition
    committed: Committed | None
    start: int | None
    end: int | None
    records: int | None
    seconds: float | None
    status: str
    leader: int | None
    owner: Member | None

    @property
    def is_out_of_range(self) -> bool:
        return self.status in (Standing.BELOW_START.value, Standing.BEYOND_END.value)


class _Ends(NamedTuple):
    """What partitions hold, and why that is not known of some."""

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    failed: Mapping[TopicPartition, Failure]


def places(
    cluster: Cluster, groups: Mapping[str, Group], timestamp_ms: Callable[[], int]
) -> tuple[list[Place], list[str]]:
    """Each partition that a group has committed to or is assigned, and what could not be asked."""
    offsets, lost = committed(cluster, groups)
    failures = [f"the offsets of group {name} are not known: {why.text}" for name, why in lost.items()]
    owners = {name: _owners(group) for name, group in groups.items() if name in offsets}
    wanted = {name: sorted({*offsets[name], *owners[name]}) for name in owners}
    ends = _ask_ends(cluster, {partition for rows in wanted.values() for partition in rows})
    unknown = {one: why for one, why in ends.failed.items() if not is_gone(why)}
    failures += [f"{names}: {why.text}" for names, why in together(unknown)]
    times, unreadable = _oldest(cluster, offsets, ends)
    failures += [f"{one.partition}: the age of offset {one.offset} is not known: {why.text}" for one, why in unreadable]
    now_ms = timestamp_ms()
    rows = [
        _place(cluster, name, partition, offsets[name].get(partition), owners[name].get(partition), ends, times, now_ms)
        for name, partitions in sorted(wanted.items())
        for partition in partitions
    ]
    return rows, failures


def _owners(group: Group) -> dict[TopicPartition, Member]:
    return {partition: member for member in group.members for partition in member.partitions}


def _ask_ends(cluster: Cluster, partitions: Iterable[TopicPartition]) -> _Ends:
    ends, failed = find_offsets(cluster, partitions, LATEST)
    starts, failed_too = find_offsets(cluster, ends, EARLIEST)
    return _Ends(starts, ends, {**failed, **failed_too})


def _oldest(
    cluster: Cluster, offsets: Mapping[str, Offsets], ends: _Ends
) -> tuple[dict[Position, int | None], list[tuple[Position, Failure]]]:
    """The time of the oldest unread record for every place with something to read."""
    bounds: dict[Position, int] = {}
    for rows in offsets.values():
        for partition, row in rows.items():
            if partition in ends.starts:
                start, end = ends.starts[partition], ends.ends[partition]
                unread = first_unread(row.offset, start, end)
                if unread is not None:
                    bounds[Position(partition, unread)] = end
    found, failed = oldest_unread(cluster, bounds)
    return found, [(position, why) for position, why in failed.items() if not is_gone(why)]


def _place(
    cluster: Cluster,
    group: str,
    partition: TopicPartition,
    row: Committed | None,
    owner: Member | None,
    ends: _Ends,
    times: Mapping[Position, int | None],
    now_ms: int,
) -> Place:
    if partition not in ends.starts:
        status = GONE if is_gone(ends.failed[partition]) else UNKNOWN
        return Place(group, partition, row, None, None, None, None, status, None, owner)
    start, end = ends.starts[partition], ends.ends[partition]
    lag = _lag(partition, row, start, end, times, now_ms)
    leader = cluster.leader(partition)
    node = None if isinstance(leader, Failure) else leader
    return Place(group, partition, row, start, end, lag.records, lag.seconds, lag.standing.value, node, owner)


def _lag(
    partition: TopicPartition,
    row: Committed | None,
    start: int,
    end: int,
    times: Mapping[Position, int | None],
    now_ms: int,
) -> Lag:
    offset = None if row is None else row.offset
    unread = first_unread(offset, start, end)
    oldest = None if unread is None else times.get(Position(partition, unread), UNKNOWN_TIMESTAMP)
    return measure(offset, start, end, oldest, now_ms)
