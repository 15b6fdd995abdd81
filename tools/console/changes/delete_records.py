"""Delete the records of a topic before an offset of each partition, or all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from headgate.protocol.messages.delete_records import TO_HIGH_WATERMARK
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client.cluster import Cluster, group_by_failure
from headgate.tools.configs import describe_topic_configs
from headgate.tools.console.changes.plan import ChangeLine, ChangePlan, ChangeResult, counted
from headgate.tools.console.changes.readers import committed_offsets
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.console.resources.topics.topic import find_topic
from headgate.tools.groups.offsets import PartitionEnds, list_ends
from headgate.tools.topic_changes import delete_records as request_deletion

_MOST_PARTITIONS: Final = 10_000
_MOST_DONE: Final = 20
"""Partitions that have a sentence of their own in the result."""
_TO_END: Final = "end"
_SHAPE: Final = "offset={} is no offset of a partition; write partition:offset, as in 0:1200, or 0:end"
_COMPACTED: Final = "cleanup.policy of {} is {}: brokers delete records before an offset only where it has delete"
_INTERNAL: Final = "{} belongs to the brokers, which alone delete its records"


def delete_records(cluster: Cluster, parameters: Parameters) -> ChangePlan:
    """Delete the records of the topic `topic` before each `offset`, `partition:offset` or `partition:end`.

    With `all=true` all records of all partitions are deleted. Raises BadParameter, ClientError.
    """
    name = parameters.text("topic")
    topic = find_topic(cluster, name)
    partitions = sorted(TopicPartition(name, row.partition_index) for row in topic.partitions)
    wanted = _wanted(name, partitions, parameters)
    unknown = [f"{partition} does not exist" for partition in wanted if partition not in partitions]
    wanted = {partition: wanted[partition] for partition in partitions if partition in wanted}
    ends = list_ends(cluster, wanted)
    wrong = [sentence for partition, offset in wanted.items() if (sentence := _problem(partition, offset, ends))]
    lost = [f"{names}: {why.text}" for names, why in group_by_failure(ends.failed)]
    policy = [_INTERNAL.format(name)] if topic.is_internal else _policy_problem(cluster, name)
    deleted = {partition: _before(partition, offset, ends) for partition, offset in wanted.items()}
    offsets = {partition: offset for partition, offset in wanted.items() if deleted[partition]}
    problems = [*policy, *unknown, *lost, *wrong]
    unread = {} if problems else _unread(cluster, offsets, ends)
    scope = "" if len(partitions) == 1 else f" in {len(offsets):,} of its {len(partitions):,} partitions"
    return ChangePlan(
        f"Delete {counted(sum(deleted.values()), 'record')} of the topic {name}{scope}",
        [_line(partition, offset, ends, unread.get(partition, {})) for partition, offset in offsets.items()],
        lambda cluster: _delete(cluster, offsets),
        problems or ([] if offsets else [f"there is nothing to delete: {name} has no record before these offsets"]),
        confirmation=name,
    )


def _wanted(topic: str, partitions: Sequence[TopicPartition], parameters: Parameters) -> dict[TopicPartition, int]:
    if parameters.flag("all"):
        return dict.fromkeys(partitions, TO_HIGH_WATERMARK)
    offsets = _offsets(topic, parameters.texts("offset", _MOST_PARTITIONS))
    if not offsets:
        raise BadParameter("name an offset of a partition at least, or choose all records")
    return offsets


def _offsets(topic: str, texts: list[str]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for text in texts:
        number, _, offset = text.partition(":")
        if not (_is_number(number) and (offset == _TO_END or _is_number(offset))):
            raise BadParameter(_SHAPE.format(text[:40]))
        partition = TopicPartition(topic, int(number))
        if partition in found:
            raise BadParameter(f"there are two offsets of {partition}")
        found[partition] = TO_HIGH_WATERMARK if offset == _TO_END else int(offset)
    return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 18


def _problem(partition: TopicPartition, offset: int, ends: PartitionEnds) -> str:
    if partition not in ends.ends or offset == TO_HIGH_WATERMARK:
        return ""
    if offset > ends.ends[partition]:
        return f"{partition} ends at {ends.ends[partition]:,}: no record has the offset {offset:,}"
    return ""


def _policy_problem(cluster: Cluster, topic: str) -> list[str]:
    """A sentence if compaction alone may remove records; none if the configs are not known."""
    configs, _ = describe_topic_configs(cluster, [topic])
    policies = [row.value or "" for row in configs.get(topic, []) if row.name == "cleanup.policy"]
    return [_COMPACTED.format(topic, policy or "empty") for policy in policies if "delete" not in policy]


def _before(partition: TopicPartition, offset: int, ends: PartitionEnds, first: int = 0) -> int:
    """The number of records before the offset, from `first` on, with those that compaction has removed."""
    if partition not in ends.starts:
        return 0
    end = ends.ends[partition]
    stop = end if offset == TO_HIGH_WATERMARK else min(offset, end)
    return max(0, stop - max(first, ends.starts[partition]))


def _unread(
    cluster: Cluster, offsets: Mapping[TopicPartition, int], ends: PartitionEnds
) -> dict[TopicPartition, dict[str, int]]:
    """The numbers of records that groups have not read, by partition and group; a group that refuses is left out."""
    unread: dict[TopicPartition, dict[str, int]] = {partition: {} for partition in offsets}
    for group, rows in committed_offsets(cluster).items():
        for partition, row in rows.items():
            if partition in offsets and (count := _before(partition, offsets[partition], ends, row.offset)):
                unread[partition][group] = count
    return unread


def _line(partition: TopicPartition, offset: int, ends: PartitionEnds, unread: Mapping[str, int]) -> ChangeLine:
    count, start = _before(partition, offset, ends), ends.starts[partition]
    note = f"{count:,} records, offsets {start:,} to {start + count - 1:,}"
    if unread:
        last = max(unread, key=lambda group: unread[group])
        others = len(unread) - 1
        more = f" and {others} more {'group' if others == 1 else 'groups'}" if others else ""
        note += f"; {unread[last]:,} not read by {last}{more}"
    if offset == TO_HIGH_WATERMARK:
        return ChangeLine(str(partition), f"from {start:,}", "empty", f"{note}; also those written until then")
    return ChangeLine(str(partition), f"from {start:,}", f"from {offset:,}", note)


def _delete(cluster: Cluster, offsets: Mapping[TopicPartition, int]) -> ChangeResult:
    found, failed = request_deletion(cluster, offsets)
    done = [f"{partition} begins at {offset:,}" for partition, offset in sorted(found.items())]
    if len(done) > _MOST_DONE:
        done = [f"Records of {len(done):,} partitions are deleted"]
    return ChangeResult(done, [f"{names}: {why.text}" for names, why in group_by_failure(failed)])
