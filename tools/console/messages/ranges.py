"""The offsets that a search has to read, by the ends of the partitions at its beginning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client.client import ClientError
from headgate.tools.client.cluster import Cluster, group_by_failure
from headgate.tools.console.messages import query as queries
from headgate.tools.console.messages.query import MOST_PARTITIONS, MessageQuery, too_many_partitions
from headgate.tools.console.messages.scan import OffsetSpan
from headgate.tools.groups import offsets
from headgate.tools.groups.offsets import list_offsets
from headgate.tools.log_directories import describe_log_directories


class SearchRanges(NamedTuple):
    """Offsets to read by partition, all readable offsets, the last stable offsets, and a sentence for each failure."""

    ranges: dict[int, OffsetSpan]
    known: dict[int, OffsetSpan]
    stable: dict[int, int]
    problems: list[str]


def find_ranges(cluster: Cluster, query: MessageQuery) -> SearchRanges:
    """Ask for the ends of the query's partitions, and for the offsets of its times.

    Raises ClientError, BadParameter.
    """
    partitions = find_partitions(cluster, query)
    ends = offsets.list_ends(cluster, partitions, offsets.READ_COMMITTED)
    problems = [f"{names} cannot be read: {failure.text}" for names, failure in group_by_failure(ends.failed)]
    readable = [partition for partition in partitions if partition in ends.starts]
    if not readable:
        raise ClientError(problems[0])
    last = ends.stable if query.is_committed else ends.ends
    known = {partition.number: OffsetSpan(ends.starts[partition], last[partition]) for partition in readable}
    stable = {partition.number: ends.stable[partition] for partition in readable}
    if query.ranges is not None:
        ranges = {number: _cut(query.ranges[number], known[number]) for number in query.ranges if number in known}
        return SearchRanges(ranges, known, stable, problems)
    starts = _starts(cluster, query, known)
    until = {} if query.until_ms is None else _offsets_of_time(cluster, query.topic, known, query.until_ms)
    ranges = {number: OffsetSpan(starts[number], until.get(number, known[number].end)) for number in known}
    return SearchRanges({number: _cut(ranges[number], known[number]) for number in known}, known, stable, problems)


def _cut(wanted: OffsetSpan, known: OffsetSpan) -> OffsetSpan:
    start = min(max(wanted.start, known.start), known.end)
    return OffsetSpan(start, max(start, min(wanted.end, known.end)))


def find_partitions(cluster: Cluster, query: MessageQuery) -> list[TopicPartition]:
    """The query's partitions. Raises ClientError for a topic or a partition that does not exist."""
    row = cluster.topics([query.topic]).get(query.topic)
    if row is None or row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise ClientError(f"there is no topic {query.topic}, or this user may not see it")
    if row.error_code:
        raise ClientError(f"{query.topic}: {Failure.of(row.error_code).text}")
    numbers = sorted(each.partition_index for each in row.partitions)
    wanted = query.partitions or tuple(query.ranges or ()) or tuple(numbers)
    missing = sorted(set(wanted).difference(numbers))
    if missing:
        raise ClientError(f"{query.topic} has no partition {missing[0]}; it has {len(numbers)}, from 0 on")
    if len(wanted) > MOST_PARTITIONS:
        raise too_many_partitions(len(wanted))
    return [TopicPartition(query.topic, number) for number in wanted]


def _starts(cluster: Cluster, query: MessageQuery, known: Mapping[int, OffsetSpan]) -> dict[int, int]:
    match query.start:
        case queries.OFFSET:
            return dict.fromkeys(known, query.offset)
        case queries.TIME:
            found = _offsets_of_time(cluster, query.topic, known, query.time_ms)
            return {number: found.get(number, known[number].end) for number in known}
        case queries.LIVE:
            return {number: range_.end for number, range_ in known.items()}
    return {number: range_.start for number, range_ in known.items()}


def _offsets_of_time(cluster: Cluster, topic: str, known: Mapping[int, OffsetSpan], time_ms: int) -> dict[int, int]:
    """The first offset of each partition with this time or a later one; none without such a message.

    Raises ClientError if a leader does not answer: the search would be another one.
    """
    partitions = [TopicPartition(topic, number) for number in known]
    found, failed = list_offsets(cluster, partitions, time_ms)
    for names, failure in group_by_failure(failed):
        raise ClientError(f"{names}: the offset of the time is not known: {failure.text}")
    return {partition.number: offset for partition, offset in found.items() if offset >= 0}


def estimate_bytes(cluster: Cluster, topic: str, found: SearchRanges) -> int | None:
    """About the bytes of the ranges, by the sizes of their logs; None if no broker answers."""
    partitions = [TopicPartition(topic, number) for number in found.ranges]
    directories, failed = describe_log_directories(cluster, partitions)
    sizes: dict[int, int] = {}
    for replica in (each for rows in directories.values() for row in rows for each in row.replicas):
        if not replica.is_future:
            number = replica.partition.number
            sizes[number] = max(sizes.get(number, 0), replica.size_bytes)
    if failed and not sizes:
        return None
    shares = (
        sizes.get(number, 0) * range_.offsets / found.known[number].offsets
        for number, range_ in found.ranges.items()
        if range_.offsets
    )
    return round(sum(shares))
